// Runs a trace through an engine of this process and times it as its callers see it.

import type { OptionTable } from "../../config/options.js";
import { hostMsOf } from "../../engine/core/step-recorder.js";
import type { Engine, EngineStats, RequestTrace } from "../../engine/types.js";
import { rangeOf } from "./benchmark.js";
import type { BenchProgress } from "./progress.js";
import { type Summary, summaryOf } from "./statistics.js";
import { promptNumbers, type TraceRequest, type TraceShape } from "./trace.js";

/** The flags that draw a trace. */
export const TRACE_OPTIONS = {
  requests: { type: "integer", min: 1, max: 100_000, default: 32, help: "number of requests" },
  inputLen: { type: "string", default: "16-512", help: "prompt lengths in tokens: N or N-M" },
  outputLen: { type: "string", default: "16-128", help: "answer lengths in tokens: N or N-M" },
  sharedPrefix: { type: "integer", min: 0, default: 0, help: "tokens that all prompts begin with" },
  seed: { type: "integer", min: 0, default: 1, help: "the same seed gives the same trace" },
} as const satisfies OptionTable;

/** The flags that space its requests in time. */
export const ARRIVAL_OPTIONS = {
  rate: { type: "number", min: 0, default: 0, defaultText: "all at once", help: "requests a second" },
  arrival: { type: "choice", choices: ["poisson", "fixed"], default: "poisson", help: "how arrivals are spaced" },
} as const satisfies OptionTable;

export interface TraceFlags {
  readonly requests: number;
  readonly inputLen: string;
  readonly outputLen: string;
  readonly sharedPrefix: number;
  readonly seed: number;
}

export function traceShapeOf(
  flags: TraceFlags,
  arrival: { readonly rate: number; readonly arrival: "poisson" | "fixed" } = { rate: 0, arrival: "poisson" },
): TraceShape {
  return {
    seed: flags.seed,
    numRequests: flags.requests,
    inputLen: rangeOf("--input-len", flags.inputLen),
    outputLen: rangeOf("--output-len", flags.outputLen),
    rate: arrival.rate,
    arrival: arrival.arrival,
  };
}

export interface TraceRun {
  readonly wallMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly outputTokensPerSecond: number;
  readonly totalTokensPerSecond: number;
  readonly requestsPerSecond: number;
  readonly preemptions: number;
  readonly ttftMs: Summary;
  /** Mean time between a request's tokens after its first. */
  readonly tpotMs: Summary;
  readonly totalMs: Summary;
  /** Share of the time in which the GPU had a step to do; null: the device computes on the host. */
  readonly busyShare: number | null;
  /** What the engine's thread did for a step beside waiting for the GPU, and the whole of it; null as above. */
  readonly hostMsPerStep: number | null;
  readonly msPerStep: number;
}

/** `salt` keeps runs from finding each other's prompts in the cache. */
export async function runTrace(
  engine: Engine,
  trace: readonly TraceRequest[],
  flags: TraceFlags,
  salt: string,
  progress: BenchProgress,
): Promise<TraceRun> {
  const { vocabSize } = engine.model;
  const prompts = trace.map(({ promptLen }, i) =>
    promptNumbers(flags.seed, i, promptLen, flags.sharedPrefix, vocabSize),
  );
  const before = await engine.stats();
  const start = performance.now();
  const traces = await Promise.all(
    trace.map(async ({ arrivalMs, outputLen }, i) => {
      if (arrivalMs > 0) await new Promise((resolve) => setTimeout(resolve, arrivalMs - (performance.now() - start)));
      const options = { maxTokens: outputLen, ignoreEos: true, temperature: 0, salt };
      const { trace } = await engine.generate(prompts[i]!, options).result();
      progress.advance();
      return trace;
    }),
  );
  const wallMs = performance.now() - start;
  const after = await engine.stats();
  const grown = (of: (stats: EngineStats) => number | undefined): number | null => {
    const [from, to] = [of(before), of(after)];
    return from === undefined || to === undefined ? null : to - from;
  };
  const busyMs = grown(({ deviceUsage }) => deviceUsage?.busyMs);
  const hostMs = grown(({ hostTimes }) => (hostTimes === null ? undefined : hostMsOf(hostTimes)));
  const steps = after.steps - before.steps;
  return {
    ...summarize(traces, wallMs),
    busyShare: busyMs === null ? null : busyMs / wallMs,
    hostMsPerStep: hostMs === null ? null : hostMs / steps,
    msPerStep: wallMs / steps,
  };
}

function summarize(traces: readonly RequestTrace[], wallMs: number) {
  const sum = (of: (trace: RequestTrace) => number) => traces.reduce((total, trace) => total + of(trace), 0);
  const promptTokens = sum((t) => t.promptTokens);
  const outputTokens = sum((t) => t.completionTokens);
  const seconds = wallMs / 1000;
  return {
    wallMs,
    promptTokens,
    cachedTokens: sum((t) => t.cachedTokens),
    outputTokens,
    outputTokensPerSecond: outputTokens / seconds,
    totalTokensPerSecond: (promptTokens + outputTokens) / seconds,
    requestsPerSecond: traces.length / seconds,
    preemptions: sum((t) => t.preemptions),
    ttftMs: summaryOf(traces.map((t) => t.timeToFirstTokenMs)),
    tpotMs: summaryOf(
      traces
        .filter((t) => t.completionTokens > 1)
        .map((t) => (t.totalMs - t.timeToFirstTokenMs) / (t.completionTokens - 1)),
    ),
    totalMs: summaryOf(traces.map((t) => t.totalMs)),
  };
}
