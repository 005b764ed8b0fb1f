// Counts what the engine did and describes each step for people to watch. Reads the scheduler and the cache, changes neither.

import type { CacheManager } from "../../cache/cache-manager.js";
import type { Request } from "../../core/request.js";
import type { Device } from "../../device/device.js";
import { MAX_RUN } from "../../drafter/drafter.js";
import type { Scheduler } from "../../scheduler/scheduler.js";
import { Block, type StepColumns } from "../outputs.js";
import type { EngineStats, HostTimes, PictureStats } from "../types.js";
import type { Flight } from "./flight.js";

interface Watched {
  readonly scheduler: Scheduler;
  readonly cache: CacheManager;
  readonly clock: () => number;
}

const NO_PICTURES: PictureStats = { encoded: 0, reused: 0, waiting: 0, bytes: 0 };

export class StepRecorder {
  readonly clock = new HostClock();
  readonly #watched: Watched;
  #numSteps = 0;
  #promptTokens = 0;
  #cachedTokens = 0;
  #generatedTokens = 0;
  #paddingAvoided = 0;
  #preemptions = 0;
  #requestsFinished = 0;
  numDropped = 0;
  /** Rows with guesses, their guesses, those of them that became tokens, and how many of these were a row's first, second, ... */
  #numDrafts = 0;
  numDrafted = 0;
  numAccepted = 0;
  readonly #acceptedAt: number[] = new Array(MAX_RUN - 1).fill(0);
  #last: StepColumns | null = null;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** A flight that has landed. */
  record({ step, startMs, sessions, firstDraw, lastLogit }: Flight): void {
    const { scheduler, cache, clock } = this.#watched;
    const { numRows } = step;
    const block = new Block(3 * numRows);
    const starts = block.copy(step.starts, numRows);
    const queryLens = block.copy(step.queryLens, numRows);
    const handles = block.copy(starts, numRows); // written below
    let drafted: Int32Array | null = null;
    let longest = 0;
    let prefills = 0;
    for (let r = 0; r < numRows; r++) {
      handles[r] = sessions[r]!.handle;
      longest = Math.max(longest, step.queryLens[r]!);
      if (step.starts[r]! < step.rows[r]!.promptLen) prefills++;
      if (lastLogit[r]! <= firstDraw[r]!) continue;
      drafted ??= new Int32Array(numRows);
      drafted[r] = lastLogit[r]! - firstDraw[r]!;
    }
    const preempted: string[] = [];
    for (let i = 0; i < step.numPreempted; i++) preempted.push(step.preempted[i]!.id);
    const paddingAvoided = numRows * longest - step.numTokens;
    this.#paddingAvoided += paddingAvoided;
    this.#preemptions += step.numPreempted;
    const pages = cache.countPages();
    this.#last = {
      step: this.#numSteps++,
      startMs,
      durationMs: clock() - startMs,
      handles,
      starts,
      queryLens,
      drafted,
      accepted: drafted === null ? null : new Int32Array(numRows),
      prefills,
      tokens: step.numTokens,
      budget: scheduler.budget,
      paddingAvoided,
      pagesFree: pages.pagesFree,
      pagesCached: pages.pagesCached,
      pagesUsed: pages.pagesUsed,
      waiting: scheduler.numWaiting,
      preempted,
    };
  }

  /** Forgets what was counted so far. */
  clear(): void {
    this.#numSteps = 0;
    this.#promptTokens = 0;
    this.#cachedTokens = 0;
    this.#generatedTokens = 0;
    this.#paddingAvoided = 0;
    this.#preemptions = 0;
    this.#requestsFinished = 0;
    this.numDropped = 0;
    this.#numDrafts = 0;
    this.numDrafted = 0;
    this.numAccepted = 0;
    this.#acceptedAt.fill(0);
    this.#last = null;
    this.clock.clear();
  }

  get numSteps(): number {
    return this.#numSteps;
  }

  /** The step since the last call; null when there was none. */
  takeRecord(): StepColumns | null {
    const record = this.#last;
    this.#last = null;
    return record;
  }

  countGenerated(count: number): void {
    this.#generatedTokens += count;
  }

  /** A row whose request had ended when its flight landed. */
  countDropped(): void {
    this.numDropped++;
  }

  /** A row with guesses has landed, in the flight recorded last. */
  countDrafts(row: number, request: Request, numDrafted: number, numAccepted: number): void {
    this.#last!.accepted![row] = numAccepted;
    request.numDrafts++;
    request.numTried += numDrafted;
    request.numGuessed += numAccepted;
    this.#numDrafts++;
    this.numDrafted += numDrafted;
    this.numAccepted += numAccepted;
    for (let i = 0; i < numAccepted; i++) this.#acceptedAt[i]!++;
  }

  countFinished(request: Request): void {
    this.#requestsFinished++;
    if (request.sampleIndex > 0) return; // forks share one prompt
    this.#promptTokens += request.promptLen;
    this.#cachedTokens += request.numCachedPrompt;
  }

  stats(model: string, device: Device, pageSize: number): EngineStats {
    const { scheduler, cache } = this.#watched;
    const pages = cache.stats();
    const deviceUsage = device.usage();
    return {
      model,
      device: device.info.name,
      running: scheduler.numRunning,
      waiting: scheduler.numWaiting,
      steps: this.#numSteps,
      pageSize,
      pagesTotal: pages.pagesTotal,
      pagesFree: pages.pagesFree,
      pagesCached: pages.pagesCached,
      pagesUsed: pages.pagesUsed,
      cacheGroups: pages.groups,
      hostTier: pages.hostTier,
      deviceUsage,
      hostTimes: deviceUsage === null ? null : { ...this.clock.ms },
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      generatedTokens: this.#generatedTokens,
      paddingAvoided: this.#paddingAvoided,
      preemptions: this.#preemptions,
      requestsFinished: this.#requestsFinished,
      adapters: [],
      adapterLimitBytes: 0,
      speculation: {
        drafts: this.#numDrafts,
        draftTokens: this.numDrafted,
        acceptedTokens: this.numAccepted,
        acceptedPerPosition: this.#acceptedAt.slice(),
      },
      pictures: NO_PICTURES,
    };
  }
}

/** Held here: the global is found through a getter. */
const { performance } = globalThis;

const NONE: HostTimes = { schedule: 0, plan: 0, stage: 0, launch: 0, wait: 0, commit: 0, deliver: 0, loop: 0 };

/** All but waiting. */
export function hostMsOf({ wait: _, ...stages }: HostTimes): number {
  return Object.values(stages).reduce((sum, ms) => sum + ms, 0);
}

/**
 * Where the time of the engine's thread goes, from step to step: a mark at the end of each stage. All stages but `wait` are host time; on a
 * device that computes in its own calls `launch` is its computing.
 */
export class HostClock {
  readonly ms: { -readonly [Stage in keyof HostTimes]: number } = { ...NONE };
  #at = performance.now();

  clear(): void {
    Object.assign(this.ms, NONE);
  }

  /** What came before is nobody's: the thread had nothing to do. */
  begin(): void {
    this.#at = performance.now();
  }

  /** All since the last mark was this. */
  mark(stage: keyof HostTimes): void {
    const now = performance.now();
    this.ms[stage] += now - this.#at;
    this.#at = now;
  }
}
