// What a test file runs of the compiled source, from V8's own coverage: in its process, its threads, and the processes it starts.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { hashOf } from "./hash.mjs";
import { runTest } from "./run-test.mjs";

/** Runs the test: { seconds, isPassing, ran: { source file: { hash, spans: [start, end, ...] } } }; spans are of characters. */
export async function coverageOf(root, test) {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-coverage-"));
  const { status, seconds } = await runTest(root, test, { env: { NODE_V8_COVERAGE: folder } });
  const texts = new Map();
  const painted = new Map(); // source file: for each character 1 when it ran in any process
  for (const name of readdirSync(folder)) {
    for (const { url, functions } of scriptsIn(join(folder, name))) {
      const file = url.startsWith("file:") ? relative(root, fileURLToPath(url)) : "";
      if (!file.startsWith("dist/src/") || file.endsWith(".test.js")) continue;
      if (!texts.has(file)) texts.set(file, readFileSync(join(root, file), "utf8"));
      const ran = paint(functions, texts.get(file).length);
      painted.get(file)?.forEach((hasRun, i) => {
        ran[i] |= hasRun;
      });
      painted.set(file, ran);
    }
  }
  rmSync(folder, { recursive: true });
  const ran = {};
  for (const [file, characters] of painted) ran[file] = { hash: hashOf(texts.get(file)), spans: spansOf(characters) };
  return { seconds, isPassing: status === 0, ran };
}

/** For each character 1 when it ran. V8's ranges nest; the innermost one around a character holds its count. */
export function paint(functions, length) {
  const ranges = functions.flatMap(({ ranges }) => ranges);
  ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  const ran = new Uint8Array(length);
  for (const { startOffset, endOffset, count } of ranges) ran.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  return ran;
}

/** Where runs of ones begin and end: [start, end, start, end, ...]. */
export function spansOf(characters) {
  const spans = [];
  characters.forEach((hasRun, i) => {
    if (hasRun !== (characters[i - 1] ?? 0)) spans.push(i);
  });
  if (spans.length % 2 === 1) spans.push(characters.length);
  return spans;
}

/** Whether the character at `offset` ran: an odd number of borders lies at or before it. */
export function isIn(spans, offset) {
  const after = spans.findIndex((border) => border > offset);
  return after >= 0 && after % 2 === 1;
}

/** Of a process that was killed while it wrote, nothing. */
function scriptsIn(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).result;
  } catch {
    return [];
  }
}
