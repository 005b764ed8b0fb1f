// The laboratory's benches run, and say what is wrong with their arguments.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { labCommand } from "../../bench/lab/lab.js";
import { makeCheckpoint } from "../../bench/make-checkpoint.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-lab-"));
const model = join(folder, "tiny.gguf");
makeCheckpoint({ shape: "tiny", type: "q4_0", seed: 1, out: model });
after(() => rmSync(folder, { recursive: true, force: true }));

async function bench(...args: string[]): Promise<{ text: string; code: number }> {
  let text = "";
  const code = await labCommand(args, { write: (piece) => (text += piece) });
  return { text, code };
}

async function report(kind: string, ...args: string[]) {
  const { text, code } = await bench(kind, "--json", "--device", "reference", ...args);
  assert.equal(code, 0);
  return JSON.parse(text);
}

test("modes runs one trace through both modes and counts their steps and padding", async () => {
  const flags = ["--requests", "6", "--input-len", "40-70", "--output-len", "4-6", "--repeat", "1"];
  const { modes } = await report("modes", "--model", model, ...flags);
  const [extend, chunked] = modes;
  assert.deepEqual([extend.mode, chunked.mode], ["extend", "chunked"]);
  assert.equal(extend.tokens, chunked.tokens, "the same work");
  assert.equal(extend.padding, 0);
  assert.ok(chunked.padding > 0, "prompts of 40-70 do not fill chunks of 32");
  assert.equal(chunked.mixedSteps, 0);
  assert.ok(extend.steps < chunked.steps, `${extend.steps} steps against ${chunked.steps}`);
  assert.equal(extend.runs.length, 1);
});

test("attention and matmul measure every case", async () => {
  const cases = ["--cases", "1x8@24,2x1@16+1x4@4", "--budget-ms", "1"];
  const attention = await report("attention", ...cases, "--heads", "4", "--kv-heads", "2", "--head-dim", "16");
  assert.deepEqual(
    attention.results.map((r: { case: string }) => r.case),
    ["1x8@24", "2x1@16+1x4@4"],
  );
  const matmul = await report(
    "matmul",
    "--shapes",
    "48x64",
    "--types",
    "f16,q4_0",
    "--rows",
    "1,3",
    "--budget-ms",
    "1",
  );
  assert.equal(matmul.results.length, 4);
  for (const result of [...attention.results, ...matmul.results]) assert.ok(result.ms > 0 && result.gigaOps > 0);
  if (matmul.peaks !== null) assert.ok(matmul.results.every((r: { roofline: number }) => r.roofline > 0));
});

test("tables and charts are for people", async () => {
  const svg = join(folder, "chart.svg");
  const flags = ["--device", "reference", "--shapes", "32x32", "--types", "f32", "--rows", "1", "--budget-ms", "1"];
  const { text } = await bench("matmul", ...flags, "--svg", svg);
  assert.match(text, /f32 32x32 +1 /);
  const drawn = readFileSync(svg, "utf8");
  assert.match(drawn, /^<svg xmlns[^>]+>[\s\S]+<rect[\s\S]+1 rows[\s\S]+<\/svg>\n$/);
});

test("wrong arguments are named", async () => {
  assert.equal((await bench()).code, 2);
  const wrong: readonly [string, string, string][] = [
    ["matmul", "--shapes", "8x8"],
    ["matmul", "--types", "f17"],
    ["attention", "--cases", "1x9@8"],
    ["attention", "--heads", "7"],
  ];
  for (const [kind, param, value] of wrong)
    await assert.rejects(bench(kind, param, value), { code: "invalid_option", param });
});
