// `pagoda bench KIND`: the benchmarks that users run. Those of single kernels are in bench/lab.

import type { OptionTable } from "../../config/options.js";
import { type BenchSet, OUTPUT_OPTIONS, runBench } from "./run-bench.js";

const BENCHES: BenchSet["benches"] = {
  throughput: {
    summary: "tokens per second with all requests at hand",
    load: async () => (await import("./throughput.js")).throughputBench,
  },
  latency: {
    summary: "prefill and decode at given batch sizes, and where a step's time goes",
    load: async () => (await import("./latency.js")).latencyBench,
  },
  serve: {
    summary: "requests that arrive over time at any OpenAI-compatible server",
    load: async () => (await import("./serve.js")).serveBench,
  },
  report: {
    summary: "what this machine is and how fast it is, to paste",
    load: async () => (await import("./report.js")).reportBench,
  },
  speculation: {
    summary: "tokens guessed ahead against none, on a text file or a trace",
    load: async () => (await import("./speculation.js")).speculationBench,
  },
};

/** The options of every benchmark together, for completion. */
export async function benchOptions(): Promise<OptionTable> {
  const benches = await Promise.all(Object.values(BENCHES).map(({ load }) => load()));
  return Object.assign({}, OUTPUT_OPTIONS, ...benches.map(({ options }) => options)) as OptionTable;
}

export const BENCH_NAMES: readonly string[] = Object.keys(BENCHES);

export function benchCommand(
  args: readonly string[],
  stdout: { write(text: string): unknown } = process.stdout,
): Promise<number> {
  return runBench({ command: "bench", program: "pagoda bench", benches: BENCHES }, args, stdout);
}
