// A forced tool choice as a constraint: the answer is calls of the allowed tools, with arguments valid under their schemas. The
// grammar of a hostile schema may take long, so it is made where all grammars are: in a matcher's thread.

import type { CallsSource } from "../../grammar/call-grammar.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";
import type { FunctionTool } from "../tool.js";
import { HERMES } from "./hermes.js";
import type { ToolFormat } from "./tool-format.js";

const MAX_PARALLEL_CALLS = 8;

/** The format that a forced call is written and read in: the model's own where a JSON grammar can give it. */
export function forcedFormat(format: ToolFormat): ToolFormat {
  return format.shape === null ? HERMES : format;
}

/** `offered`: all tools that were sent, so that errors name a tool's place among them. */
export function forcedCalls(
  format: ToolFormat,
  tools: readonly FunctionTool[],
  isParallel: boolean,
  offered: readonly FunctionTool[] = tools,
): ConstraintSpec {
  const source: CallsSource = {
    shape: forcedFormat(format).shape!,
    maxCalls: isParallel ? MAX_PARALLEL_CALLS : 1,
    tools: tools.map((tool) => ({
      name: tool.function.name,
      parameters: tool.function.parameters ?? { type: "object" },
      param: `tools.${offered.indexOf(tool)}.function.parameters`,
    })),
  };
  return { kind: "tool_calls", source: JSON.stringify(source), param: "tool_choice" };
}
