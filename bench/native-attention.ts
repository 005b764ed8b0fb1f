// Times attention on the cpu device: prefill against the FMA bound, decode against the bytes of K and V it streams.
//   node dist/bench/native-attention.js [threads]
// Prints the best of many repetitions: the machine may be shared, and the fastest run is the one least disturbed.

import { AttentionPlanner } from "../src/attention/planner.js";
import { Batch } from "../src/core/batch.js";
import { CpuDevice } from "../src/device/cpu/cpu-device.js";
import type { KvDtype } from "../src/device/device.js";

const threads = Number(process.argv[2] ?? 2);
const PAGE_SIZE = 16;

interface Shape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly dim: number;
}

/** `rows` requests with `cached` tokens behind them and `queryLen` new ones; returns the best time in seconds. */
function time(shape: Shape, dtype: KvDtype, rows: number, cached: number, queryLen: number): number {
  const { heads, kvHeads, dim } = shape;
  const device = new CpuDevice({ threads });
  const context = cached + queryLen;
  const pagesPerRow = Math.ceil(context / PAGE_SIZE);
  const numPages = 1 + rows * pagesPerRow;
  const pool = device.allocKvPool({
    numPages,
    pageSize: PAGE_SIZE,
    numLayers: 1,
    numKvHeads: kvHeads,
    keyDim: dim,
    valueDim: dim,
    dtype,
  });
  const random = (count: number) => Float32Array.from({ length: count }, () => Math.random() * 2 - 1);

  // Fill every page that will be read.
  const fill = new Batch(PAGE_SIZE, pagesPerRow * PAGE_SIZE);
  const fillStaged = device.createStagedBatch(fill.maxTokens);
  const unused = device.allocTensor(fill.maxTokens, heads * dim);
  const kv = device.loadTensor(random(fill.maxTokens * kvHeads * dim), fill.maxTokens, kvHeads * dim);
  const batch = new Batch(PAGE_SIZE, Math.max(rows * queryLen, rows * pagesPerRow));
  const tokens = new Int32Array(pagesPerRow * PAGE_SIZE);
  for (let r = 0; r < rows; r++) {
    const pages = Int32Array.from({ length: pagesPerRow }, (_, i) => 1 + r * pagesPerRow + ((i * 7) % pagesPerRow));
    if (pagesPerRow % 7 === 0) for (let i = 0; i < pagesPerRow; i++) pages[i] = 1 + r * pagesPerRow + i;
    fill.clear();
    fill.addRow(tokens, 0, pagesPerRow * PAGE_SIZE, pages, Infinity);
    device.stage(fillStaged, fill, []);
    device.rotaryAppend(unused, kv, kv, null, pool, 0, fillStaged);
    batch.addRow(tokens, cached, queryLen, pages, Infinity);
  }

  const { numWorkers, kvChunk } = device.info;
  const groupSize = heads / kvHeads;
  const planner = new AttentionPlanner({ groupSize, headDim: dim, window: 0, numWorkers, split: "fixed", kvChunk });
  const staged = device.createStagedBatch(batch.maxTokens);
  device.stage(staged, batch, [planner.plan(batch)]);
  const q = device.loadTensor(random(batch.numTokens * heads * dim), batch.numTokens, heads * dim);
  const out = device.allocTensor(batch.numTokens, heads * dim);
  const params = { numHeads: heads, scale: 1 / Math.sqrt(dim), softcap: 0, sinks: null };
  let best = Infinity;
  const until = performance.now() + 800;
  for (let i = 0; i < 5 || performance.now() < until; i++) {
    const start = process.hrtime.bigint();
    device.attention(out, q, pool, 0, staged, 0, params);
    best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e9);
  }
  device.close();
  return best;
}

const BYTES: Record<KvDtype, number> = { f32: 4, f16: 2, bf16: 2, i8: 1 };
const SHAPES: Shape[] = [
  { heads: 9, kvHeads: 3, dim: 64 },
  { heads: 32, kvHeads: 8, dim: 64 },
  { heads: 32, kvHeads: 8, dim: 128 },
];
console.log(`${threads} threads`);
for (const shape of SHAPES) {
  const { heads, kvHeads, dim } = shape;
  const name = `H=${heads} K=${kvHeads} D=${dim}`;
  for (const dtype of ["f32", "f16", "bf16", "i8"] as const) {
    const queryLen = 512;
    const prefill = time(shape, dtype, 1, 0, queryLen);
    const flops = 4 * dim * heads * ((queryLen * (queryLen + 1)) / 2);
    const rows = 8;
    const cached = 2047;
    const decode = time(shape, dtype, rows, cached, 1);
    const bytes = rows * (cached + 1) * kvHeads * 2 * dim * BYTES[dtype];
    console.log(
      `${name} ${dtype.padEnd(4)}  prefill ${queryLen}: ${(prefill * 1e3).toFixed(2)} ms ${(flops / prefill / 1e9).toFixed(0)} GFLOP/s` +
        `   decode ${rows} x ${cached + 1}: ${(decode * 1e3).toFixed(3)} ms ${(bytes / decode / 1e9).toFixed(1)} GB/s`,
    );
  }
}
