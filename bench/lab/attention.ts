// `node dist/bench/lab/lab.js attention`: the device's attention over pages for given batches, planned as the engine plans them, against what
// the machine can do at best. One call is one layer.

import { type Bench, splitValues } from "../../src/cli/bench/benchmark.js";
import { BenchProgress } from "../../src/cli/bench/progress.js";
import { RUN_OPTIONS } from "../../src/cli/sampling-options.js";
import type { OptionTable } from "../../src/config/options.js";
import { Batch } from "../../src/core/batch.js";
import { errorFor } from "../../src/core/errors.js";
import { ceilDiv } from "../../src/core/math.js";
import type { Device, KvDtype, KvPoolSpec } from "../../src/device/device.js";
import { kvDtypeOf, openDevice } from "../../src/engine/core/load/devices.js";
import { COLD_BYTES, describePeaks, measurePeaks, percent, sharesOf, timeCall } from "./peaks.js";
import { noise } from "./random-matrix.js";

const OWN = {
  cases: {
    type: "list",
    default: ["1x512@512", "1x128@2048", "1x1@2048", "8x1@1024", "32x1@512", "1x128@512+31x1@512"],
    help: "batches: ROWSxNEW@CONTEXT, joined by +",
  },
  heads: { type: "integer", min: 1, default: 9, help: "query heads" },
  kvHeads: { type: "integer", min: 1, default: 3, help: "key and value heads" },
  headDim: { type: "integer", min: 8, default: 64, help: "size of a head" },
  window: { type: "integer", min: 0, default: 0, help: "sliding window in tokens; 0 is none" },
  budgetMs: { type: "integer", min: 1, default: 300, help: "milliseconds for each measurement" },
} as const satisfies OptionTable;

interface Own {
  readonly cases: readonly string[];
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly window: number;
  readonly budgetMs: number;
}

interface CaseRow {
  readonly queryLen: number;
  readonly contextLen: number;
}

const MAX_LAYERS = 32;

export const attentionBench: Bench = {
  positionals: [],
  options: {
    ...OWN,
    device: RUN_OPTIONS.device,
    threads: RUN_OPTIONS.threads,
    kvDtype: RUN_OPTIONS.kvDtype,
    pageSize: RUN_OPTIONS.pageSize,
    split: RUN_OPTIONS.split,
  },
  async run(values) {
    const { own, engine } = splitValues<Own>(OWN, values);
    if (own.heads % own.kvHeads !== 0) {
      const expected = `a multiple of --kv-heads, ${own.kvHeads}`;
      throw errorFor("invalid_option", { param: "--heads", value: own.heads, expected });
    }
    const cases = own.cases.map((text) => ({ text, rows: rowsOf(text) }));
    const { pageSize = 16, split = "fixed", kvDtype = "auto" } = engine;
    const open = () => openDevice({ device: engine.device ?? "auto", threads: engine.threads ?? 0 });
    const { info, peaks } = await measurePeaks(open);
    const progress = new BenchProgress("attention", cases.length);
    const results = [];
    for (const { text, rows } of cases) {
      const device = await open();
      const dtype = kvDtypeOf({ kvDtype }, device);
      const { seconds, kvBytes } = measure(device, rows, own, { pageSize, split, dtype });
      device.close();
      const operations = 4 * own.heads * own.headDim * pairsOf(rows, own.window);
      const ioBytes = 8 * own.heads * own.headDim * rows.reduce((sum, row) => sum + row.queryLen, 0);
      const work = { operations, bytes: kvBytes + ioBytes, isInteger: false };
      const gigaOps = operations / seconds / 1e9;
      results.push({ case: text, kvDtype: dtype, ms: 1000 * seconds, gigaOps, ...sharesOf(peaks, work, seconds) });
      progress.advance(text);
    }
    progress.end();
    return {
      report: { device: info.description, peaks, options: { ...own, pageSize, split }, results },
      tables: [
        {
          caption: `attention on ${info.name}: ${info.description}; ${describePeaks(peaks)}`,
          head: ["rows x new @ context", "KV", "ms", "GFLOP/s", "% of compute", "% of memory", "% of roofline"],
          rows: results.map((r) => [
            r.case,
            r.kvDtype,
            r.ms,
            r.gigaOps,
            ...[r.compute, r.memory, r.roofline].map(percent),
          ]),
          notes: [
            `${own.heads} query and ${own.kvHeads} kv heads of ${own.headDim}; memory: every page of a row read once.`,
          ],
        },
      ],
      charts: [
        {
          title: "Attention",
          unit: "GFLOP/s",
          groups: results.map((r) => ({ label: r.case, bars: [{ name: "", value: r.gigaOps }] })),
        },
      ],
    };
  },
};

/** "2x128@512+3x1@64": two rows of 128 new tokens at the end of 512, three of one at the end of 64. */
function rowsOf(text: string): CaseRow[] {
  return text.split("+").flatMap((part) => {
    const [, count, queryLen, contextLen] = (/^(\d+)x(\d+)@(\d+)$/.exec(part.trim()) ?? []).map(Number);
    if (!(count! >= 1 && queryLen! >= 1 && contextLen! >= queryLen!)) {
      const expected = "ROWSxNEW@CONTEXT such as 8x1@1024, with NEW at most CONTEXT";
      throw errorFor("invalid_option", { param: "--cases", value: text, expected });
    }
    return Array.from({ length: count! }, () => ({ queryLen: queryLen!, contextLen: contextLen! }));
  });
}

/** (query, key) pairs that a causal mask, and a window, leave. */
function pairsOf(rows: readonly CaseRow[], window: number): number {
  let pairs = 0;
  for (const { queryLen, contextLen } of rows) {
    for (let seen = contextLen - queryLen + 1; seen <= contextLen; seen++)
      pairs += window > 0 ? Math.min(seen, window) : seen;
  }
  return pairs;
}

interface PoolOptions {
  readonly pageSize: number;
  readonly split: "fixed" | "balanced";
  readonly dtype: KvDtype;
}

/** Seconds of one layer's attention, and the bytes of keys and values it reads. */
function measure(device: Device, rows: readonly CaseRow[], own: Own, { pageSize, split, dtype }: PoolOptions) {
  const { heads, kvHeads, headDim, window } = own;
  const pagesOf = rows.map((row) => ceilDiv(row.contextLen, pageSize));
  const numPages = 1 + pagesOf.reduce((sum, pages) => sum + pages, 0);
  const layerSpec = { pageSize, numLayers: 1, numKvHeads: kvHeads, keyDim: headDim, valueDim: headDim, dtype };
  const tokenBytes = device.kvPageBytes(layerSpec) / pageSize;
  const seenTokens = rows.reduce((sum, { queryLen, contextLen }) => {
    return sum + (window > 0 ? Math.min(contextLen, window + queryLen - 1) : contextLen);
  }, 0);
  const kvBytes = seenTokens * tokenBytes;
  // Layers are used in turns, as in a model, so that pages come from memory.
  const numLayers = device.info.isOracle ? 1 : Math.min(MAX_LAYERS, Math.ceil(COLD_BYTES / kvBytes));
  const pool = device.allocKvPool({ ...layerSpec, numLayers, numPages } satisfies KvPoolSpec);

  const numTokens = rows.reduce((sum, row) => sum + row.queryLen, 0);
  const longest = Math.max(numTokens, ...rows.map((row) => row.contextLen));
  const batch = new Batch(pageSize, longest);
  const staged = device.createStagedBatch(longest);
  const q = device.loadTensor(noise(longest * heads * headDim, 1), longest, heads * headDim);
  const kv = device.loadTensor(noise(longest * kvHeads * headDim, 2), longest, kvHeads * headDim);
  const out = device.allocTensor(longest, heads * headDim);
  const planner = device.createPlanner({ groupSize: heads / kvHeads, numKvHeads: kvHeads, headDim, window, split });
  const noTokens = new Int32Array(longest);
  let firstPage = 1;
  const pages = pagesOf.map((count) => {
    firstPage += count;
    return Int32Array.from({ length: count }, (_, i) => firstPage - 1 - i); // descending: not the order of memory
  });
  for (const [r, { contextLen }] of rows.entries()) {
    batch.clear();
    batch.addRow(noTokens, 0, contextLen, pages[r]!, Number.POSITIVE_INFINITY);
    device.stage(staged, batch, [planner.plan(batch)]);
    for (let layer = 0; layer < numLayers; layer++) device.rotaryAppend(q, kv, kv, null, pool, layer, staged);
  }
  batch.clear();
  for (const [r, { queryLen, contextLen }] of rows.entries()) {
    batch.addRow(noTokens, contextLen - queryLen, queryLen, pages[r]!, Number.POSITIVE_INFINITY);
  }
  device.stage(staged, batch, [planner.plan(batch)]);
  const params = { numHeads: heads, scale: 1 / Math.sqrt(headDim), softcap: 0, sinks: null };
  const seconds = timeCall(
    (round) => device.attention(out, q, pool, round % numLayers, staged, 0, params),
    own.budgetMs,
  );
  return { seconds, kvBytes };
}
