import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { makeCheckpoint } from "../../../bench/make-checkpoint.js";
import { createEngine } from "../../engine/client/engine.js";
import { createServer } from "../../server/server.js";
import { benchCommand } from "./bench.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-bench-"));
const model = join(folder, "tiny.gguf");
makeCheckpoint({ shape: "tiny", type: "q4_0", seed: 1, out: model });
after(() => rmSync(folder, { recursive: true, force: true }));

/** What the command prints, and its exit code. */
async function bench(...args: string[]): Promise<{ text: string; code: number }> {
  let text = "";
  const code = await benchCommand(args, { write: (piece) => (text += piece) });
  return { text, code };
}

/** The report of a run on the reference device with the tiny model. */
async function report(kind: string, ...args: string[]) {
  const { text, code } = await bench(kind, "--json", "--device", "reference", ...args);
  assert.equal(code, 0);
  return JSON.parse(text);
}

const isSummary = (value: Record<string, unknown>) =>
  ["count", "mean", "p50", "p90", "p99"].every((key) => typeof value[key] === "number");

test("throughput counts what the trace asked for, in every run", async () => {
  const flags = ["--requests", "5", "--input-len", "20-40", "--output-len", "3", "--shared-prefix", "16"];
  const { run, runs, device, machine } = await report("throughput", "--model", model, ...flags, "--repeat", "2");
  assert.equal(runs.length, 2);
  for (const each of runs) {
    assert.equal(each.outputTokens, 15);
    assert.ok(each.promptTokens >= 100 && each.promptTokens <= 200);
    assert.ok(each.cachedTokens <= 4 * 16, "a run found another run's prompts in the cache");
    assert.ok(each.ttftMs.count === 5 && isSummary(each.ttftMs) && isSummary(each.tpotMs) && isSummary(each.totalMs));
  }
  assert.ok(runs.some((each: { wallMs: number }) => each.wallMs === run.wallMs));
  assert.match(device, /^reference/);
  assert.ok(machine.cores >= 1);
});

test("latency reports prefill, decode and where a step goes", async () => {
  const flags = ["--prefill", "32,48", "--batch", "1,3", "--context", "16", "--steps", "4", "--repeat", "2"];
  const { prefill, decode } = await report("latency", "--model", model, ...flags, "--profile");
  assert.deepEqual(
    prefill.map((p: { tokens: number; runsMs: number[] }) => [p.tokens, p.runsMs.length]),
    [
      [32, 2],
      [48, 2],
    ],
  );
  assert.deepEqual(
    decode.map((d: { rows: number }) => d.rows),
    [1, 3],
  );
  for (const { profile } of [...prefill, ...decode]) {
    const calls = new Map(profile.ops.map((op: { op: string; calls: number }) => [op.op, op.calls]));
    assert.equal(calls.get("attention"), 2, "one per layer");
    assert.equal(calls.get("sample"), 1);
    assert.ok(profile.outsideShare > 0 && profile.outsideShare < 1);
  }
  const plain = await report("latency", "--model", model, "--prefill", "16", "--batch", "1", "--repeat", "1");
  assert.equal(plain.prefill[0].profile, null);
  assert.equal(plain.decode[0].profile, null);
});

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

test("speculation compares methods with none, on a trace and on texts", async () => {
  const flags = ["--model", model, "--repeat", "1", "--requests", "2", "--input-len", "12", "--output-len", "24"];
  const { methods } = await report("speculation", ...flags, "--speculative-min-match", "1", "--target-step-ms", "0");
  assert.deepEqual(
    methods.map((m: { method: string; isEqual: boolean; tokens: number }) => [m.method, m.isEqual, m.tokens]),
    [
      ["off", true, 48],
      ["ngram", true, 48],
      ["suffix", true, 48],
    ],
  );
  assert.equal(methods[0].drafts, 0);
  assert.ok(methods.every((m: { steps: number; speedUp: number }) => m.steps > 0 && m.speedUp > 0));
  const texts = join(folder, "texts.jsonl");
  writeFileSync(texts, '{"prompt": "abcabcabc", "max_tokens": 5}\n{"prompt": "b"}\n');
  const asked = ["--model", model, "--repeat", "1", "--text", texts, "--methods", "ngram", "--max-tokens", "3"];
  const found = await report("speculation", ...asked);
  assert.ok(found.methods.every((m: { tokens: number }) => m.tokens >= 2 && m.tokens <= 8));
  await assert.rejects(bench("speculation", "--methods", "oracle"), { code: "invalid_option" });
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

test("serve measures a running server, and counts failures", async () => {
  await using engine = await createEngine({ model, device: "reference" });
  await using server = createServer(engine, { port: 0, host: "127.0.0.1", logLevel: "silent" });
  const { url } = await server.listen();
  const flags = [
    "--json",
    "--requests",
    "4",
    "--input-len",
    "5-9",
    "--output-len",
    "3",
    "--rate",
    "200",
    "--ignore-eos",
  ];
  for (const endpoint of ["completions", "chat"]) {
    const { text, code } = await bench(
      "serve",
      `${url}/v1/`,
      ...flags,
      "--endpoint",
      endpoint,
      "--max-ttft-ms",
      "60000",
      "--max-tpot-ms",
      "60000", // a busy machine is no failure of the bench
    );
    const found = JSON.parse(text);
    assert.equal(code, 0, text);
    assert.deepEqual([found.completed, found.failed, found.outputTokens], [4, 0, 12]);
    assert.ok(found.promptTokens >= 20);
    assert.ok(isSummary(found.ttftMs) && isSummary(found.itlMs) && isSummary(found.tpotMs));
    assert.equal(found.goodput.requests, 4);
  }
  const strict = await bench("serve", url, ...flags, "--max-ttft-ms", "0");
  assert.equal(JSON.parse(strict.text).goodput.requests, 0);
  const wrong = await bench("serve", url, ...flags, "--model", "no-such-model");
  assert.equal(wrong.code, 1);
  assert.match(JSON.parse(wrong.text).firstFailure, /no-such-model/);
});

test("tables and charts are for people", async () => {
  const svg = join(folder, "chart.svg");
  const flags = ["--device", "reference", "--shapes", "32x32", "--types", "f32", "--rows", "1", "--budget-ms", "1"];
  const { text } = await bench("matmul", ...flags, "--svg", svg);
  assert.match(text, /f32 32x32 +1 /);
  const drawn = readFileSync(svg, "utf8");
  assert.match(drawn, /^<svg xmlns[^>]+>[\s\S]+<rect[\s\S]+1 rows[\s\S]+<\/svg>\n$/);
});

test("wrong arguments are named, with what would be right", async () => {
  assert.deepEqual([(await bench()).code, (await bench("--help")).code], [2, 0]);
  await assert.rejects(bench("serve"), { code: "wrong_usage" });
  assert.match((await bench("modes", "--help")).text, /--shared-prefix/);
  await assert.rejects(bench("speed"), { code: "unknown_command" });
  await assert.rejects(bench("throughput", "--input-len", "9-3"), /--input-len is 9-3; it must be a count such as/);
  await assert.rejects(bench("latency", "--batch", "0"), /--batch is 0/);
  const small = ["--device", "reference", "--model", model, "--num-pages", "9", "--prefill", "16", "--context", "48"];
  await assert.rejects(
    bench("latency", ...small, "--batch", "4"),
    /--batch is 4; .* rows of 48 tokens as 8 pages of 16/,
  );
  await assert.rejects(bench("matmul", "--shapes", "8x8"), /--shapes is 8x8/);
  await assert.rejects(bench("matmul", "--types", "f17"), /--types is f17/);
  await assert.rejects(bench("attention", "--cases", "1x9@8"), /--cases is 1x9@8/);
  await assert.rejects(bench("attention", "--heads", "7"), /--heads is 7; it must be a multiple of --kv-heads, 3/);
  await assert.rejects(bench("serve", "http://127.0.0.1:9"), /Option URL is http:\/\/127\.0\.0\.1:9; it must be/);
});
