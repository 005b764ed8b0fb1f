// JSON strings of bounded length as grammar. A grammar counts by having one rule for each count, and the matcher prepares every
// rule against the whole vocabulary, so rules are shared as far as can be:
//
//   up_to_i      at most i characters, then the closing quote     up_to_i ::= quote | char up_to_(i-1)
//   exactly_i    i characters
//   long strings a run of blocks of BLOCK characters, then a rest: all blocks are the same rules
//
// The characters are written out in every rule: a token that ends within a rule is known ahead, one that reaches past its end
// must be tried at every step (see char-set.ts). Blocks are long so that few positions are near an end.

import type { RuleSet } from "./rules.js";

/** Longest string that is counted one by one. */
export const MAX_CHAIN = 96;
const BLOCK = 64;
/** Runs of few characters have more tokens that fit, and so more to prepare for each rule: theirs are short. */
const RUN_BLOCK = 16;
const QUOTE = '"\\""';

/** What is counted: the alternatives of one character, what stands behind the last one, and how the rules of both begin. */
interface Counted {
  readonly chars: readonly string[];
  readonly end: string;
  readonly prefix: string;
  readonly block: number;
}

/** What follows an opening quote: `min` to `max` characters and the closing quote. */
export function boundedRest(rules: RuleSet, chars: readonly string[], min: number, max: number): string {
  const counted = { chars, end: QUOTE, prefix: "", block: BLOCK };
  if (max <= MAX_CHAIN) return atLeast(rules, counted, min, max);
  return `${exactlyMany(rules, chars, min)} ${longUpTo(rules, counted, max - min)}`.trim();
}

/** `min` to `max` characters, and nothing behind them; max null: any number. */
export function boundedRun(rules: RuleSet, chars: readonly string[], min: number, max: number | null): string {
  const prefix = `${rules.once(`run of ${chars.join()}`, () => rules.freshName("run"))}_`;
  const counted = { chars, end: '""', prefix, block: RUN_BLOCK };
  const rest = max === null ? `(${chars.join(" | ")})*` : max === min ? "" : longUpTo(rules, counted, max - min);
  return `${exactlyMany(rules, chars, min, prefix, RUN_BLOCK)} ${rest}`.trim();
}

/** `count` characters, in blocks. */
export function exactlyMany(
  rules: RuleSet,
  chars: readonly string[],
  count: number,
  prefix = "",
  block = BLOCK,
): string {
  const whole = Math.floor(count / block);
  const parts = Array.from({ length: whole }, () => exactly(rules, chars, block, prefix));
  if (count % block > 0) parts.push(exactly(rules, chars, count % block, prefix));
  return parts.join(" ");
}

function atLeast(rules: RuleSet, counted: Counted, min: number, max: number): string {
  if (min === 0) return upTo(rules, counted, max);
  const name = `from_${min}_to_${max}`;
  if (rules.has(name)) return name;
  const next = atLeast(rules, counted, min - 1, max - 1);
  return rules.define(name, counted.chars.map((char) => `${char} ${next}`).join(" | "));
}

function upTo(rules: RuleSet, counted: Counted, max: number): string {
  const { chars, end, prefix } = counted;
  const name = `${prefix}up_to_${max}`;
  if (rules.has(name)) return name;
  if (max === 0) return rules.define(name, end);
  const next = upTo(rules, counted, max - 1);
  return rules.define(name, [end, ...chars.map((char) => `${char} ${next}`)].join(" | "));
}

function exactly(rules: RuleSet, chars: readonly string[], count: number, prefix: string): string {
  const name = `${prefix}exactly_${count}`;
  if (rules.has(name)) return name;
  if (count === 1) return rules.define(name, chars.join(" | "));
  const next = exactly(rules, chars, count - 1, prefix);
  return rules.define(name, chars.map((char) => `${char} ${next}`).join(" | "));
}

/** Either the string ends within this block, or the block is full and the rest may be that much shorter. */
function longUpTo(rules: RuleSet, counted: Counted, max: number): string {
  const { chars, prefix, block } = counted;
  if (max < block) return upTo(rules, counted, max);
  const name = `${prefix}long_${max}`;
  if (rules.has(name)) return name;
  const rest = longUpTo(rules, counted, max - block);
  return rules.define(name, `${upTo(rules, counted, block - 1)} | ${exactly(rules, chars, block, prefix)} ${rest}`);
}
