// A matcher thread as the engine's thread sees it, with the jobs that it holds. A message that computes for longer than the limit
// ends the thread: the job it belongs to fails, all others move on to a fresh thread and know nothing of it.

import { Worker } from "node:worker_threads";
import type { ThreadClass } from "../../threads/thread-class.js";
import { threadTimeMs } from "../../threads/thread-time.js";
import {
  type CodeMessage,
  type FromMatcher,
  IDLE,
  type MatcherInit,
  type ToMatcher,
  type Verdict,
} from "./matcher-messages.js";
import { type MatcherCode, matcherCode } from "./module.js";
import type { PackedTexts } from "./token-texts.js";

/** Something that a lane holds under an id: a grammar to check, or an answer to follow. */
export interface LaneJob {
  /** What begins it, or takes it up again in a fresh thread. */
  openMessage(): ToMatcher;
  /** It took too long, or no thread can be had. */
  fail(reason: string): void;
  /** For checks. */
  answer?(verdict: Verdict): void;
}

const MAX_DEATHS_IN_A_ROW = 3;
const MAX_JS_HEAP_MB = 512;
/** A thread that gets no time on a busy machine may take so many times its limit, and no longer, unless its lane is more patient. */
const MAX_WAIT_FACTOR = 4;

/**
 * Whether a message that began so long ago takes too long: by the thread's own time, which is asked for only where it matters; by
 * the clock where that cannot be told, or where even the patience with a busy machine is over.
 */
export function isOverdue(waitedMs: number, ownMs: () => number | null, limitMs: number, maxWaitMs: number): boolean {
  if (waitedMs <= limitMs) return false;
  return waitedMs > maxWaitMs || (ownMs() ?? waitedMs) > limitMs;
}

export class Lane {
  readonly #vocabularyOf: () => PackedTexts;
  readonly #limitMs: number;
  readonly #turn: ThreadClass;
  readonly #maxWaitMs: number;
  readonly #jobs = new Map<number, LaneJob>();
  #thread: Worker | null = null;
  #control: Int32Array = new Int32Array(3); // [3] see matcher-messages.ts
  #watch: NodeJS.Timeout | null = null;
  #numSeen = 0; // messages begun when last looked
  #sinceMs = 0; // when that number last changed
  #sinceThreadMs: number | null = null; // the thread's own time then
  #numDeaths = 0; // since the thread last began something

  constructor(
    vocabularyOf: () => PackedTexts,
    limitMs: number,
    turn: ThreadClass = "compute",
    maxWaitMs: number = MAX_WAIT_FACTOR * limitMs,
  ) {
    this.#vocabularyOf = vocabularyOf;
    this.#limitMs = limitMs;
    this.#turn = turn;
    this.#maxWaitMs = maxWaitMs;
  }

  add(id: number, job: LaneJob): void {
    this.#jobs.set(id, job);
    this.send(job.openMessage());
  }

  send(message: ToMatcher): void {
    this.#threadNow().postMessage(message);
  }

  remove(id: number): void {
    if (this.#jobs.delete(id)) this.#thread?.postMessage({ type: "close", id } satisfies ToMatcher);
  }

  /** Ends the thread; jobs that it held get no answer any more. */
  close(): void {
    this.#drop();
    this.#jobs.clear();
  }

  /** Starts the thread ahead of its first job. */
  warm(): void {
    this.#threadNow();
  }

  /** A fresh thread takes up all jobs but the culprit. It starts at once: the next job may be an honest one. */
  restart(culprit: number, reason: string): void {
    this.#drop();
    const job = this.#jobs.get(culprit);
    this.#jobs.delete(culprit);
    job?.fail(reason);
    this.warm();
    for (const other of this.#jobs.values()) this.send(other.openMessage());
  }

  #look(): void {
    const nowMs = performance.now();
    const numBegun = Atomics.load(this.#control, 1);
    if (numBegun !== this.#numSeen) {
      this.#numSeen = numBegun;
      this.#numDeaths = 0;
      this.#sinceMs = nowMs;
      this.#sinceThreadMs = this.#threadMs();
    }
    const at = Atomics.load(this.#control, 0);
    if (at !== IDLE && this.#isOverdue(nowMs)) this.restart(at, `it takes longer than ${this.#limitMs / 1000} s`);
  }

  #isOverdue(nowMs: number): boolean {
    const since = this.#sinceThreadMs;
    const ownMs = (): number | null => {
      const threadMs = since === null ? null : this.#threadMs();
      return threadMs === null ? null : threadMs - since!;
    };
    return isOverdue(nowMs - this.#sinceMs, ownMs, this.#limitMs, this.#maxWaitMs);
  }

  #threadMs(): number | null {
    return threadTimeMs(Atomics.load(this.#control, 2));
  }

  #threadNow(): Worker {
    if (this.#thread !== null) return this.#thread;
    this.#control = new Int32Array(new SharedArrayBuffer(12));
    this.#control[0] = IDLE;
    this.#numSeen = 0;
    this.#sinceMs = performance.now();
    this.#sinceThreadMs = null;
    const init: MatcherInit = { vocabulary: this.#vocabularyOf(), control: this.#control, turn: this.#turn };
    const thread = new Worker(new URL("./matcher-thread.js", import.meta.url), {
      workerData: init,
      resourceLimits: { maxOldGenerationSizeMb: MAX_JS_HEAP_MB },
    });
    const give = (code: MatcherCode): void => thread.postMessage({ type: "code", code } satisfies CodeMessage);
    const code = matcherCode();
    // Once there is code, at once: the caller may have no turn of its event loop to spare.
    if (code instanceof Promise)
      code.then(give, () => thread.terminate()); // as one that cannot start
    else give(code);
    thread.unref(); // answers keep the process alive, not their matcher
    thread.on("message", ({ id, verdict }: FromMatcher) => {
      const job = this.#jobs.get(id);
      this.#jobs.delete(id);
      job?.answer?.(verdict);
    });
    const onEnd = (): void => {
      if (this.#thread === thread) this.#onDeath();
    };
    thread.on("error", onEnd);
    thread.on("exit", onEnd);
    this.#watch = setInterval(() => this.#look(), Math.min(100, this.#limitMs / 4));
    this.#watch.unref();
    this.#thread = thread;
    return thread;
  }

  /** By itself: the message it was at is the likeliest cause. A thread that cannot even start must not be started for ever. */
  #onDeath(): void {
    this.restart(Atomics.load(this.#control, 0), "its matcher ended: it needs too much memory");
    if (++this.#numDeaths <= MAX_DEATHS_IN_A_ROW) return;
    this.#drop();
    for (const job of this.#jobs.values()) job.fail("no matcher thread can be started");
    this.#jobs.clear();
  }

  #drop(): void {
    if (this.#watch !== null) clearInterval(this.#watch);
    this.#watch = null;
    void this.#thread?.terminate();
    this.#thread = null;
  }
}
