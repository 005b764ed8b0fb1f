// `node dist/bench/lab/lab.js recurrent`: the kernels of recurrent layers at the shapes of real models, prefill and decode, against what the machine
// can do at best in the same moments. States are used in turns, as the layers of a model use them, so that they come from memory.

import { type Bench, countsOf, splitValues } from "../../src/cli/bench/benchmark.js";
import { RUN_OPTIONS } from "../../src/cli/sampling-options.js";
import type { OptionTable } from "../../src/config/options.js";
import { Batch } from "../../src/core/batch.js";
import type { Device, StagedBatch, StatePool } from "../../src/device/device.js";
import { openDevice } from "../../src/engine/core/load/devices.js";
import { COLD_BYTES, percent, timeCall } from "./peaks.js";
import { noise } from "./random-matrix.js";
import { type CallWork, Roofline, type RooflineResult } from "./roofline.js";

const OWN = {
  tokens: { type: "list", default: ["512"], help: "tokens of a prompt: N,N,..." },
  rows: { type: "list", default: ["1", "32"], help: "rows that decode one token each: N,N,..." },
  budgetMs: { type: "integer", min: 1, default: 1000, help: "milliseconds for each measurement" },
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
  /** Numbers of one row's state, read and written once in a step. */
  readonly floats: number;
  /** Of one token. */
  readonly operations: number;
  /** Numbers read for one token beside the state. */
  readonly inputs: number;
  readonly outputs: number;
  prepare(device: Device, tokens: number): (pool: StatePool, offset: number, batch: StagedBatch) => void;
}

/**
 * heads x (keys x values). Operations for each number of the state: two for a product that is added, one for one that is not. Delta rule:
 * S k, S q (4), g S + k u (3); otherwise S q (2) and g S + k u (3). The gates, with their exponentials, are another op.
 */
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
    inputs: 2 * keyHeads * keys + heads * values,
    outputs: heads * values,
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

const SILU = 20; // operations of one: an exponential of degree 6, a quotient

function shortConv(cols: number, taps: number, activation: "identity" | "silu"): Kernel {
  return {
    name: `short convolution: ${cols} columns, ${taps} taps${activation === "silu" ? ", silu" : ""}`,
    floats: (taps - 1) * cols,
    operations: (2 * taps + (activation === "silu" ? SILU : 0)) * cols,
    inputs: cols,
    outputs: cols,
    prepare(device, tokens) {
      const x = device.loadTensor(noise(tokens * cols, 1), tokens, cols);
      const weight = device.loadTensor(noise(taps * cols, 2), taps, cols);
      const out = device.allocTensor(tokens, cols);
      return (pool, offset, batch) => device.shortConv(out, x, weight, null, activation, pool, offset, batch);
    },
  };
}

const KERNELS: readonly Kernel[] = [
  linearAttention("gated delta rule", 32, 16, 128, 128, true),
  linearAttention("state space (Mamba-2)", 80, 1, 128, 64, false),
  shortConv(8192, 4, "identity"),
  shortConv(8192, 4, "silu"),
];

/** A processor reads a line of the outputs before it writes to it. */
function workOf({ floats, operations, inputs, outputs }: Kernel, { rows, tokens }: Shape): CallWork {
  const numTokens = rows * tokens;
  return {
    operations: operations * numTokens,
    bytes: 4 * (2 * floats * rows + (inputs + 2 * outputs) * numTokens),
  };
}

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
    const first = await open();
    const { info } = first;
    first.close();
    const roofline = await Roofline.open(info.numWorkers);
    const results = [];
    for (const kernel of KERNELS) {
      for (const shape of shapes) {
        const device = await open(); // closing it is what frees the states
        results.push({ kernel: kernel.name, ...shape, ...measure(device, kernel, shape, roofline, own.budgetMs) });
        device.close();
      }
    }
    roofline?.close();
    return {
      report: { device: info.description, results },
      tables: [
        {
          caption: `recurrent layers on ${info.name}: ${info.description}`,
          head: ["kernel", "rows x tokens", "ms", "% of compute", "% of memory", "% of roofline"],
          rows: results.map((r) => [
            r.kernel,
            `${r.rows} x ${r.tokens}`,
            r.ms,
            ...[r.compute, r.memory, r.roofline].map(percent),
          ]),
          notes: [
            "compute: f32 multiply-adds; memory: bytes read and written back in place. Both peaks are run before and after the kernel in every window of some",
            "milliseconds; shares are medians over windows.",
            "bytes: states read and written once, inputs read, outputs read and written, as a processor does it.",
          ],
        },
      ],
      charts: [],
    };
  },
};

type Measured = Pick<RooflineResult, "ms"> & { readonly [K in Exclude<keyof RooflineResult, "ms">]: number | null };

function measure(device: Device, kernel: Kernel, shape: Shape, roofline: Roofline | null, budgetMs: number): Measured {
  const { rows, tokens } = shape;
  const numTokens = rows * tokens;
  const layers = device.info.name === "reference" ? 1 : Math.ceil(COLD_BYTES / (4 * kernel.floats * rows));
  const pool = device.allocStatePool({ numSlots: rows, floats: layers * kernel.floats });
  const zeros = new Float32Array(layers * kernel.floats);
  for (let r = 0; r < rows; r++) device.writeStates(pool, r, zeros); // pages that the system has yet to clear would be measured
  const batch = new Batch(16, numTokens, 0);
  const ids = new Int32Array(1 + tokens);
  for (let r = 0; r < rows; r++) batch.addRow(ids, 1, tokens, ids, Number.POSITIVE_INFINITY, r);
  const staged = device.createStagedBatch(numTokens);
  device.stage(staged, batch, []);
  const run = kernel.prepare(device, numTokens);
  const call = (round: number) => run(pool, (round % layers) * kernel.floats, staged);
  if (roofline !== null) return roofline.measure(call, workOf(kernel, shape), budgetMs);
  const none = { compute: null, memory: null, roofline: null, windows: null };
  return { ms: 1000 * timeCall(call, budgetMs), ...none };
}
