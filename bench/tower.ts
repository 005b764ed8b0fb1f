// A picture of 1,024 x 1,024 through a tower shaped like SigLIP so400m (27 layers of 1,152, 16 heads of 72, 4,304 inside, patches of 16), with
// random weights, in an mmproj file that other engines read too.
//   node dist/bench/tower.js --make FILE [--dtype bf16|f16|f32] [--layers 27] [--patch 16] [--size 1024]
//   node dist/bench/tower.js FILE [--device cpu] [--threads 2] [--runs 5] [--peer "COMMAND"]
// `--peer`: run in turn with ours, as COMMAND FILE SIZE THREADS RUNS; it prints the milliseconds of each encoding, one a line. Prints the medians and their ratio.

import { execSync } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { bytesOf, type TensorDtype } from "../src/core/tensor.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { openMmproj } from "../src/formats/gguf/mmproj/mmproj.js";
import { visionOf } from "../src/models/vision/registry.js";
import type { Frame } from "../src/vision/processor.js";
import { type GgufTensor, writeGguf } from "../test/support/gguf-writer.js";

const HIDDEN = 1152;
const INNER = 4304;
const TEXT = 2048;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    make: { type: "string" },
    dtype: { type: "string", default: "bf16" },
    layers: { type: "string", default: "27" },
    patch: { type: "string", default: "16" },
    size: { type: "string", default: "1024" },
    device: { type: "string", default: "cpu" },
    threads: { type: "string", default: "2" },
    runs: { type: "string", default: "5" },
    peer: { type: "string" },
  },
});

if (values.make !== undefined) make(values.make);
else await measure(positionals[0]!);

/** Small random numbers, the same bytes again and again. */
function noise(dtype: TensorDtype, shape: readonly number[], spread: number, mean = 0): Uint8Array {
  const count = shape.reduce((a, b) => a * b, 1);
  let seed = count;
  const pool = Float32Array.from({ length: Math.min(count, 65_521) }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return mean + spread * (seed / 2 ** 31 - 1);
  });
  const floats = new Float32Array(count);
  for (let at = 0; at < count; at += pool.length) floats.set(pool.subarray(0, Math.min(pool.length, count - at)), at);
  const words = new Uint32Array(floats.buffer);
  if (dtype === "f32") {
    for (let i = 0; i < count; i++) words[i]! &= 0xffff0000;
    return new Uint8Array(floats.buffer);
  }
  const half = new Uint16Array(count);
  for (let i = 0; i < count; i++) half[i] = dtype === "bf16" ? words[i]! >>> 16 : f16(words[i]!);
  return new Uint8Array(half.buffer);
}

/** Of a normal number in f16's range, cut off. */
function f16(bits: number): number {
  const exponent = ((bits >>> 23) & 0xff) - 112;
  return exponent <= 0 ? 0 : ((bits >>> 16) & 0x8000) | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

function make(file: string): void {
  const dtype = values.dtype as "bf16" | "f16" | "f32";
  const [layers, patch, size] = [Number(values.layers), Number(values.patch), Number(values.size)];
  const side = Math.floor(size / patch);
  const tensors: GgufTensor[] = [];
  const add = (name: string, type: TensorDtype, shape: readonly number[], spread: number, mean = 0): void => {
    const bytes = noise(type, shape, spread, mean);
    if (
      bytes.length !==
      bytesOf(
        type,
        shape.reduce((a, b) => a * b, 1),
      )
    )
      throw new Error(name);
    tensors.push({ name, dtype: type, shape, bytes });
  };
  const norm = (name: string, cols: number): void => {
    add(`${name}.weight`, "f32", [cols], 0.1, 1);
    add(`${name}.bias`, "f32", [cols], 0.1);
  };
  const linear = (name: string, rows: number, cols: number): void => {
    add(`${name}.weight`, dtype, [rows, cols], 1 / Math.sqrt(cols));
    add(`${name}.bias`, "f32", [rows], 0.1);
  };
  // As llama.cpp's converter writes it: f32, of numbers that were bf16.
  add("v.patch_embd.weight", dtype === "bf16" ? "f32" : dtype, [HIDDEN, 3, patch, patch], 0.03);
  add("v.patch_embd.bias", "f32", [HIDDEN], 0.1);
  add("v.position_embd.weight", "f32", [side * side, HIDDEN], 0.1);
  for (let i = 0; i < layers; i++) {
    const at = `v.blk.${i}`;
    for (const part of ["attn_q", "attn_k", "attn_v", "attn_out"]) linear(`${at}.${part}`, HIDDEN, HIDDEN);
    norm(`${at}.ln1`, HIDDEN);
    norm(`${at}.ln2`, HIDDEN);
    linear(`${at}.ffn_up`, INNER, HIDDEN);
    linear(`${at}.ffn_down`, HIDDEN, INNER);
  }
  norm("v.post_ln", HIDDEN);
  add("mm.input_projection.weight", dtype, [HIDDEN, TEXT], 0.03);
  add("mm.soft_emb_norm.weight", "f32", [HIDDEN], 0.1, 1);
  const head = {
    "general.architecture": "clip",
    "general.type": "mmproj",
    "general.file_type": 1,
    "clip.has_vision_encoder": true,
    "clip.projector_type": "gemma3",
    "clip.use_gelu": true,
    "clip.vision.embedding_length": HIDDEN,
    "clip.vision.feed_forward_length": INNER,
    "clip.vision.block_count": layers,
    "clip.vision.attention.head_count": 16,
    "clip.vision.attention.layer_norm_epsilon": 1e-6,
    "clip.vision.projection_dim": TEXT,
    "clip.vision.image_size": side * patch,
    "clip.vision.patch_size": patch,
    "clip.vision.image_mean": [0.5, 0.5, 0.5],
    "clip.vision.image_std": [0.5, 0.5, 0.5],
  };
  const out = openSync(file, "w");
  writeSync(out, writeGguf(head, tensors));
  closeSync(out);
  process.stdout.write(`${file}: ${side * side} patches\n`);
}

async function measure(file: string): Promise<void> {
  const runs = Number(values.runs);
  const threads = Number(values.threads);
  const device = await openDevice({ device: values.device, threads } as Parameters<typeof openDevice>[0]);
  const { config, source } = openMmproj(file, { config: { hidden_size: TEXT }, tokenId: () => 1 });
  const family = visionOf(config)!;
  const parsed = family.parseConfig(config, file);
  const spec = family.specOf(parsed);
  const edge = spec.side! * spec.patches.size;
  const eyes = family.load(parsed, { device, source, quantize: "none" }, { maxTokens: spec.maxTokens! });
  const area = edge * edge;
  const pixels = Float32Array.from({ length: 3 * area }, (_, i) =>
    Math.sin((3 * (i % area) + Math.floor(i / area)) * 0.001),
  );
  const frame: Frame = { width: edge, height: edge, pixels };
  const ours: number[] = [];
  const theirs: number[] = [];
  await eyes.encode([frame]); // first touches of memory
  for (let run = 0; run < runs; run++) {
    const start = performance.now();
    const [encoded] = await eyes.encode([frame]);
    ours.push(performance.now() - start);
    if (!encoded!.rows.every(Number.isFinite)) throw new Error("rows are not finite");
    if (values.peer === undefined) continue;
    const text = execSync(`${values.peer} ${file} ${edge} ${threads} 1`, {
      stdio: ["ignore", "pipe", "ignore"],
    }).toString();
    theirs.push(...text.trim().split("\n").map(Number));
  }
  device.close();
  const median = (all: number[]): number => all.sort((a, b) => a - b)[all.length >> 1]!;
  const line = (name: string, all: number[]): string =>
    `${name}: ${median(all).toFixed(0)} ms (${all.map((ms) => ms.toFixed(0)).join(" ")})\n`;
  process.stdout.write(`${spec.side! ** 2} patches, ${runs} runs\n${line(`pagoda ${device.info.name}`, ours)}`);
  if (theirs.length > 0)
    process.stdout.write(`${line("peer", theirs)}ratio: ${(median(theirs) / median(ours)).toFixed(2)}\n`);
}
