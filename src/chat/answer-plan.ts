// How the text of an answer will be taken apart: decided from the request and the model before the engine is asked.

import type { ConstraintSpec } from "../grammar/constraint.js";
import type { AnswerOptions } from "./answer.js";
import { endsThinking, type ReasoningTags } from "./reasoning.js";
import { type Bounds, thoughtsOf } from "./thoughts.js";
import type { FunctionTool } from "./tool.js";
import { forcedFormat } from "./tools/force-call.js";
import type { ToolFormat, ToolSet } from "./tools/tool-format.js";

export interface AnswerPlan {
  readonly answer: AnswerOptions;
  /** For the engine: markers that are special tokens stay in the text; the constraint waits for the thoughts. */
  readonly options: { readonly skipSpecialTokens?: false; readonly constraint?: ConstraintSpec };
}

/** How a model writes calls and thoughts; null: such text is text like any other. */
export interface AnswerForm {
  readonly toolFormat: ToolFormat | null;
  readonly reasoningTags: ReasoningTags | null;
}

/** `prompt`: its text. `constrained`: by what the answer is bound, if at all. Without `bounds` a bound answer begins at once. */
export function planAnswer(
  { toolFormat, reasoningTags }: AnswerForm,
  prompt: string,
  tools: readonly FunctionTool[],
  constrained: "no" | "forced call" | "text",
  bounds: Bounds | null = null,
): AnswerPlan {
  const thoughts = bounds === null ? null : thoughtsOf(toolFormat, reasoningTags, prompt, bounds);
  const isFree = constrained === "no";
  const isParted = isFree || thoughts !== null;
  const partsReasoning = isParted && toolFormat?.partsReasoning === true && reasoningTags !== null;
  const hasTools = tools.length > 0 || partsReasoning;
  const isOwn = isFree || partsReasoning;
  const format = toolFormat === null || !hasTools ? null : isOwn ? toolFormat : forcedFormat(toolFormat);
  // A bound answer that begins at once has no thoughts to part from.
  const tags = isParted && !partsReasoning ? reasoningTags : null;
  const needsSpecialTokens = format?.needsSpecialTokens === true || tags?.needsSpecialTokens === true;
  return {
    answer: {
      reasoning: tags === null ? null : { tags, isThinking: endsThinking(prompt, tags), ...closeOf(tags, bounds) },
      tools: format === null ? null : { format, set: toolSetOf(tools) },
    },
    options: {
      ...(needsSpecialTokens ? { skipSpecialTokens: false } : {}),
      ...(thoughts === null ? {} : { constraint: { ...(bounds?.constraint ?? ANY), thoughts } }),
    },
  };
}

function closeOf({ close }: ReasoningTags, bounds: Bounds | null): { closeId?: number } {
  const [closeId, ...rest] = bounds?.encode(close) ?? [];
  return closeId === undefined || rest.length > 0 ? {} : { closeId };
}

const ANY: ConstraintSpec = { kind: "any", source: "" };

function toolSetOf(tools: readonly FunctionTool[]): ToolSet {
  const schemas = new Map(tools.map((tool) => [tool.function.name, tool.function.parameters]));
  return {
    names: new Set(schemas.keys()),
    parameter: (tool, name) => (schemas.get(tool)?.properties as Record<string, unknown> | undefined)?.[name],
  };
}
