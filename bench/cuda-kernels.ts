// Device time of single kernels of the cuda device, on random numbers, as shares of what the machine can do.
//   node dist/bench/cuda-kernels.js [matmul|codes|attention|all|gated|forms] [PART OF AN ATTENTION'S OR ENCODING'S NAME]
//   gated: gate and up with their activation beside the plain product; forms: every form of the tile kernel, to choose among them (bf16, or
//   the encoding that is named)

import { Batch } from "../src/core/batch.js";
import { f32ToBf16 } from "../src/core/dequantize/small-floats.js";
import { BLOCK_OF, bytesOf, type HostTensor } from "../src/core/tensor.js";
import { CudaDevice } from "../src/device/cuda/cuda-device.js";
import { canPart, TILES, tileChoice, tiles } from "../src/device/cuda/matmul.js";
import type { CudaRuntime } from "../src/device/cuda/runtime.js";
import type { CudaWeight } from "../src/device/cuda/tensor.js";
import type { Weight } from "../src/device/device.js";

/** Encodings that are multiplied at their width. */
const CODED = ["q4_0", "mxfp4", "q4_k", "q8_0", "f8_e4m3_64", "q6_k"] as const;
type Coded = (typeof CODED)[number];
type Encoding = "bf16" | Coded;

/** Small scales that are no f16. */
const SMALL: Partial<Record<Encoding, readonly number[]>> = { mxfp4: [121], f8_e4m3_64: [17, 34, 0x83, 0x39] };

const READ_TB = 4.66; // measured read bandwidth of an H200, TB/s
const what = process.argv[2] ?? "all";
const device = new CudaDevice();
console.log(device.info.description);
if (what === "matmul" || what === "all") matmuls();
if (what === "codes" || what === "all") codes();
if (what === "attention" || what === "all") attentions();
if (what === "gated") gated();
if (what === "forms") tileForms((process.argv[3] ?? "bf16") as Encoding);
device.close();

/** Median of several timings of `count` runs, per run, in microseconds. */
function microseconds(count: number, run: (i: number) => void): number {
  const all = () => {
    for (let i = 0; i < count; i++) run(i);
  };
  all();
  const times = Array.from({ length: 5 }, () => (1000 * device.time(all)) / count);
  return times.sort((a, b) => a - b)[2]!;
}

function randomBits(count: number): Uint16Array {
  const bits = new Uint16Array(count);
  let h = 12345;
  for (let i = 0; i < count; i++) {
    h = (Math.imul(h, 1664525) + 1013904223) | 0;
    bits[i] = f32ToBf16((h / 2 ** 31) * 0.05);
  }
  return bits;
}

/** Numbers in [-1, 1), one drawn block repeated. */
function randomFloats(count: number): Float32Array {
  const values = new Float32Array(count);
  const drawn = Math.min(count, 1 << 16);
  for (let i = 0; i < drawn; i++) values[i] = Math.sin(i * 12.9898) * Math.cos(i * 0.37);
  for (let at = drawn; at < count; at *= 2) values.copyWithin(at, 0, Math.min(at, count - at));
  return values;
}

/** Bytes of which every block of an encoding begins or ends with small scales. */
function codedBytes(encoding: Coded, count: number): Uint8Array {
  const [, size] = BLOCK_OF[encoding];
  const block = new Uint8Array(randomBits(size * 4096).buffer, 0, size * 8192);
  const scalesAt = encoding === "q6_k" ? [208] : encoding === "q4_k" ? [0, 2] : [0];
  for (let at = 0; at < block.length; at += size)
    for (const i of scalesAt) block.set(SMALL[encoding] ?? [at & 255, 0x14], at + i);
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count; at += block.length) bytes.set(block.subarray(0, count - at), at);
  return bytes;
}

function weightOf(rows: number, cols: number, encoding: Encoding = "bf16"): Weight {
  let bytes: Uint8Array;
  if (encoding === "bf16") {
    const block = new Uint8Array(randomBits(1 << 20).buffer);
    bytes = new Uint8Array(rows * cols * 2);
    for (let at = 0; at < bytes.length; at += block.length) bytes.set(block.subarray(0, bytes.length - at), at);
  } else bytes = codedBytes(encoding, bytesOf(encoding, rows * cols));
  const tensor: HostTensor = {
    name: "random",
    dtype: encoding,
    shape: [rows, cols],
    file: null,
    byteLength: bytes.length,
    bytes: () => bytes,
  };
  return device.loadWeight([tensor]);
}

/** Many weights of one shape, more than L2 holds, so that each product reads its own from memory. */
function withWeights(
  rows: number,
  cols: number,
  run: (weights: readonly CudaWeight[]) => void,
  encoding: Encoding = "bf16",
): void {
  const copies = Math.min(8, Math.max(1, Math.ceil(240e6 / (rows * cols * 2))));
  const weights = Array.from({ length: copies }, () => weightOf(rows, cols, encoding) as CudaWeight);
  run(weights);
  for (const weight of weights) device.freeWeight(weight);
}

function tileForms(encoding: Encoding): void {
  const runtime = (device as unknown as { runtime: CudaRuntime }).runtime;
  const shapes = [
    [3072, 2048],
    [2048, 2048],
    [16384, 2048],
    [2048, 8192],
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [4096, 14336],
  ] as const;
  const product = { bias: 0, scale: 1, accumulate: true, gate: -1 };
  for (const [rows, cols] of shapes) {
    const measure = (weights: readonly CudaWeight[]) => {
      for (const n of [33, 64, 128, 256, 512, 1024]) {
        const x = device.loadTensor(randomFloats(n * cols), n, cols);
        const out = device.allocTensor(n, rows);
        const count = Math.max(weights.length, n > 512 ? 4 : 16);
        const time = (run: (weight: CudaWeight) => void) =>
          microseconds(count, (i) => run(weights[i % weights.length]!)).toFixed(1);
        const times: string[] = [];
        const operand = runtime.operandOf(x, n, weights[0]!.kind);
        const chosen = tileChoice(132, weights[0]!, n);
        for (const form of TILES) {
          for (const isSideBySide of canPart(form, weights[0]!, n) ? [false, true] : [false]) {
            const isChosen = form === chosen.form && isSideBySide === chosen.isSideBySide;
            const us = time((weight) => tiles(runtime, out, operand, weight, n, product, { form, isSideBySide }));
            times.push(`${form.tokens}_${form.groups}${isSideBySide ? "|" : ""}${isChosen ? "*" : ""} ${us}`);
          }
        }
        console.log(`tiles ${encoding} ${rows}x${cols} of ${n} (us): ${times.join("  ")}`);
        device.free(out);
        device.free(x);
      }
    };
    withWeights(rows, cols, measure, encoding);
  }
}

/** The product of gate and up with and without the activation in its epilogue. */
function gated(): void {
  for (const [rows, cols] of [
    [16384, 2048],
    [28672, 4096],
  ] as const) {
    withWeights(rows, cols, (weights) => {
      const line = [128, 256, 512, 2048, 4096, 8192].map((n) => {
        const x = device.loadTensor(randomFloats(n * cols), n, cols);
        const [out, half] = [rows, rows / 2].map((columns) => device.allocTensor(n, columns));
        device.matmul(out!, x, weights[0]!, n); // makes the operand
        const runtime = (device as unknown as { runtime: CudaRuntime }).runtime;
        runtime.operandOf(half!, n, weights[0]!.kind); // as in a model: the activation writes what the next product reads
        const count = n > 512 ? 4 : 16;
        const plain = microseconds(count, (i) => device.matmul(out!, x, weights[i % weights.length]!, n));
        const fused = microseconds(count, (i) => device.gatedMatmul(half!, x, weights[i % weights.length]!, "silu", n));
        for (const tensor of [x, out!, half!]) device.free(tensor);
        return `${n}: ${plain.toFixed(0)} / ${fused.toFixed(0)}`;
      });
      console.log(`gate and up ${rows}x${cols}, plain / with activation (us)  ${line.join("  ")}`);
    });
  }
}

function matmuls(): void {
  const shapes = [
    [3072, 2048],
    [2048, 2048],
    [16384, 2048],
    [2048, 8192],
    [128256, 2048],
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [4096, 14336],
    [8192, 8192],
  ] as const;
  for (const [rows, cols] of shapes) {
    withWeights(rows, cols, (weights) => {
      const copies = weights.length;
      const line: string[] = [];
      for (const n of [1, 8, 16, 32, 64, 128, 256, 1024, 8192]) {
        if (n >= 1024 && rows > 100000) continue;
        const x = device.loadTensor(randomFloats(n * cols), n, cols);
        const out = device.allocTensor(n, rows);
        device.matmul(out, x, weights[0]!, n); // makes the operand
        const us = microseconds(Math.max(copies, n > 512 ? 4 : 24), (i) =>
          device.matmul(out, x, weights[i % copies]!, n),
        );
        const tb = (rows * cols * 2) / us / 1e6;
        const tflops = (2 * n * rows * cols) / us / 1e6;
        line.push(
          n <= 64
            ? `${n}: ${us.toFixed(1)}us ${((100 * tb) / READ_TB).toFixed(0)}%`
            : `${n}: ${us.toFixed(0)}us ${tflops.toFixed(0)}T`,
        );
        device.free(out);
        device.free(x);
      }
      console.log(`matmul ${rows}x${cols}  ${line.join("  ")}`);
    });
  }
}

/** Weights of 4 to 8 bits a number: time, and the share of the bandwidth at which their own bytes are read. */
function codes(): void {
  for (const encoding of CODED) {
    if (!encoding.includes(process.argv[3] ?? "")) continue;
    for (const [rows, cols] of [
      [2048, 8192],
      [6144, 4096],
      [28672, 4096],
      [4096, 14336],
    ] as const) {
      const measure = (weights: readonly CudaWeight[]) => {
        const line = [1, 8, 32, 64, 256, 2048].map((n) => {
          const x = device.loadTensor(randomFloats(n * cols), n, cols);
          const out = device.allocTensor(n, rows);
          device.matmul(out, x, weights[0]!, n); // makes the operand
          const us = microseconds(n > 512 ? 4 : 24, (i) => device.matmul(out, x, weights[i % weights.length]!, n));
          device.free(out);
          device.free(x);
          const share = ((100 * weights[0]!.byteLength) / us / 1e6 / READ_TB).toFixed(0);
          return n <= 64
            ? `${n}: ${us.toFixed(1)}us ${share}%`
            : `${n}: ${us.toFixed(0)}us ${((2 * n * rows * cols) / us / 1e6).toFixed(0)}T`;
        });
        console.log(`${encoding} ${rows}x${cols}  ${line.join("  ")}`);
      };
      withWeights(rows, cols, measure, encoding);
    }
  }
}

/** Rows of [cached, new] tokens, heads 32/8, page 16. */
function attention(
  name: string,
  rows: readonly (readonly [number, number])[],
  dim = 128,
  dtype: "bf16" | "fp8" = "bf16",
): void {
  if (!name.includes(process.argv[3] ?? "")) return;
  const [numHeads, numKvHeads, pageSize] = [32, 8, 16] as const;
  const pagesOf = rows.map(([cached, fresh]) => Math.ceil((cached + fresh) / pageSize));
  const numPages = 1 + pagesOf.reduce((a, b) => a + b, 0);
  const tokens = rows.reduce((sum, [, fresh]) => sum + fresh, 0);
  const layers = Math.max(1, Math.min(8, Math.ceil(200e6 / (numPages * pageSize * numKvHeads * dim * 4))));
  const pool = device.allocKvPool({
    numPages,
    pageSize,
    numLayers: layers,
    numKvHeads,
    keyDim: dim,
    valueDim: dim,
    dtype,
  });
  fillPool(pool.byteLength, pool as unknown as { address: number });
  const batch = new Batch(pageSize, tokens);
  // Pages in a shuffled order, as in an engine that has run for a while.
  const order = Int32Array.from({ length: numPages - 1 }, (_, i) => i + 1);
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(((Math.imul(i, 2654435761) >>> 0) / 2 ** 32) * i);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  let next = 0;
  rows.forEach(([cached, fresh], r) => {
    const pages = order.slice(next, next + pagesOf[r]!);
    next += pagesOf[r]!;
    batch.addRow(new Int32Array(cached + fresh), cached, fresh, pages, Number.POSITIVE_INFINITY);
  });
  const planner = device.createPlanner({
    groupSize: 4,
    numKvHeads,
    headDim: dim,
    window: 0,
    split: "fixed",
    kvDtype: dtype,
  });
  const start = performance.now();
  const plan = planner.plan(batch);
  const planMs = performance.now() - start;
  const staged = device.createStagedBatch(tokens);
  device.stage(staged, batch, [plan]);
  const q = device.loadTensor(randomFloats(tokens * numHeads * dim), tokens, numHeads * dim);
  const out = device.allocTensor(tokens, numHeads * dim);
  const params = { numHeads, scale: dim ** -0.5, softcap: 0, sinks: null };
  const us = microseconds(8, (i) => device.attention(out, q, pool, i % layers, staged, 0, params));
  let pairs = 0;
  let keys = 0;
  for (const [cached, fresh] of rows) {
    keys += cached + fresh;
    pairs += fresh * cached + (fresh * (fresh + 1)) / 2;
  }
  const slotBytes = dtype === "fp8" ? dim + 2 : 2 * dim;
  const tb = (keys * numKvHeads * 2 * slotBytes) / us / 1e6;
  const tflops = (4 * pairs * numHeads * dim) / us / 1e6;
  console.log(
    `attention ${name}: ${us.toFixed(1)} us, ${tb.toFixed(2)} TB/s (${((100 * tb) / READ_TB).toFixed(0)} %), ${tflops.toFixed(0)} TFLOP/s, ` +
      `${plan.numItems} items, ${plan.numMerges} merges, plan ${planMs.toFixed(2)} ms`,
  );
  device.free(q);
  device.free(out);
  device.freePool(pool);
}

function fillPool(bytes: number, { address }: { address: number }): void {
  const block = new Uint8Array(randomBits(1 << 22).buffer);
  for (let at = 0; at < bytes; at += block.length)
    device.poke(address + at, block.subarray(0, Math.min(block.length, bytes - at)));
}

function attentions(): void {
  const times = <T>(count: number, row: T): T[] => Array.from({ length: count }, () => row);
  const ragged = Array.from({ length: 64 }, (_, i) => [Math.round(100 * 160 ** (i / 63)) - 1, 1] as const);
  const chunks = times(4, [8000, 512] as const);
  const decodes = times(60, [2047, 1] as const);
  // The first cases find the clocks low: long ones come first.
  attention("extend 4 x 4096", times(4, [0, 4096]));
  attention("extend 4 x 4096, heads of 64", times(4, [0, 4096]), 64);
  attention("extend 1 x 8192", [[0, 8192]]);
  attention("extend 32 x 512", times(32, [0, 512]));
  attention("extend 1 x 512", [[0, 512]]);
  attention("extend 64 on 8000", [[8000, 64]]);
  attention("mixed: 4 chunks of 512 on 8000", chunks);
  attention("mixed: 60 decodes of 2048", decodes);
  attention("mixed: both in one batch", [...chunks, ...decodes]);
  attention("decode 64 x 2048", times(64, [2047, 1]));
  attention("decode ragged 64 rows, 100 to 16,000", ragged);
  for (const count of [1, 8, 32, 256]) attention(`decode ${count} x 640, heads of 64`, times(count, [639, 1]), 64);
  for (const count of [1, 8, 32, 256]) attention(`decode ${count} x 640`, times(count, [639, 1]));
  attention("decode 1 x 8192", [[8191, 1]]);
  attention("extend 4 x 4096, fp8", times(4, [0, 4096]), 128, "fp8");
  attention("mixed: 4 chunks of 512 on 8000, fp8", chunks, 128, "fp8");
  attention("decode 64 x 2048, fp8", times(64, [2047, 1]), 128, "fp8");
  attention("decode ragged 64 rows, 100 to 16,000, fp8", ragged, 128, "fp8");
  attention("decode 256 x 640, heads of 64, fp8", times(256, [639, 1]), 64, "fp8");
}
