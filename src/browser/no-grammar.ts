// In the place of src/grammar/xgrammar/xgrammar-compiler.ts: structured output needs threads of its own, which a browser's engine does not
// have yet. A request that asks for it fails with these words; others are not touched.

import { RequestError } from "../core/errors.js";
import type { ConstraintCompiler, ConstraintSpec, TokenConstraint } from "../grammar/constraint.js";

export function checkLimits(): readonly number[] {
  return [];
}

export class XGrammarCompiler implements ConstraintCompiler {
  ready(): Promise<void> {
    return Promise.resolve();
  }

  compile(spec: ConstraintSpec): TokenConstraint {
    const expected = "absent: structured output is not available in a browser";
    throw new RequestError("invalid_value", { param: spec.param ?? "constraint", value: spec.kind, expected });
  }

  warm(): void {}

  settle(): void {}

  close(): void {}
}
