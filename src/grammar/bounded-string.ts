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
const MAX_CHAIN = 96;
const BLOCK = 64;
const QUOTE = '"\\""';

/** What follows an opening quote: `min` to `max` characters and the closing quote. */
export function boundedRest(rules: RuleSet, chars: readonly string[], min: number, max: number): string {
  if (max <= MAX_CHAIN) return atLeast(rules, chars, min, max);
  return `${exactlyMany(rules, chars, min)} ${longUpTo(rules, chars, max - min)}`.trim();
}

/** `count` characters, in blocks. */
export function exactlyMany(rules: RuleSet, chars: readonly string[], count: number): string {
  const whole = Math.floor(count / BLOCK);
  const parts = Array.from({ length: whole }, () => exactly(rules, chars, BLOCK));
  if (count % BLOCK > 0) parts.push(exactly(rules, chars, count % BLOCK));
  return parts.join(" ");
}

function atLeast(rules: RuleSet, chars: readonly string[], min: number, max: number): string {
  if (min === 0) return upTo(rules, chars, max);
  const name = `from_${min}_to_${max}`;
  if (rules.has(name)) return name;
  const next = atLeast(rules, chars, min - 1, max - 1);
  return rules.define(name, chars.map((char) => `${char} ${next}`).join(" | "));
}

function upTo(rules: RuleSet, chars: readonly string[], max: number): string {
  const name = `up_to_${max}`;
  if (rules.has(name)) return name;
  if (max === 0) return rules.define(name, QUOTE);
  const next = upTo(rules, chars, max - 1);
  return rules.define(name, [QUOTE, ...chars.map((char) => `${char} ${next}`)].join(" | "));
}

function exactly(rules: RuleSet, chars: readonly string[], count: number): string {
  const name = `exactly_${count}`;
  if (rules.has(name)) return name;
  if (count === 1) return rules.define(name, chars.join(" | "));
  const next = exactly(rules, chars, count - 1);
  return rules.define(name, chars.map((char) => `${char} ${next}`).join(" | "));
}

/** Either the string ends within this block, or the block is full and the rest may be that much shorter. */
function longUpTo(rules: RuleSet, chars: readonly string[], max: number): string {
  if (max < BLOCK) return upTo(rules, chars, max);
  const name = `long_${max}`;
  if (rules.has(name)) return name;
  const rest = longUpTo(rules, chars, max - BLOCK);
  return rules.define(name, `${upTo(rules, chars, BLOCK - 1)} | ${exactly(rules, chars, BLOCK)} ${rest}`);
}
