// Pagoda beside llama.cpp and PyTorch on one GPU: the same shapes and lengths, one table.
//   node bench/gpu-peers/compare.mjs [--shape 1b] [--llama-cpp SOURCE] [--build DIR] [--torch] [--arch 90a-real] [--device cuda] [--dir /tmp]
//                                    [--prefill 512,4096] [--many 32x512] [--rows 1,8,32,128,256] [--context 512] [--steps 64] [--repeat 3]
// llama.cpp's source is built into --build; without a source, what is there is run. Weights are random, f16, one GGUF file for Pagoda and
// llama.cpp; PyTorch computes the same shape in f16 (torch-llama.py). A peer that fails has its reason below the table.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { SHAPES } from "../../dist/bench/checkpoint/shapes.js";
import { median } from "../../dist/src/cli/bench/statistics.js";
import { renderTable } from "../../dist/src/cli/bench/table.js";
import { openLlamaCpp } from "../peers/llama-cpp.mjs";
import { buildLlamaCpp } from "./build-llama-cpp.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const text = (value) => ({ type: "string", default: value });
const { values } = parseArgs({
  options: {
    shape: text("1b"),
    "llama-cpp": { type: "string" },
    build: text("/tmp/llama.cpp-cuda"),
    torch: { type: "boolean", default: false },
    arch: text("90a-real"),
    device: text("cuda"),
    dir: text("/tmp"),
    prefill: text("512,4096"),
    many: text("32x512"),
    rows: text("1,8,32,128,256"),
    context: text("512"),
    steps: text("64"),
    repeat: text("3"),
  },
});
const numbers = (list, by = ",") => list.split(by).map(Number);
const [lengths, rows, many] = [numbers(values.prefill), numbers(values.rows), numbers(values.many, "x")];
const [context, steps, repeat] = [Number(values.context), Number(values.steps), Number(values.repeat)];
const isGpu = values.device !== "cpu";
/** What is measured; each peer gives tok/s under these names. */
const prefillName = (length) => `prefill ${length}`;
const manyName = `prefill ${many[0]} x ${many[1]}`;
const decodeName = (count) => `decode ${count}`;

function run(program, args) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
    cwd: ROOT,
  });
  if (status !== 0) throw new Error(`${program} ${args[0]} ended with ${status}: ${error ?? stderr.slice(-800)}`);
  return stdout;
}

function pagoda(model) {
  const wide = ["--max-pages-per-batch", "512", "--ideal-chunk", "8192", "--repeat", values.repeat, "--json"];
  const bench = (kind, sizes) =>
    JSON.parse(
      run("node", ["bin/pagoda.js", "bench", kind, "--device", values.device, "--model", model, ...wide, ...sizes]),
    );
  const sizes = ["--context", values.context, "--steps", values.steps];
  const { prefill, decode } = bench("latency", ["--prefill", values.prefill, "--batch", values.rows, ...sizes]);
  const requests = ["--requests", String(many[0]), "--input-len", String(many[1]), "--output-len", "1"];
  const throughput = bench("throughput", requests);
  return new Map([
    ...prefill.map(({ tokens, tokensPerSecond }) => [prefillName(tokens), tokensPerSecond]),
    [manyName, throughput.run.totalTokensPerSecond],
    ...decode.map(({ rows: count, tokensPerSecond }) => [decodeName(count), tokensPerSecond]),
  ]);
}

/** In its strongest form: of micro-batches of 512 and 2,048 tokens the faster one, each after a warm-up of its own. */
function llamaCpp(build, model) {
  const { run: tool } = openLlamaCpp(build, model);
  const common = ["-m", model, "-fa", "on", ...(isGpu ? ["-ngl", "99"] : [])];
  const rates = new Map();
  for (const length of lengths) {
    const sizes = ["-p", String(length), "-n", "0", "-b", String(length), "-ub", "512,2048"];
    const runs = JSON.parse(tool("llama-bench", [...common, ...sizes, "-r", values.repeat, "-o", "json"]));
    rates.set(prefillName(length), Math.max(...runs.map(({ avg_ts: rate }) => rate)));
  }
  // One process for all numbers of rows; each is run `repeat` times in turn.
  const batched = (counts, promptLen, answerLen, microBatch) => {
    const room = Math.max(...counts) * (promptLen + answerLen) + 64;
    const lens = ["-npp", String(promptLen), "-ntg", String(answerLen), "-c", String(room)];
    const turns = Array.from({ length: repeat }, () => counts).flat();
    const args = [...lens, "-npl", turns.join(","), "-b", "2048", "-ub", String(microBatch)];
    const out = tool("llama-batched-bench", [...common, ...args, "--output-format", "jsonl"]);
    return out.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));
  };
  rates.set(manyName, median(batched([many[0]], many[1], 1, 2048).map(({ speed_pp: rate }) => rate)));
  const decodes = batched(rows, context, steps, 512);
  for (const count of rows) {
    const ofCount = decodes.filter(({ pl }) => pl === count);
    rates.set(decodeName(count), median(ofCount.map(({ speed_tg: rate }) => rate)));
  }
  return rates;
}

function torch(shape) {
  const given = { ...shape, lengths, many, rows, context, steps, repeat, device: values.device };
  const out = run("python3", [join(ROOT, "bench/gpu-peers/torch-llama.py"), JSON.stringify(given)]);
  return new Map(Object.entries(JSON.parse(out.trim().split("\n").at(-1))));
}

function checkpoint(name) {
  const file = join(values.dir, `${name}-f16.gguf`);
  const args = ["--shape", name, "--type", "f16", "--out", file];
  if (!existsSync(file)) run("node", ["dist/bench/make-checkpoint.js", ...args]);
  return file;
}

const source = values["llama-cpp"];
if (source !== undefined) await buildLlamaCpp(source, values.build, isGpu ? values.arch : null);
const hasLlamaCpp = existsSync(join(values.build, "bin", "llama-bench"));
for (const name of values.shape.split(",")) {
  const model = checkpoint(name);
  const peers = [["Pagoda", () => pagoda(model)]];
  if (hasLlamaCpp) peers.push(["llama.cpp", () => llamaCpp(values.build, model)]);
  if (values.torch) peers.push(["PyTorch", () => torch(SHAPES[name])]);
  const columns = [];
  const failures = [];
  for (const [peer, measure] of peers) {
    try {
      const rates = measure();
      columns.push([peer, rates]);
      console.error(`${name} ${peer}: ${JSON.stringify(Object.fromEntries(rates))}`);
    } catch (error) {
      columns.push([peer, new Map()]);
      failures.push(`${peer}: ${error.message}`);
    }
  }
  const works = [...lengths.map(prefillName), manyName, ...rows.map(decodeName)];
  const table = {
    caption: `${name}, f16 weights, ${context} of context; tok/s, medians of ${repeat}`,
    head: ["", ...columns.map(([peer]) => peer)],
    rows: works.map((work) => [work, ...columns.map(([, rates]) => rates.get(work) ?? "–")]),
  };
  console.log([renderTable(table), ...failures].join("\n"));
  if (failures.length > 0) process.exitCode = 1;
}
