// `pagoda bench recurrent`: the kernels of recurrent layers at the shapes of real models, prefill and decode, against what the machine
// can do at best. States are used in turns, as the layers of a model use them, so that they come from memory.

import type { OptionTable } from "../../config/options.js";
import { Batch } from "../../core/batch.js";
import type { Device, StagedBatch, StatePool } from "../../device/device.js";
import { openDevice } from "../../engine/core/devices.js";
import { RUN_OPTIONS } from "../sampling-options.js";
import { type Bench, countsOf, splitValues } from "./benchmark.js";
import { COLD_BYTES, describePeaks, measurePeaks, percent, sharesOf, timeCall } from "./peaks.js";
import { noise } from "./random-matrix.js";

const OWN = {
  tokens: { type: "list", default: ["512"], help: "tokens of a prompt: N,N,..." },
  rows: { type: "list", default: ["1", "32"], help: "rows that decode one token each: N,N,..." },
  budgetMs: { type: "integer", min: 1, default: 300, help: "milliseconds for each measurement" },
} as const satisfies OptionTable;

interface Own {
  readonly tokens: readonly string[];
  readonly rows: readonly string[];
  readonly budgetMs: number;
}

/** A step: rows of as many new tokens each. */
interface Shape {
  readonly rows: number;
  readonly tokens: number;
}

interface Kernel {
  readonly name: string;
  /** Numbers of one row's state. */
  readonly floats: number;
  /** Of one token. */
  readonly operations: number;
  /** Numbers read and written for one token, beside the state. */
  readonly touched: number;
  prepare(device: Device, tokens: number): (pool: StatePool, offset: number, batch: StagedBatch) => void;
}

/** heads x (keys x values); `operations` of a state's number: two for each product that is added, one for each that is not. */
function linearAttention(
  name: string,
  heads: number,
  keyHeads: number,
  keys: number,
  values: number,
  isDelta: boolean,
): Kernel {
  const numbers = heads * keys * values;
  return {
    name: `${name}: ${heads} heads of ${keys} x ${values}`,
    floats: numbers,
    operations: (isDelta ? 7 : 5) * numbers,
    touched: 2 * keyHeads * keys + 2 * heads * values,
    prepare(device, tokens) {
      const of = (cols: number, seed: number) => device.loadTensor(noise(tokens * cols, seed), tokens, cols);
      const [q, k, v] = [of(keyHeads * keys, 1), of(keyHeads * keys, 2), of(heads * values, 3)];
      const gate = device.loadTensor(new Float32Array(tokens * heads).fill(0.5), tokens, heads);
      const out = device.allocTensor(tokens, heads * values);
      const spec = { numHeads: heads, numKeyHeads: keyHeads, keyDim: keys, valueDim: values, isDelta, skip: null };
      return (pool, offset, batch) => device.linearAttention(out, q, k, v, gate, gate, spec, pool, offset, batch);
    },
  };
}

function shortConv(cols: number, taps: number): Kernel {
  return {
    name: `short convolution: ${cols} columns, ${taps} taps`,
    floats: (taps - 1) * cols,
    operations: 2 * taps * cols,
    touched: 2 * cols,
    prepare(device, tokens) {
      const x = device.loadTensor(noise(tokens * cols, 1), tokens, cols);
      const weight = device.loadTensor(noise(taps * cols, 2), taps, cols);
      const out = device.allocTensor(tokens, cols);
      return (pool, offset, batch) => device.shortConv(out, x, weight, null, "identity", pool, offset, batch);
    },
  };
}

const KERNELS: readonly Kernel[] = [
  linearAttention("gated delta rule", 32, 16, 128, 128, true),
  linearAttention("state space (Mamba-2)", 80, 1, 128, 64, false),
  shortConv(8192, 4),
];

export const recurrentBench: Bench = {
  positionals: [],
  options: { ...OWN, device: RUN_OPTIONS.device, threads: RUN_OPTIONS.threads },
  async run(values) {
    const { own, engine } = splitValues<Own>(OWN, values);
    const shapes: Shape[] = [
      ...countsOf("--tokens", own.tokens).map((tokens) => ({ rows: 1, tokens })),
      ...countsOf("--rows", own.rows).map((rows) => ({ rows, tokens: 1 })),
    ];
    const open = () => openDevice({ device: engine.device ?? "auto", threads: engine.threads ?? 0 });
    const { info, peaks } = await measurePeaks(open);
    const results = [];
    for (const kernel of KERNELS) {
      for (const shape of shapes) {
        const device = await open(); // closing it is what frees the states
        const seconds = measure(device, kernel, shape, own.budgetMs);
        device.close();
        const numTokens = shape.rows * shape.tokens;
        const work = {
          operations: kernel.operations * numTokens,
          bytes: 4 * (2 * kernel.floats * shape.rows + kernel.touched * numTokens),
          isInteger: false,
        };
        results.push({ kernel: kernel.name, ...shape, ms: 1000 * seconds, ...sharesOf(peaks, work, seconds) });
      }
    }
    return {
      report: { device: info.description, peaks, results },
      tables: [
        {
          caption: `recurrent layers on ${info.name}: ${info.description}; ${describePeaks(peaks)}`,
          head: ["kernel", "rows x tokens", "ms", "% of compute", "% of memory", "% of roofline"],
          rows: results.map((r) => [
            r.kernel,
            `${r.rows} x ${r.tokens}`,
            r.ms,
            ...[r.compute, r.memory, r.roofline].map(percent),
          ]),
          notes: ["memory: states read and written once, tokens' inputs and outputs once."],
        },
      ],
      charts: [],
    };
  },
};

function measure(device: Device, kernel: Kernel, { rows, tokens }: Shape, budgetMs: number): number {
  const numTokens = rows * tokens;
  const bytes = 4 * kernel.floats * rows;
  const layers = device.info.name === "reference" ? 1 : Math.min(64, Math.ceil(COLD_BYTES / bytes));
  const pool = device.allocStatePool({ numSlots: rows, floats: layers * kernel.floats });
  const batch = new Batch(16, numTokens, 0);
  const ids = new Int32Array(1 + tokens);
  for (let r = 0; r < rows; r++) batch.addRow(ids, 1, tokens, ids, Number.POSITIVE_INFINITY, r);
  const staged = device.createStagedBatch(numTokens);
  device.stage(staged, batch, []);
  const run = kernel.prepare(device, numTokens);
  return timeCall((round) => run(pool, (round % layers) * kernel.floats, staged), budgetMs);
}
