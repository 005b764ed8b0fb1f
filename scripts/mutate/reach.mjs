// Which lines of the compiled source a test file runs, and how long it takes: noted once, from V8's own coverage, and kept in
// build/mutate/ until the test changes.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { runTest } from "./run-test.mjs";

const hashOf = (text) => createHash("sha256").update(text).digest("hex").slice(0, 16);

/** What test files reach, of those that were run to know. */
export class Reach {
  #root;
  #folder = "build/mutate";
  /** Map from a test file to { seconds, isPassing, reached: { source file: { hash, lines: [number, ...] } } }. */
  #known = new Map();

  constructor(root) {
    this.#root = root;
    mkdirSync(this.#folder, { recursive: true });
  }

  /** Whether it is known what the test reaches. */
  has(test) {
    if (!this.#known.has(test) && existsSync(this.#fileOf(test)))
      this.#known.set(test, JSON.parse(readFileSync(this.#fileOf(test), "utf8")));
    return this.#known.has(test);
  }

  /** Runs the test to know; the seconds it took. */
  async note(test) {
    const noted = await reachOf(this.#root, test);
    if (noted.isPassing) writeFileSync(this.#fileOf(test), JSON.stringify(noted));
    this.#known.set(test, noted);
    return noted.seconds;
  }

  /** How long a known test takes, when it passes and runs the line; null otherwise. In a file that changed since, it runs every line. */
  secondsAt(test, { file, line, original }) {
    const { seconds, isPassing, reached } = this.#known.get(test);
    const found = reached[file];
    const isReached = found !== undefined && (found.hash !== hashOf(original) || found.lines.includes(line));
    return isPassing && isReached ? seconds : null;
  }

  #fileOf(test) {
    return join(this.#folder, `${hashOf(test + readFileSync(join(this.#root, test), "utf8"))}.json`);
  }
}

async function reachOf(root, test) {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-reach-"));
  const { status, seconds } = await runTest(root, test, { env: { NODE_V8_COVERAGE: folder } });
  const reached = {};
  for (const name of readdirSync(folder)) {
    for (const script of JSON.parse(readFileSync(join(folder, name), "utf8")).result) {
      if (!script.url.startsWith("file:")) continue;
      const file = relative(root, fileURLToPath(script.url));
      if (!file.startsWith("dist/src/") || file.endsWith(".test.js")) continue;
      const text = readFileSync(join(root, file), "utf8");
      const lines = [...(reached[file]?.lines ?? []), ...linesRun(text, script.functions)];
      reached[file] = { hash: hashOf(text), lines: [...new Set(lines)] };
    }
  }
  rmSync(folder, { recursive: true });
  return { seconds, isPassing: status === 0, reached };
}

/** Lines whose first character stands in code that ran: the innermost range around it has a count. */
function linesRun(text, functions) {
  const ranges = functions
    .flatMap(({ ranges }) => ranges)
    .sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  const lines = [];
  const open = [];
  let offset = 0;
  let next = 0;
  text.split("\n").forEach((line, index) => {
    const first = offset + line.length - line.trimStart().length;
    for (; next < ranges.length && ranges[next].startOffset <= first; next++) {
      while (open.length > 0 && open.at(-1).endOffset <= ranges[next].startOffset) open.pop();
      open.push(ranges[next]);
    }
    while (open.length > 0 && open.at(-1).endOffset <= first) open.pop();
    if (line.trim() !== "" && (open.at(-1)?.count ?? 0) > 0) lines.push(index + 1);
    offset += line.length + 1;
  });
  return lines;
}
