// Pagoda beside llama.cpp and PyTorch on one GPU: the same shapes and lengths, one table.
//   node bench/gpu-peers/compare.mjs [--shape 1b,8b] [--llama-cpp SOURCE] [--build DIR] [--torch] [--arch 90] [--device cuda] [--dir /tmp]
//                                    [--prefill 512,4096] [--rows 1,8,32,128,256] [--context 512] [--steps 64] [--repeat 3]
// llama.cpp's source is built into --build with CUDA, the two programs that are needed and nothing else: minutes on 16 cores; without a source,
// what is there is run. Weights are random, f16, one GGUF file for Pagoda and llama.cpp; PyTorch computes the same shape in f16 (torch-llama.py).

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { SHAPES } from "../../dist/bench/checkpoint/shapes.js";
import { renderTable } from "../../dist/src/cli/bench/table.js";
import { openLlamaCpp } from "../peers/llama-cpp.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const { values } = parseArgs({
  options: {
    shape: { type: "string", default: "1b" },
    "llama-cpp": { type: "string" },
    build: { type: "string", default: "/tmp/llama.cpp-cuda" },
    torch: { type: "boolean", default: false },
    arch: { type: "string", default: "90" },
    device: { type: "string", default: "cuda" },
    dir: { type: "string", default: "/tmp" },
    prefill: { type: "string", default: "512,4096" },
    rows: { type: "string", default: "1,8,32,128,256" },
    context: { type: "string", default: "512" },
    steps: { type: "string", default: "64" },
    repeat: { type: "string", default: "3" },
  },
});
const numbers = (text) => text.split(",").map(Number);
const [lengths, rows, context, steps] = [
  numbers(values.prefill),
  numbers(values.rows),
  Number(values.context),
  Number(values.steps),
];
const isGpu = values.device !== "cpu";

function run(program, args) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
    cwd: ROOT,
  });
  if (status !== 0) throw new Error(`${program} ${args[0]} ended with ${status}: ${error ?? stderr.slice(-800)}`);
  return stdout;
}

/** Configures and compiles what is not there yet; returns the build folder. */
function buildLlamaCpp(source) {
  const off = [
    "LLAMA_CURL",
    "LLAMA_BUILD_TESTS",
    "LLAMA_BUILD_EXAMPLES",
    "LLAMA_BUILD_SERVER",
    "GGML_CUDA_FA_ALL_QUANTS",
  ];
  const gpu = isGpu ? ["-DGGML_CUDA=ON", `-DCMAKE_CUDA_ARCHITECTURES=${values.arch}`] : [];
  const flags = ["-DCMAKE_BUILD_TYPE=Release", ...gpu, ...off.map((name) => `-D${name}=OFF`)];
  const start = performance.now();
  run("cmake", ["-S", source, "-B", values.build, ...flags]);
  const targets = ["--target", "llama-bench", "llama-batched-bench"];
  run("cmake", ["--build", values.build, "-j", String(availableParallelism()), ...targets]);
  console.error(`llama.cpp is built in ${values.build} (${Math.round((performance.now() - start) / 1000)} s)`);
  return values.build;
}

/** tok/s by name: "prefill 512", "decode 32". */
function pagoda(model) {
  const sizes = [
    "--prefill",
    values.prefill,
    "--batch",
    values.rows,
    "--context",
    values.context,
    "--steps",
    values.steps,
  ];
  const wide = ["--repeat", values.repeat, "--max-pages-per-batch", "512", "--ideal-chunk", "8192"];
  const out = run("node", [
    "bin/pagoda.js",
    "bench",
    "latency",
    "--device",
    values.device,
    "--model",
    model,
    ...sizes,
    ...wide,
    "--json",
  ]);
  const { prefill, decode } = JSON.parse(out);
  return new Map([
    ...prefill.map(({ tokens, tokensPerSecond }) => [`prefill ${tokens}`, tokensPerSecond]),
    ...decode.map(({ rows: count, tokensPerSecond }) => [`decode ${count}`, tokensPerSecond]),
  ]);
}

function llamaCpp(build, model) {
  const { run: tool } = openLlamaCpp(build, model);
  const common = ["-m", model, "-fa", "on", ...(isGpu ? ["-ngl", "99"] : [])];
  const rates = new Map();
  for (const length of lengths) {
    const wide = ["-ub", String(Math.min(length, 2048)), "-b", String(length)];
    const out = tool("llama-bench", [
      ...common,
      ...wide,
      "-p",
      String(length),
      "-n",
      "0",
      "-r",
      values.repeat,
      "-o",
      "json",
    ]);
    rates.set(`prefill ${length}`, JSON.parse(out)[0].avg_ts);
  }
  for (const count of rows) {
    const room = String(count * (context + steps) + 64);
    const sizes = [
      "-npp",
      values.context,
      "-ntg",
      values.steps,
      "-npl",
      String(count),
      "-c",
      room,
      "-b",
      "2048",
      "-ub",
      "512",
    ];
    const out = tool("llama-batched-bench", [...common, ...sizes, "--output-format", "jsonl"]);
    const line = out.split("\n").find((text) => text.startsWith("{"));
    rates.set(`decode ${count}`, JSON.parse(line).speed_tg);
  }
  return rates;
}

function torch(shape) {
  const given = { ...shape, lengths, rows, context, steps, repeat: Number(values.repeat), device: values.device };
  const out = run("python3", [join(ROOT, "bench/gpu-peers/torch-llama.py"), JSON.stringify(given)]);
  return new Map(Object.entries(JSON.parse(out.trim().split("\n").at(-1))));
}

const source = values["llama-cpp"];
const isBuilt = existsSync(join(values.build, "bin", "llama-bench"));
const build = source !== undefined ? buildLlamaCpp(source) : isBuilt ? values.build : null;
for (const name of values.shape.split(",")) {
  const model = join(values.dir, `${name}-f16.gguf`);
  if (!existsSync(model)) {
    run("node", ["dist/bench/make-checkpoint.js", "--shape", name, "--type", "f16", "--out", model]);
  }
  const peers = [["Pagoda", pagoda(model)]];
  if (build !== null) peers.push(["llama.cpp", llamaCpp(build, model)]);
  if (values.torch) peers.push(["PyTorch", torch(SHAPES[name])]);
  const works = [...lengths.map((length) => `prefill ${length}`), ...rows.map((count) => `decode ${count}`)];
  const table = {
    caption: `${name}, f16 weights, ${context} of context; tok/s`,
    head: ["", ...peers.map(([peer]) => peer)],
    rows: works.map((work) => [work, ...peers.map(([, rates]) => rates.get(work) ?? "")]),
  };
  console.log(renderTable(table));
}
