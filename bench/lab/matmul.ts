// `node dist/bench/lab/lab.js matmul`: the device's matrix products at the shapes of real models, against what the machine can do at best.

import { type Bench, countsOf, splitValues } from "../../src/cli/bench/benchmark.js";
import { BenchProgress } from "../../src/cli/bench/progress.js";
import { RUN_OPTIONS } from "../../src/cli/sampling-options.js";
import type { OptionTable } from "../../src/config/options.js";
import { errorFor } from "../../src/core/errors.js";
import type { Device, Weight } from "../../src/device/device.js";
import { openDevice } from "../../src/engine/core/load/devices.js";
import { COLD_BYTES, describePeaks, measurePeaks, percent, sharesOf, timeCall } from "./peaks.js";
import { MATRIX_TYPES, type MatrixType, noise, randomMatrix } from "./random-matrix.js";

const OWN = {
  shapes: {
    type: "list",
    default: ["960x576", "3072x576", "576x1536", "49152x576", "16384x2048", "2048x8192"],
    defaultText: "of the 135M and 1B models",
    help: "matrices, outputs x inputs: NxM,NxM,...",
  },
  types: { type: "list", default: ["f16", "q8_0", "q4_0"], help: `encodings, of ${MATRIX_TYPES.join(", ")}` },
  rows: { type: "list", default: ["1", "8", "32", "128", "512"], help: "rows of activations: N,N,..." },
  budgetMs: { type: "integer", min: 1, default: 300, help: "milliseconds for each measurement" },
} as const satisfies OptionTable;

interface Own {
  readonly shapes: readonly string[];
  readonly types: readonly string[];
  readonly rows: readonly string[];
  readonly budgetMs: number;
}

interface MatmulResult {
  readonly type: MatrixType;
  readonly outputs: number;
  readonly inputs: number;
  readonly rows: number;
  readonly ms: number;
  readonly gigaOps: number;
  readonly compute: number | null;
  readonly memory: number | null;
  readonly roofline: number | null;
}

export const matmulBench: Bench = {
  positionals: [],
  options: { ...OWN, device: RUN_OPTIONS.device, threads: RUN_OPTIONS.threads },
  async run(values) {
    const { own, engine } = splitValues<Own>(OWN, values);
    const shapes = own.shapes.map(shapeOf);
    const types = own.types.map(typeOf);
    const rows = countsOf("--rows", own.rows);
    const open = () => openDevice({ device: engine.device ?? "auto", threads: engine.threads ?? 0 });
    const { info, peaks } = await measurePeaks(open);
    const progress = new BenchProgress("matmul", shapes.length * types.length * rows.length);
    const results: MatmulResult[] = [];
    for (const type of types) {
      for (const [outputs, inputs] of shapes) {
        const device = await open(); // closing it is what frees weights
        const weights = loadCopies(device, type, outputs, inputs);
        for (const { n, seconds } of measure(device, weights, rows, own.budgetMs, progress)) {
          const operations = 2 * n * outputs * inputs;
          const work = { operations, bytes: weights[0]!.byteLength, isInteger: type === "q8_0" || type === "q4_0" };
          const gigaOps = operations / seconds / 1e9;
          results.push({
            type,
            outputs,
            inputs,
            rows: n,
            ms: 1000 * seconds,
            gigaOps,
            ...sharesOf(peaks, work, seconds),
          });
        }
        device.close();
      }
    }
    progress.end();
    return {
      report: { device: info.description, peaks, results },
      tables: [
        {
          caption: `matmul on ${info.name}: ${info.description}; ${describePeaks(peaks)}`,
          head: ["weights", "rows", "ms", "GOP/s", "% of compute", "% of memory", "% of roofline"],
          rows: results.map((r) => [
            `${r.type} ${r.outputs}x${r.inputs}`,
            r.rows,
            r.ms,
            r.gigaOps,
            ...[r.compute, r.memory, r.roofline].map(percent),
          ]),
          notes: ["compute: of the f32 peak, or of the int8 peak for q8_0 and q4_0. memory: the weights read once."],
        },
      ],
      charts: shapes.map(([outputs, inputs]) => ({
        title: `${outputs}x${inputs}`,
        unit: "GOP/s",
        groups: rows.map((n) => ({
          label: `${n} rows`,
          bars: results
            .filter((r) => r.outputs === outputs && r.inputs === inputs && r.rows === n)
            .map((r) => ({ name: r.type, value: r.gigaOps })),
        })),
      })),
    };
  },
};

function shapeOf(text: string): [outputs: number, inputs: number] {
  const [, outputs, inputs] = (/^(\d+)x(\d+)$/.exec(text) ?? []).map(Number);
  if (outputs! >= 1 && inputs! >= 32 && inputs! % 32 === 0) return [outputs!, inputs!];
  const expected = "outputs x inputs such as 3072x576, inputs a multiple of 32";
  throw errorFor("invalid_option", { param: "--shapes", value: text, expected });
}

function typeOf(text: string): MatrixType {
  const type = MATRIX_TYPES.find((known) => known === text);
  if (type !== undefined) return type;
  throw errorFor("invalid_option", { param: "--types", value: text, expected: `of ${MATRIX_TYPES.join(", ")}` });
}

/** Enough copies that weights which are read once come from memory, as a model's do, and not from the last call's cache. */
function loadCopies(device: Device, type: MatrixType, outputs: number, inputs: number): Weight[] {
  const tensor = randomMatrix(type, outputs, inputs);
  const copies = device.info.isOracle ? 1 : Math.ceil(COLD_BYTES / tensor.byteLength);
  return Array.from({ length: Math.min(64, copies) }, () => device.loadWeight([tensor], { isMatrix: true }));
}

function measure(
  device: Device,
  weights: readonly Weight[],
  rows: readonly number[],
  budgetMs: number,
  progress: BenchProgress,
): { n: number; seconds: number }[] {
  const most = Math.max(...rows);
  const { rows: outputs, cols: inputs, dtype } = weights[0]!;
  const x = device.loadTensor(noise(most * inputs, 2), most, inputs);
  const out = device.allocTensor(most, outputs);
  return rows.map((n) => {
    const seconds = timeCall((round) => device.matmul(out, x, weights[round % weights.length]!, n), budgetMs);
    progress.advance(`${dtype} ${outputs}x${inputs}, ${n} rows`);
    return { n, seconds };
  });
}
