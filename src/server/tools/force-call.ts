// A forced tool choice as a constraint: the answer is calls of the allowed tools, with arguments valid under their schemas.

import { RequestError } from "../../core/errors.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";
import { RuleSet } from "../../grammar/rules.js";
import { schemaRule } from "../../grammar/schema-grammar.js";
import type { ChatTool } from "../schemas/chat.js";
import { HERMES } from "./hermes.js";
import { callsRule, type ToolFormat } from "./tool-format.js";

const MAX_PARALLEL_CALLS = 8;

/** The format that a forced call is written and read in: the model's own where a JSON grammar can give it. */
export function forcedFormat(format: ToolFormat): ToolFormat {
  return format.shape === null ? HERMES : format;
}

export function forcedCalls(format: ToolFormat, tools: readonly ChatTool[], isParallel: boolean): ConstraintSpec {
  const rules = new RuleSet();
  const entries = tools.map((tool, i) => {
    const { name, parameters } = tool.function;
    try {
      return { name, rule: schemaRule(rules, parameters ?? { type: "object" }, `tool_${i}`) };
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      throw new RequestError("invalid_schema", { ...error.details, param: `tools.${i}.function.parameters` });
    }
  });
  const root = callsRule(rules, forcedFormat(format).shape!, entries, isParallel ? MAX_PARALLEL_CALLS : 1);
  return {
    kind: "grammar",
    source: `root ::= ${root}
${rules}`,
    param: "tool_choice",
  };
}
