// How the text of an answer will be taken apart: decided from the request and the model before the engine is asked.

import type { AnswerOptions } from "./answer.js";
import { endsThinking, type ReasoningTags } from "./reasoning.js";
import type { FunctionTool } from "./tool.js";
import { forcedFormat } from "./tools/force-call.js";
import type { ToolFormat, ToolSet } from "./tools/tool-format.js";

export interface AnswerPlan {
  readonly answer: AnswerOptions;
  /** For the engine: markers that are special tokens stay in the text. */
  readonly options: { readonly skipSpecialTokens?: false };
}

/** How a model writes calls and thoughts; null: such text is text like any other. */
export interface AnswerForm {
  readonly toolFormat: ToolFormat | null;
  readonly reasoningTags: ReasoningTags | null;
}

/** `prompt`: its text. `constrained`: by what the answer is bound, if at all. */
export function planAnswer(
  { toolFormat, reasoningTags }: AnswerForm,
  prompt: string,
  tools: readonly FunctionTool[],
  constrained: "no" | "forced call" | "text",
): AnswerPlan {
  const isFree = constrained === "no";
  const partsReasoning = isFree && toolFormat?.partsReasoning === true && reasoningTags !== null;
  const hasTools = tools.length > 0 || partsReasoning;
  const format = toolFormat === null || !hasTools ? null : isFree ? toolFormat : forcedFormat(toolFormat);
  // A constrained answer begins at once: it has no thoughts to part from.
  const tags = isFree && !partsReasoning ? reasoningTags : null;
  const needsSpecialTokens = format?.needsSpecialTokens === true || tags?.needsSpecialTokens === true;
  return {
    answer: {
      reasoning: tags === null ? null : { tags, isThinking: endsThinking(prompt, tags) },
      tools: format === null ? null : { format, set: toolSetOf(tools) },
    },
    options: needsSpecialTokens ? { skipSpecialTokens: false } : {},
  };
}

function toolSetOf(tools: readonly FunctionTool[]): ToolSet {
  const schemas = new Map(tools.map((tool) => [tool.function.name, tool.function.parameters]));
  return {
    names: new Set(schemas.keys()),
    parameter: (tool, name) => (schemas.get(tool)?.properties as Record<string, unknown> | undefined)?.[name],
  };
}
