// Tools as callers give them, by name, in the form that chat templates know.

import { jsonSchemaOf } from "../../../chat/schema.js";
import type { FunctionTool } from "../../../chat/tool.js";
import { RequestError } from "../../../core/errors.js";
import type { ChatOptions, Tool } from "../../chat-types.js";

export type GivenTools = Readonly<Record<string, Tool>>;

const NAME = /^[\w.-]{1,128}$/;
const NONE = { type: "object", properties: {} };

export interface OfferedTools {
  /** All that were given. */
  readonly offered: readonly FunctionTool[];
  /** Those that may be called. */
  readonly tools: readonly FunctionTool[];
  readonly isForced: boolean;
  readonly isParallel: boolean;
}

export async function offeredTools(options: ChatOptions): Promise<OfferedTools> {
  const { tools = {}, toolChoice = "auto", parallelToolCalls = true } = options;
  if (typeof tools !== "object" || tools === null || Array.isArray(tools))
    throw invalid("tools", tools, "tools by name: { name: { description, parameters } }");
  const offered = await Promise.all(Object.entries(tools as GivenTools).map(([name, tool]) => functionOf(name, tool)));
  if (toolChoice === "none") return { offered, tools: [], isForced: false, isParallel: true };
  if (toolChoice === "auto") return { offered, tools: offered, isForced: false, isParallel: true };
  const isNamed = typeof toolChoice === "object" && toolChoice !== null;
  const chosen = isNamed ? offered.filter(({ function: { name } }) => name === toolChoice.name) : offered;
  if ((!isNamed && toolChoice !== "required") || chosen.length === 0)
    throw invalid("toolChoice", toolChoice, "auto, none, required, or { name } of one of the tools");
  return { offered, tools: chosen, isForced: true, isParallel: parallelToolCalls && !isNamed };
}

async function functionOf(name: string, tool: Tool): Promise<FunctionTool> {
  const param = `tools.${name}`;
  if (!NAME.test(name)) throw invalid(param, name, "a name of at most 128 letters, digits, _, - and .");
  if (typeof tool !== "object" || tool === null) throw invalid(param, tool, "{ description, parameters, execute }");
  const { description, parameters = NONE } = tool;
  if (description !== undefined && typeof description !== "string")
    throw invalid(`${param}.description`, description, "a text");
  const schema = (await jsonSchemaOf(parameters, `${param}.parameters`)) as Readonly<Record<string, unknown>>;
  return {
    type: "function",
    function: { name, ...(description === undefined ? {} : { description }), parameters: schema },
  };
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  const shown = JSON.stringify(value) ?? String(value);
  return new RequestError("invalid_value", { param, value: shown.slice(0, 200), expected });
}
