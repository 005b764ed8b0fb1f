// Turns the server's running totals, sampled once a second, into the rates the charts show.

import type { Stats, StepRecord } from "./wire.js";

/** Seconds shown. */
export const WINDOW = 180;
/** Rates of things that happen rarely (first tokens, finished prompts) are taken over this many samples. */
const SPAN = 5;

/** One second's values; null where there is nothing to tell. */
export interface LiveSample {
  readonly seconds: number;
  readonly decodeRate: number;
  readonly prefillRate: number;
  readonly running: number;
  readonly waiting: number;
  readonly ttftMs: number | null;
  /** Mean of the steps since the last sample. */
  readonly stepMs: number | null;
  readonly usedShare: number;
  /** Used and cached together. */
  readonly filledShare: number;
  readonly hitRate: number | null;
  /** Of a GPU: of the time, and of its memory; and steps replayed as graphs a second. null: the device is the host. */
  readonly busyShare: number | null;
  readonly memoryShare: number | null;
  readonly replayRate: number | null;
}

interface Totals {
  readonly seconds: number;
  readonly generated: number;
  readonly prefilled: number;
  readonly prompt: number;
  readonly cached: number;
  readonly ttftCount: number;
  readonly ttftSumMs: number;
  readonly busyMs: number;
  readonly replays: number;
}

export class LiveSeries {
  readonly samples: LiveSample[] = [];
  #totals: Totals[] = [];
  #prefilled = 0;
  #numSteps = 0;
  #stepsMs = 0;

  /** Begins again, as for another model. */
  clear(): void {
    this.samples.length = 0;
    this.#totals = [];
  }

  /** Prompt tokens are counted as they are computed; the server counts them when a request is over. */
  addStep({ rows, durationMs }: StepRecord): void {
    this.#numSteps++;
    this.#stepsMs += durationMs;
    for (const row of rows) if (row.isPrefill) this.#prefilled += row.queryLen;
  }

  addStats(seconds: number, { engine, server }: Stats): void {
    if (engine === null) return;
    const gpu = engine.deviceUsage;
    const now: Totals = {
      seconds,
      generated: engine.generatedTokens,
      prefilled: this.#prefilled,
      prompt: engine.promptTokens,
      cached: engine.cachedTokens,
      ttftCount: server.ttftMs.count,
      ttftSumMs: server.ttftMs.count * server.ttftMs.mean,
      busyMs: gpu?.busyMs ?? 0,
      replays: gpu?.graphReplays ?? 0,
    };
    const last = this.#totals.at(-1);
    if (last !== undefined && now.generated < last.generated) this.#totals = []; // the engine restarted: totals begin again
    const before = this.#totals.at(-1) ?? now;
    const earlier = this.#totals.at(-SPAN) ?? this.#totals[0] ?? now;
    const elapsed = Math.max(seconds - before.seconds, 0.001);
    const prompts = now.prompt - earlier.prompt;
    const firsts = now.ttftCount - earlier.ttftCount;
    this.samples.push({
      seconds,
      decodeRate: (now.generated - before.generated) / elapsed,
      prefillRate: (now.prefilled - before.prefilled) / elapsed,
      running: engine.running,
      waiting: engine.waiting + server.queued,
      ttftMs: firsts > 0 ? (now.ttftSumMs - earlier.ttftSumMs) / firsts : null,
      stepMs: this.#numSteps > 0 ? this.#stepsMs / this.#numSteps : null,
      usedShare: engine.pagesUsed / engine.pagesTotal,
      filledShare: (engine.pagesUsed + engine.pagesCached) / engine.pagesTotal,
      hitRate: prompts > 0 ? (now.cached - earlier.cached) / prompts : null,
      busyShare: gpu === null ? null : Math.min(1, (now.busyMs - before.busyMs) / (1000 * elapsed)),
      memoryShare: gpu === null ? null : gpu.memoryUsedBytes / gpu.memoryBytes,
      replayRate: gpu === null ? null : (now.replays - before.replays) / elapsed,
    });
    this.#numSteps = 0;
    this.#stepsMs = 0;
    this.#totals.push(now);
    while (this.samples.length > 0 && this.samples[0]!.seconds < seconds - WINDOW) this.samples.shift();
    if (this.#totals.length > SPAN) this.#totals.shift();
  }
}

export interface Summary {
  readonly now: number | null;
  readonly mean: number | null;
  readonly min: number | null;
  readonly max: number | null;
}

/** The last value and the mean, least and greatest of the window. */
export function summarize(samples: readonly LiveSample[], key: Exclude<keyof LiveSample, "seconds">): Summary {
  const values = samples.map((sample) => sample[key]).filter((value) => value !== null);
  if (values.length === 0) return { now: null, mean: null, min: null, max: null };
  return {
    now: values.at(-1)!,
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    min: Math.min(...values),
    max: Math.max(...values),
  };
}
