// Drives an engine's core by hand, without threads or text: every step is timed from schedule to outputs.

import { errorFor } from "../../core/errors.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../core/sampling.js";
import type { EngineCore } from "../../engine/core/engine-core.js";
import { OutputReader } from "../../engine/outputs.js";
import type { OpTimes } from "./timed-device.js";
import { promptNumbers } from "./trace.js";

export interface StepsRun {
  /** Of each step. */
  readonly stepMs: readonly number[];
  /** Of all steps: more than one for a row and step where guesses were right. */
  readonly tokens: number;
  /** Per step, when ops are timed. */
  readonly profile: Profile;
}

export interface Profile {
  readonly stepMs: number;
  readonly computeMs: number;
  readonly deviceCalls: number;
  /** Share of the step outside the device's ops: scheduling, planning, staging, commit. */
  readonly outsideShare: number;
  readonly ops: readonly { readonly op: string; readonly calls: number; readonly ms: number }[];
}

export class CoreRunner {
  readonly #core: EngineCore;
  readonly #vocabSize: number;
  readonly #seed: number;
  readonly #times: OpTimes;
  readonly #sampling: Partial<SamplingParams>;
  readonly #outputs = new OutputReader<string>((callId) => callId);
  #numRequests = 0;
  #numTokens = 0;

  constructor(
    core: EngineCore,
    vocabSize: number,
    seed: number,
    times: OpTimes,
    sampling: Partial<SamplingParams> = {},
  ) {
    this.#core = core;
    this.#vocabSize = vocabSize;
    this.#seed = seed;
    this.#times = times;
    this.#sampling = sampling;
  }

  /** From the request to its first token. */
  prefill(length: number): StepsRun {
    this.#add(length, 1);
    this.#times.reset();
    const before = this.#numTokens;
    const stepMs: number[] = [];
    while (this.#core.hasWork) stepMs.push(this.#timedStep());
    return { stepMs, tokens: this.#numTokens - before, profile: this.#profile(stepMs) };
  }

  decode(rows: number, context: number, steps: number): StepsRun {
    const ids = Array.from({ length: rows }, () => this.#add(context, steps + rows * context));
    const waiting = new Set(ids);
    const { preemptions } = this.#core.stats();
    while (waiting.size > 0) {
      for (const id of this.#step()) waiting.delete(id);
      // Rows that take turns in a pool too small for all would do so for ever.
      if (this.#core.stats().preemptions > preemptions) throw this.#tooManyRows(rows, context);
    }
    this.#step(); // the first step of all rows together
    this.#times.reset();
    const before = this.#numTokens;
    const stepMs = Array.from({ length: steps }, () => this.#timedStep());
    const tokens = this.#numTokens - before;
    const profile = this.#profile(stepMs);
    for (const id of ids) this.#core.abort(id, -1);
    this.#taken();
    return { stepMs, tokens, profile };
  }

  #tooManyRows(rows: number, context: number): Error {
    const { pagesTotal, pageSize } = this.#core.stats();
    return errorFor("invalid_option", {
      param: "--batch",
      value: rows,
      expected: `as many rows of ${context} tokens as ${pagesTotal} pages of ${pageSize} hold; --num-pages gives more`,
    });
  }

  #profile(stepMs: readonly number[]): Profile {
    const steps = stepMs.length;
    const total = stepMs.reduce((sum, ms) => sum + ms, 0);
    const { computeMs, calls, ops } = this.#times;
    return {
      stepMs: total / steps,
      computeMs: computeMs / steps,
      deviceCalls: calls / steps,
      outsideShare: 1 - computeMs / total,
      ops: [...ops]
        .filter(([, time]) => time.calls > 0)
        .map(([op, time]) => ({ op, calls: time.calls / steps, ms: time.ms / steps }))
        .sort((a, b) => b.ms - a.ms),
    };
  }

  #add(promptLen: number, maxTokens: number): string {
    const index = this.#numRequests++;
    const id = `bench-${index}`;
    this.#core.add({
      type: "add",
      callId: id,
      kind: "generate",
      prompt: Int32Array.from(promptNumbers(this.#seed, index, promptLen, 0, this.#vocabSize)),
      sampling: { ...SAMPLING_DEFAULTS, temperature: 0, ignoreEos: true, ...this.#sampling, seed: 0, maxTokens },
      priority: 0,
      salt: id, // nothing is found in the cache
      arrivalMs: performance.timeOrigin + performance.now(),
      constraint: null,
    });
    return id;
  }

  #timedStep(): number {
    const start = performance.now();
    this.#step();
    return performance.now() - start;
  }

  /** Runs a step and takes away what the driver of an engine would; returns the requests that got a token. */
  #step(): string[] {
    this.#core.step();
    return this.#taken();
  }

  #taken(): string[] {
    const ids: string[] = [];
    const message = this.#core.takeOutputs();
    if (message === null) return ids;
    const rows = this.#outputs;
    for (rows.open(message); rows.next(); ) {
      const { error } = rows.note;
      if (error !== null) throw new Error(`a step failed: ${JSON.stringify(error)}`);
      this.#numTokens += rows.numTokens;
      if (rows.numTokens > 0) ids.push(rows.callId);
    }
    return ids;
  }
}
