import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

test("report has the machine, the device and the speeds in one table", async () => {
  const { text, code } = await bench("report", "--model", model, "--device", "reference");
  assert.equal(code, 0);
  for (const row of ["processor", "WebGPU", "device", "prefill of 512 tokens", "decode of 8 rows"])
    assert.match(text, new RegExp(`^${row} +\\S`, "m"));
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

test("wrong arguments are named, with what would be right", async () => {
  assert.deepEqual([(await bench()).code, (await bench("--help")).code], [2, 0]);
  await assert.rejects(bench("serve"), { code: "wrong_usage" });
  assert.match((await bench("throughput", "--help")).text, /--shared-prefix/);
  await assert.rejects(bench("speed"), { code: "unknown_command" });
  await assert.rejects(bench("throughput", "--input-len", "9-3"), /--input-len is 9-3; it must be a count such as/);
  await assert.rejects(bench("latency", "--batch", "0"), /--batch is 0/);
  const small = ["--device", "reference", "--model", model, "--num-pages", "9", "--prefill", "16", "--context", "48"];
  await assert.rejects(
    bench("latency", ...small, "--batch", "4"),
    /--batch is 4; .* rows of 48 tokens as 8 pages of 16/,
  );
  await assert.rejects(bench("serve", "http://127.0.0.1:9"), /Option URL is http:\/\/127\.0\.0\.1:9; it must be/);
});
