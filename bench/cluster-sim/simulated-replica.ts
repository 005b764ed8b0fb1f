// A replica without a device: the real scheduler, cache manager, prefix directory and queue; only the time that a step takes is made up.
//
// While all its requests answer and none waits, every step is like the one before. Such steps are run as one stretch, whose end a newcomer
// moves to the end of the step in which it comes: tokens, pages and times are those of the single steps.

import { CacheManager } from "../../src/cache/cache-manager.js";
import type { PrefixJournal } from "../../src/cache/prefix-journal.js";
import { CallQueue } from "../../src/cluster/replica/call-queue.js";
import { PromptSpeed } from "../../src/cluster/replica/load-gauge.js";
import type { RequestId } from "../../src/core/ids.js";
import { Request } from "../../src/core/request.js";
import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import { Scheduler, type Step } from "../../src/scheduler/scheduler.js";
import { FIRST_CONVERSATION, type Turn, tokenAt } from "./traffic.js";

/** Assumed: an 8B model in 4 bits on a small CPU server. A step reads the weights once (5 GB at 50 GB/s) and computes 200 tokens in a second. */
const STEP_COST = { baseMs: 100, tokenMs: 5 } as const;
export const PAGE_SIZE = 16;
/** Requests that run at once. */
export const SLOTS = 32;
/** Steps in one stretch at most: its pages are reserved when it begins. */
const MAX_STRETCH = 64;

export interface Served {
  /** The router's name for it. */
  readonly id: string;
  readonly turn: Turn;
  readonly request: Request;
  readonly priority: 0;
  firstMs: number;
}

export class SimulatedReplica {
  readonly id: string;
  /** What its cache takes up and gives up; null where nobody asks. */
  readonly journal: PrefixJournal | null;
  readonly speed = new PromptSpeed();
  /** Of a call's stay, lately. */
  meanCallMs = 1000;
  readonly #calls = new Map<string, Served>(); // in the scheduler
  readonly #queue = new CallQueue<Served>();
  readonly #cache: CacheManager;
  readonly #scheduler: Scheduler;
  readonly #maxStretch: number;
  readonly #tokens = new Int32Array(MAX_STRETCH);
  #step: Step | null = null;
  #beganMs = 0;
  #stepMs = 0;
  /** Steps of the stretch that runs. */
  #numSteps = 0;

  constructor(id: string, numPages: number, clock: () => number, isWatched: boolean, maxStretch = MAX_STRETCH) {
    this.id = id;
    this.#maxStretch = maxStretch;
    this.#cache = new CacheManager({ pageSize: PAGE_SIZE, prefixCaching: true, groups: [{ kind: "full", numPages }] });
    const options = { mode: "extend", pageSize: PAGE_SIZE, maxPagesPerBatch: 32, idealChunk: 128 } as const;
    this.#scheduler = new Scheduler(options, this.#cache, clock);
    this.journal = isWatched ? this.#cache.openJournal() : null;
  }

  /** When the steps that run end; infinite when none does. */
  get endMs(): number {
    return this.#step === null ? Number.POSITIVE_INFINITY : this.#beganMs + this.#numSteps * this.#stepMs;
  }

  add(id: string, turn: Turn, prompt: ArrayLike<number>, nowMs: number): void {
    const sampling = { ...SAMPLING_DEFAULTS, maxTokens: turn.answerTokens, seed: 0 };
    const request = new Request({ id: id as RequestId, prompt, sampling, arrivalMs: nowMs });
    this.#queue.add({ id, turn, request, priority: 0, firstMs: -1 });
    this.#admit();
    if (this.#step === null) return;
    const numUnderWay = Math.ceil((nowMs - this.#beganMs) / this.#stepMs);
    this.#numSteps = Math.min(this.#numSteps, Math.max(1, numUnderWay));
  }

  #admit(): void {
    while (this.#calls.size < SLOTS && this.#queue.size > 0) {
      const call = this.#queue.takeBest()!;
      this.#calls.set(call.id, call);
      this.#scheduler.add(call.request);
    }
  }

  /** Begins a step, or a stretch of them, if there is anything to do. */
  begin(nowMs: number): void {
    const step = this.#scheduler.schedule();
    this.#step = step;
    if (step === null) return;
    this.#beganMs = nowMs;
    this.#stepMs = STEP_COST.baseMs + STEP_COST.tokenMs * step.numTokens;
    this.#numSteps = this.#stretchOf(step);
    if (step.numTokens > step.numRows) this.speed.note(step.numTokens, this.#stepMs);
  }

  /** Steps like this one that come before anything else happens here. */
  #stretchOf(step: Step): number {
    const { numRunning, numWaiting } = this.#scheduler;
    if (step.numTokens > step.numRows || step.numRows < numRunning || numWaiting > 0) return 1;
    let count = this.#maxStretch;
    for (let row = 0; row < step.numRows; row++) {
      const { maxLength, numTokens } = step.rows[row]!;
      count = Math.min(count, maxLength - numTokens);
    }
    for (let row = 0; row < step.numRows; row++) {
      const request = step.rows[row]!;
      if (!this.#cache.tryReserve(request, request.numTokens + count - 1)) return 1;
    }
    return count;
  }

  /** Ends what runs: every row that has caught up gets its next tokens. Tells of calls that have begun to answer, and that are over. */
  end(nowMs: number, onFirst: (call: Served) => void, onOver: (call: Served) => void): void {
    const step = this.#step!;
    this.#step = null;
    this.#scheduler.land(step);
    for (let row = 0; row < step.numRows; row++) {
      const request = step.rows[row]!;
      if (step.endOf(row) < request.numTokens) continue;
      const call = this.#calls.get(request.id)!;
      this.#give(request, call.turn, this.#numSteps);
      if (call.firstMs < 0) {
        call.firstMs = nowMs;
        onFirst(call);
      }
      if (request.numGenerated < call.turn.answerTokens) continue;
      this.#scheduler.finish(request, "stop");
      this.#calls.delete(request.id);
      this.meanCallMs += 0.1 * (nowMs - request.arrivalMs - this.meanCallMs);
      onOver(call);
    }
    this.#admit();
  }

  /** The tokens of `count` steps: each but the last is computed by the next of them. */
  #give(request: Request, { conversation }: Turn, count: number): void {
    const stream = FIRST_CONVERSATION + conversation;
    for (let i = 0; i < count; i++) this.#tokens[i] = tokenAt(stream, request.numTokens + i);
    request.accept(this.#tokens, 0, count);
    request.numComputed += count - 1;
  }
}
