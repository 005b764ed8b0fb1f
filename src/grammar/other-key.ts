// The keys of an object that are none of the named ones, as grammar: the complement of a set of names, written as the trie of
// the names in which every step away from a name leads to "anything". Without it an additional property could repeat a named
// one with a value of another type.

import { charAlternatives } from "./char-set.js";
import { contains, subtract, union } from "./code-points.js";
import { PLAIN } from "./json-grammar.js";
import { literal, type RuleSet } from "./rules.js";

/** A quoted key that differs from every name. Keys are written without escapes. */
export function otherKeyRule(rules: RuleSet, hint: string, names: readonly string[]): string {
  const chars = charAlternatives(PLAIN).map((char) => `${char} json_plain_rest`);
  rules.define("json_plain_rest", ['"\\""', ...chars].join(" | "));
  const rest = restOf(
    rules,
    hint,
    names.map((name) => [...name]),
  );
  return rules.add(`${hint}_key`, `"\\"" ${rest}`);
}

/** The rest of a key, its closing quote included, that must not be one of `names`. */
function restOf(rules: RuleSet, hint: string, names: readonly (readonly string[])[]): string {
  if (names.length === 0) return "json_plain_rest";
  const byFirst = new Map<string, (readonly string[])[]>();
  for (const name of names) {
    const first = name[0];
    if (first === undefined) continue;
    const tails = byFirst.get(first) ?? [];
    tails.push(name.slice(1));
    byFirst.set(first, tails);
  }
  const alternatives = names.some((name) => name.length === 0) ? [] : ['"\\""'];
  const points = [...byFirst.keys()].map((char) => [char.codePointAt(0)!, char.codePointAt(0)!] as const);
  for (const char of charAlternatives(subtract(PLAIN, union(points)))) alternatives.push(`${char} json_plain_rest`);
  for (const [char, tails] of byFirst) {
    // A name with a quote or a control character is never written plainly, so no plain key can equal it.
    if (!contains(PLAIN, char.codePointAt(0)!)) continue;
    alternatives.push(`${literal(char)} ${restOf(rules, hint, tails)}`);
  }
  return rules.add(`${hint}_rest`, alternatives.join(" | "));
}
