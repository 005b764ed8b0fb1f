// The laboratory's benches: single kernels against this machine's peaks, and the two modes of scheduling against each other.
//   node dist/bench/lab/lab.js KIND [options]

import { pathToFileURL } from "node:url";
import { type BenchSet, runBench } from "../../src/cli/bench/run-bench.js";
import { PagodaError } from "../../src/core/errors.js";

const PROGRAM = "node dist/bench/lab/lab.js";
const BENCHES: BenchSet["benches"] = {
  modes: {
    summary: "the extend mode against the chunked mode on one trace",
    load: async () => (await import("./modes.js")).modesBench,
  },
  attention: {
    summary: "attention over pages against this machine's peak",
    load: async () => (await import("./attention.js")).attentionBench,
  },
  recurrent: {
    summary: "kernels of recurrent layers against this machine's peak",
    load: async () => (await import("./recurrent.js")).recurrentBench,
  },
  matmul: {
    summary: "matrix products against this machine's peak",
    load: async () => (await import("./matmul.js")).matmulBench,
  },
};

export const labCommand = (
  args: readonly string[],
  stdout: { write(text: string): unknown } = process.stdout,
): Promise<number> => runBench({ command: "lab", program: PROGRAM, benches: BENCHES }, args, stdout);

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    process.exitCode = await labCommand(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof PagodaError)) throw error;
    console.error(error.message);
    process.exitCode = 2;
  }
}
