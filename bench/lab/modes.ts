// `node dist/bench/lab/lab.js modes`: the extend mode (ragged batches that mix prefill and decode) against the chunked mode (fixed chunks, never
// in one step with decodes) on the same trace, run in turns. Shows why one is faster: steps, tokens per step, padding.

import { type Bench, splitValues } from "../../src/cli/bench/benchmark.js";
import { BenchProgress, withLoadProgress } from "../../src/cli/bench/progress.js";
import {
  ARRIVAL_OPTIONS,
  runTrace,
  TRACE_OPTIONS,
  type TraceFlags,
  type TraceRun,
  traceShapeOf,
} from "../../src/cli/bench/run-trace.js";
import { median } from "../../src/cli/bench/statistics.js";
import { makeTrace } from "../../src/cli/bench/trace.js";
import { RUN_OPTIONS } from "../../src/cli/sampling-options.js";
import { engineConfig } from "../../src/config/engine-config.js";
import type { OptionTable } from "../../src/config/options.js";
import { alignDown } from "../../src/core/math.js";
import { createEngine, type EngineOptions } from "../../src/engine/client/engine.js";
import type { Engine, StepRecord } from "../../src/engine/types.js";

const OWN = {
  ...TRACE_OPTIONS,
  ...ARRIVAL_OPTIONS,
  repeat: { type: "integer", min: 1, default: 3, help: "runs of each mode, in turns; medians are shown" },
} as const satisfies OptionTable;

interface Own extends TraceFlags {
  readonly rate: number;
  readonly arrival: "poisson" | "fixed";
  readonly repeat: number;
}

const MODES = ["extend", "chunked"] as const;
const { mode: _mode, ...ENGINE_FLAGS } = RUN_OPTIONS;

/** What the steps of one run did. */
interface StepTotals {
  readonly steps: number;
  /** Steps with prompt tokens, with decodes, and with both. */
  readonly prefillSteps: number;
  readonly decodeSteps: number;
  readonly mixedSteps: number;
  readonly tokens: number;
  /** Tokens that the mode's batch shape adds: each chunk up to the fixed chunk; a ragged batch has none. */
  readonly padding: number;
  /** Tokens that a rectangle (every row as long as the longest) would add. */
  readonly rectanglePadding: number;
}

interface ModeReport extends StepTotals {
  readonly mode: (typeof MODES)[number];
  readonly efficiency: number;
  readonly tokensPerStep: number;
  readonly outputTokensPerSecond: number;
  readonly totalTokensPerSecond: number;
  readonly ttftMs: { readonly p50: number; readonly p90: number; readonly p99: number };
  readonly tpotMs: { readonly p50: number; readonly p90: number; readonly p99: number };
  readonly runs: readonly (TraceRun & StepTotals)[];
}

export const modesBench: Bench = {
  positionals: [],
  options: { ...OWN, ...ENGINE_FLAGS },
  async run(values) {
    const { own, engine: options } = splitValues<Own>(OWN, values);
    const trace = makeTrace(traceShapeOf(own, own));
    const maxQueue = Math.max(options.maxQueue ?? 0, own.requests);
    const open = (mode: ModeReport["mode"]) =>
      withLoadProgress((onProgress) => createEngine({ ...options, maxQueue, mode, onProgress }));
    await using extend = await open("extend");
    await using chunked = await open("chunked");
    const engines = { extend, chunked };
    const progress = new BenchProgress("modes", MODES.length * own.repeat * own.requests);
    const runs: Record<ModeReport["mode"], (TraceRun & StepTotals)[]> = { extend: [], chunked: [] };
    for (let i = 0; i < own.repeat; i++) {
      for (const mode of MODES) {
        const { result, records } = await recordingSteps(engines[mode], () =>
          runTrace(engines[mode], trace, own, `modes-${i}`, progress),
        );
        runs[mode].push({ ...result, ...totalsOf(records, mode === "chunked" ? fixedChunkOf(options) : 0) });
      }
    }
    progress.end();
    const modes = MODES.map((mode) => reportOf(mode, runs[mode]));
    return {
      report: { model: extend.model.name, device: extend.model.device, trace: own, modes },
      tables: [tableOf(extend, own, modes)],
      charts: chartsOf(modes),
    };
  },
};

async function recordingSteps<T>(engine: Engine, run: () => Promise<T>): Promise<{ result: T; records: StepRecord[] }> {
  const records: StepRecord[] = [];
  const stop = new AbortController();
  const following = (async () => {
    for await (const record of engine.inspect.steps({ signal: stop.signal })) records.push(record);
  })();
  const result = await run();
  stop.abort(); // the record of the last step came with its outputs: it is told yet
  await following;
  return { result, records };
}

function totalsOf(records: readonly StepRecord[], fixedChunk: number): StepTotals {
  let [prefillSteps, decodeSteps, mixedSteps, tokens, padding, rectanglePadding] = [0, 0, 0, 0, 0, 0];
  for (const record of records) {
    const hasPrefill = record.rows.some((row) => row.isPrefill);
    const hasDecode = record.rows.some((row) => !row.isPrefill);
    if (hasPrefill) prefillSteps++;
    if (hasDecode) decodeSteps++;
    if (hasPrefill && hasDecode) mixedSteps++;
    tokens += record.tokens;
    rectanglePadding += record.paddingAvoided;
    for (const row of record.rows) if (row.isPrefill) padding += Math.max(0, fixedChunk - row.queryLen);
  }
  return { steps: records.length, prefillSteps, decodeSteps, mixedSteps, tokens, padding, rectanglePadding };
}

/** As the scheduler rounds it. */
function fixedChunkOf(options: EngineOptions): number {
  const { pageSize, maxPagesPerBatch, fixedChunk } = engineConfig(options as Record<string, unknown>);
  return Math.max(pageSize, alignDown(Math.min(fixedChunk, pageSize * maxPagesPerBatch), pageSize));
}

function reportOf(mode: ModeReport["mode"], runs: readonly (TraceRun & StepTotals)[]): ModeReport {
  const mid = (of: (run: TraceRun & StepTotals) => number) => median(runs.map(of));
  const percentiles = (of: "ttftMs" | "tpotMs") => ({
    p50: mid((run) => run[of].p50),
    p90: mid((run) => run[of].p90),
    p99: mid((run) => run[of].p99),
  });
  const tokens = mid((run) => run.tokens);
  const padding = mid((run) => run.padding);
  return {
    mode,
    steps: mid((run) => run.steps),
    prefillSteps: mid((run) => run.prefillSteps),
    decodeSteps: mid((run) => run.decodeSteps),
    mixedSteps: mid((run) => run.mixedSteps),
    tokens,
    padding,
    rectanglePadding: mid((run) => run.rectanglePadding),
    efficiency: tokens / (tokens + padding),
    tokensPerStep: mid((run) => run.tokens / run.steps),
    outputTokensPerSecond: mid((run) => run.outputTokensPerSecond),
    totalTokensPerSecond: mid((run) => run.totalTokensPerSecond),
    ttftMs: percentiles("ttftMs"),
    tpotMs: percentiles("tpotMs"),
    runs,
  };
}

function tableOf(engine: Engine, own: Own, modes: readonly ModeReport[]) {
  const row = (name: string, of: (mode: ModeReport) => number) => {
    const [extend, chunked] = modes.map(of) as [number, number];
    return [name, extend, chunked, chunked === 0 ? Number.NaN : extend / chunked];
  };
  return {
    caption:
      `${engine.model.name} on ${engine.model.device}: ${own.requests} requests, prompts ${own.inputLen}, ` +
      `answers ${own.outputLen}, ${own.rate === 0 ? "all at once" : `${own.rate} a second`}; medians of ${own.repeat}`,
    head: ["", "extend", "chunked", "ratio"],
    rows: [
      row("steps (invocations)", (m) => m.steps),
      row("  with prefill and decode", (m) => m.mixedSteps),
      row("tokens per step", (m) => m.tokensPerStep),
      row("tokens computed", (m) => m.tokens),
      row("padding of the batch shape", (m) => m.padding),
      row("efficiency %", (m) => 100 * m.efficiency),
      row("answer tokens/s", (m) => m.outputTokensPerSecond),
      row("all tokens/s", (m) => m.totalTokensPerSecond),
      row("first token ms, p50", (m) => m.ttftMs.p50),
      row("first token ms, p99", (m) => m.ttftMs.p99),
      row("per token ms, p50", (m) => m.tpotMs.p50),
      row("per token ms, p99", (m) => m.tpotMs.p99),
    ],
    notes: [
      "padding: what fixed chunks add to the batch. The kernels skip it in both modes, so the speeds differ by steps alone.",
    ],
  };
}

function chartsOf(modes: readonly ModeReport[]) {
  const chart = (title: string, unit: string, of: (mode: ModeReport) => number) => ({
    title,
    unit,
    groups: modes.map((mode) => ({ label: mode.mode, bars: [{ name: "", value: of(mode) }] })),
  });
  return [
    chart("All tokens", "tokens/s", (m) => m.totalTokensPerSecond),
    chart("Steps", "invocations", (m) => m.steps),
    chart("Padding of the batch shape", "tokens", (m) => m.padding),
    chart("First token, median", "ms", (m) => m.ttftMs.p50),
  ];
}
