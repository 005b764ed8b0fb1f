// Expressions of a tokenizer.json run over every prompt. One that backtracks without end would hold up everybody, so each is tried
// on texts that provoke it before the tokenizer is used: runs of the characters it speaks of, and of two and three of them that stand
// side by side in it, followed by one that cannot match.

import { runInNewContext } from "node:vm";
import { FormatError } from "../core/errors.js";

const RUN = 48; // long enough for what grows exponentially, too short for what merely grows
const LIMIT_MS = 1000;
const MAX_TRIES = 5;
const MAX_TEXTS = 100;
const MAX_DEPTH = 20;
const ALWAYS = ["a", "A", "1", " ", "\n", ".", "'", "é"];

export function refuseSlowPatterns(json: Record<string, unknown>, file: string): void {
  for (const part of ["pre_tokenizer", "normalizer"])
    for (const [what, source] of patternsOf(json[part], part)) tryPattern(source, what, file);
}

/** Every `{ Regex: source }` below a part of the file. */
export function patternsOf(value: unknown, path: string, depth = 0): [path: string, source: string][] {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return [];
  return Object.entries(value).flatMap(([key, inner]): [string, string][] => {
    if (key === "Regex" && typeof inner === "string") return [[path, inner]];
    return patternsOf(inner, `${path}.${key}`, depth + 1);
  });
}

function tryPattern(source: string, what: string, file: string): void {
  let expression: RegExp;
  try {
    expression = new RegExp(source, "gu");
  } catch {
    return; // of another dialect: who reads it says what is wrong with it
  }
  if (!isQuick(() => readAll(expression, provocationsOf(source)))) {
    const found = JSON.stringify(source.length > 100 ? `${source.slice(0, 100)}...` : source);
    const expected = `an expression that reads ${RUN} characters in less than a second`;
    throw new FormatError("file_corrupt", { file, what, expected, found });
  }
}

/** Runs of the characters that the expression names, of some that it may mean by a class, and of neighbours among its letters. */
export function provocationsOf(source: string): string[] {
  const chars = new Set([...ALWAYS, ...[...source].filter((char) => /[\p{L}\p{N}\p{P}\p{S}]/u.test(char))]);
  const letters = [...source].filter((char) => /[\p{L}\p{N}]/u.test(char));
  const groups = new Set<string>();
  for (let i = 0; i < letters.length && groups.size < MAX_TEXTS; i++)
    for (const size of [2, 3]) if (i + size <= letters.length) groups.add(letters.slice(i, i + size).join(""));
  const runs = [...chars].slice(0, MAX_TEXTS).map((char) => char.repeat(RUN));
  // As many turns of a loop as of single characters: it may take two or three of them in each.
  return [...runs, ...[...groups].map((group) => group.repeat(RUN))].map((run) => `${run}\0`);
}

/**
 * Whether a piece of work ends within its time. `attempt` returns null when it did, else the processor's time that it had till then, in
 * milliseconds: one that was held up, on a machine with too much to do, has hardly begun, and is tried again.
 */
export function isQuick(attempt: () => number | null): boolean {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const spentMs = attempt();
    if (spentMs === null) return true;
    if (spentMs > LIMIT_MS / 2) return false;
  }
  return false;
}

/** Reads the texts: null, or what it took when it was stopped. */
function readAll(expression: RegExp, texts: readonly string[]): number | null {
  const before = process.cpuUsage();
  try {
    const program = "for (const text of texts) text.replace(expression, '')";
    runInNewContext(program, { texts, expression }, { timeout: LIMIT_MS });
    return null;
  } catch {
    const { user, system } = process.cpuUsage(before); // microseconds
    return (user + system) / 1000;
  }
}
