// Which test files run which lines of the compiled source, and how long each takes: noted once for a tree, from V8's own coverage,
// and kept in build/mutate/ until the code changes.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { distancesTo } from "./related-tests.mjs";
import { runTest } from "./run-test.mjs";

const hashOf = (text) => createHash("sha256").update(text).digest("hex").slice(0, 16);

/** Map from a test file to { seconds, isPassing, reached: { source file: { hash, lines: [number, ...] } } }. */
export async function noteReach(root) {
  const reach = new Map();
  const tests = ["dist/src", "dist/test"]
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, String(name))))
    .filter((name) => name.endsWith(".test.js"));
  const kept = "build/mutate";
  mkdirSync(kept, { recursive: true });
  for (const [at, test] of tests.entries()) {
    const file = join(kept, `${hashOf(test + readFileSync(join(root, test), "utf8"))}.json`);
    if (!existsSync(file)) {
      console.error(`notes what ${test} reaches (${at + 1} of ${tests.length})`);
      writeFileSync(file, JSON.stringify(await reachOf(root, test)));
    }
    reach.set(test, JSON.parse(readFileSync(file, "utf8")));
  }
  return reach;
}

/**
 * Passing tests that run a line, those that are quick and near by imports first. A file that changed since is reached in every line.
 * Where coverage knows of no test (the thread was ended before it could say), all that import the file.
 */
export function testsOf({ file, line, original }, reach, importers) {
  const distances = distancesTo(file, importers);
  const passing = [...reach].filter(([, { isPassing }]) => isPassing);
  const running = passing.filter(
    ([
      ,
      {
        reached: { [file]: found },
      },
    ]) => {
      return found !== undefined && (found.hash !== hashOf(original) || found.lines.includes(line));
    },
  );
  const found = running.length > 0 ? running : passing.filter(([name]) => distances.has(name));
  return found
    .map(([name, { seconds }]) => ({ name, seconds, cost: seconds * (distances.get(name) ?? 10) }))
    .sort((a, b) => a.cost - b.cost);
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
