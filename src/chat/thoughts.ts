// What a model may think before an answer that is bound, or for no longer than asked: found in the prompt's last words and in the tokens
// of the family's tags. Tags that are not tokens of their own cannot be waited for; such an answer begins at once.

import type { ConstraintSpec, ThoughtsSpec } from "../grammar/constraint.js";
import { endsThinking, type ReasoningTags } from "./reasoning.js";
import type { ToolFormat } from "./tools/tool-format.js";

/** How an answer is bound. */
export interface Bounds {
  readonly constraint: ConstraintSpec | null;
  /** The most tokens of its thoughts; null: as many as it likes. */
  readonly budget: number | null;
  /** The tokens of a text that has control tokens in it. */
  encode(text: string): readonly number[];
}

/** gpt-oss: thoughts are a message of their own, and the answer is another. */
const HARMONY_OPEN = "<|channel|>analysis<|message|>";
const HARMONY_CLOSE = "<|end|>";
const HARMONY_AFTER = "<|start|>assistant<|channel|>final<|message|>";

/** null: there is nothing to wait for. `prompt`: its text. */
export function thoughtsOf(
  format: ToolFormat | null,
  tags: ReasoningTags | null,
  prompt: string,
  { constraint, budget, encode }: Bounds,
): ThoughtsSpec | null {
  if (tags === null || (constraint === null && budget === null)) return null;
  if (format?.partsReasoning === true) {
    const [close, ...rest] = encode(HARMONY_CLOSE);
    if (close === undefined || rest.length > 0 || constraint?.kind === "tool_calls") return null;
    const isBound = constraint !== null;
    const after = isBound ? encode(HARMONY_AFTER) : [];
    return { begin: isBound ? "always" : "maybe", open: encode(HARMONY_OPEN), close, after, budget };
  }
  const [close, ...rest] = encode(tags.close);
  if (close === undefined || rest.length > 0 || prompt.trimEnd().endsWith(tags.close)) return null;
  if (endsThinking(prompt, tags)) return { begin: "open", open: [], close, after: [], budget };
  return { begin: "maybe", open: encode(tags.open), close, after: [], budget };
}
