// A replica without a device: the real scheduler, cache manager and prefix directory; only the time that a step takes is made up.

import { CacheManager } from "../../src/cache/cache-manager.js";
import type { PrefixJournal } from "../../src/cache/prefix-journal.js";
import type { RequestId } from "../../src/core/ids.js";
import { Request } from "../../src/core/request.js";
import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import { Scheduler, type Step } from "../../src/scheduler/scheduler.js";
import { type Turn, tokenAt, tokensOf } from "./traffic.js";

/** An 8B model in 16 bits on one data-centre GPU, roughly: what a step costs, a token of it, and a row of it. Assumed. */
export const STEP_COST = { baseMs: 8, tokenMs: 0.04, rowMs: 0.05 } as const;
export const PAGE_SIZE = 16;

export interface Served {
  readonly turn: Turn;
  readonly request: Request;
  readonly arrivalMs: number;
  firstMs: number;
}

export class SimulatedReplica {
  readonly id: string;
  readonly calls = new Map<string, Served>();
  readonly journal: PrefixJournal;
  /** Prompt tokens of the calls that have not begun, less what was held when they came. */
  backlogTokens = 0;
  readonly #scheduler: Scheduler;
  #step: Step | null = null;

  constructor(id: string, numPages: number, clock: () => number) {
    this.id = id;
    const cache = new CacheManager({ pageSize: PAGE_SIZE, prefixCaching: true, groups: [{ kind: "full", numPages }] });
    const options = { mode: "extend", pageSize: PAGE_SIZE, maxPagesPerBatch: 128, idealChunk: 1024 } as const;
    this.#scheduler = new Scheduler(options, cache, clock);
    this.journal = cache.openJournal()!;
  }

  get isBusy(): boolean {
    return this.#step !== null;
  }

  add(id: string, turn: Turn, arrivalMs: number, prompt: Int32Array): void {
    const sampling = { ...SAMPLING_DEFAULTS, maxTokens: turn.answerTokens, seed: 0 };
    const request = new Request({ id: id as RequestId, prompt, sampling, arrivalMs });
    this.calls.set(id, { turn, request, arrivalMs, firstMs: -1 });
    this.#scheduler.add(request);
  }

  /** Begins a step; returns how long it takes, or null when there is nothing to do. */
  begin(): number | null {
    this.#step = this.#scheduler.schedule();
    if (this.#step === null) return null;
    return STEP_COST.baseMs + STEP_COST.tokenMs * this.#step.numTokens + STEP_COST.rowMs * this.#step.numRows;
  }

  /** Ends the step: every row that has caught up gets its next token. Returns the calls that are over. */
  end(nowMs: number): Served[] {
    const step = this.#step!;
    this.#step = null;
    this.#scheduler.land(step);
    const over: Served[] = [];
    for (let row = 0; row < step.numRows; row++) {
      const request = step.rows[row]!;
      if (step.endOf(row) < request.numTokens) continue;
      const call = this.calls.get(request.id)!;
      if (call.firstMs < 0) call.firstMs = nowMs;
      request.accept([tokenAt(1e6 + call.turn.conversation, request.numTokens)], 1);
      if (request.numGenerated < call.turn.answerTokens) continue;
      this.#scheduler.finish(request, "stop");
      this.calls.delete(request.id);
      over.push(call);
    }
    return over;
  }

  static prompt(turn: Turn): Int32Array {
    return tokensOf(turn);
  }
}
