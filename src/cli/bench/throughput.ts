// `pagoda bench throughput`: all requests are there at the start; how long until the last answer is done?

import type { OptionTable } from "../../config/options.js";
import { createEngine } from "../../engine/client/engine.js";
import { RUN_OPTIONS } from "../sampling-options.js";
import { type Bench, splitValues } from "./benchmark.js";
import { BenchProgress, withLoadProgress } from "./progress.js";
import { runTrace, TRACE_OPTIONS, type TraceFlags, type TraceRun, traceShapeOf } from "./run-trace.js";
import { median, type Summary } from "./statistics.js";
import { makeTrace } from "./trace.js";

const OWN = {
  ...TRACE_OPTIONS,
  repeat: { type: "integer", min: 1, default: 3, help: "runs; the one with the median time is shown" },
} as const satisfies OptionTable;

interface Own extends TraceFlags {
  readonly repeat: number;
}

export const throughputBench: Bench = {
  positionals: [],
  options: { ...OWN, ...RUN_OPTIONS },
  async run(values) {
    const { own, engine: options } = splitValues<Own>(OWN, values);
    const trace = makeTrace(traceShapeOf(own));
    const maxQueue = Math.max(options.maxQueue ?? 0, own.requests);
    await using engine = await withLoadProgress((onProgress) => createEngine({ ...options, maxQueue, onProgress }));
    const progress = new BenchProgress("throughput", own.repeat * own.requests);
    const runs: TraceRun[] = [];
    for (let i = 0; i < own.repeat; i++) runs.push(await runTrace(engine, trace, own, `throughput-${i}`, progress));
    progress.end();
    const wallMs = median(runs.map((run) => run.wallMs));
    const run = runs.toSorted((a, b) => Math.abs(a.wallMs - wallMs) - Math.abs(b.wallMs - wallMs))[0]!;
    return {
      report: { model: engine.model.name, device: engine.model.device, trace: own, run, runs },
      tables: [
        {
          caption: `${engine.model.name} on ${engine.model.device}: ${own.requests} requests, prompts ${own.inputLen}, answers ${own.outputLen}`,
          head: ["", "median run"],
          rows: [
            ["seconds", run.wallMs / 1000],
            ["prompt tokens", `${run.promptTokens} (${run.cachedTokens} from the cache)`],
            ["answer tokens", run.outputTokens],
            ["answer tokens/s", run.outputTokensPerSecond],
            ["all tokens/s", run.totalTokensPerSecond],
            ["requests/s", run.requestsPerSecond],
            ...(run.busyShare === null ? [] : [["GPU busy, %", 100 * run.busyShare]]),
            ...(run.hostMsPerStep === null ? [] : [["host ms a step", hostText(run.hostMsPerStep, run.msPerStep)]]),
          ],
          notes: [""],
        },
        latencyTable(run),
      ],
      charts: [
        {
          title: "Throughput of each run",
          unit: "tokens/s",
          groups: runs.map((each, i) => ({
            label: `run ${i + 1}`,
            bars: [
              { name: "answers", value: each.outputTokensPerSecond },
              { name: "prompts and answers", value: each.totalTokensPerSecond },
            ],
          })),
        },
      ],
    };
  },
};

function hostText(hostMs: number, stepMs: number): string {
  return `${hostMs.toFixed(3)} of ${stepMs.toFixed(3)} (${((100 * hostMs) / stepMs).toFixed(1)} %)`;
}

function latencyTable({ ttftMs, tpotMs, totalMs }: TraceRun) {
  const row = (name: string, { mean, p50, p90, p99 }: Summary) => [name, mean, p50, p90, p99];
  return {
    caption: "Milliseconds",
    head: ["", "mean", "p50", "p90", "p99"],
    rows: [row("first token", ttftMs), row("per token after it", tpotMs), row("whole answer", totalMs)],
  };
}
