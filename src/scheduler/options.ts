// What a scheduler is set up with.

import { errorFor } from "../core/errors.js";
import { alignDown } from "../core/math.js";
import { MAX_RUN } from "../drafter/drafter.js";

export interface SchedulerOptions {
  /** extend: chunks and decodes share a step. chunked: fixed chunks, never in one step with decodes. */
  readonly mode: "extend" | "chunked";
  /** Tokens per page. */
  readonly pageSize: number;
  /** Budget of a step = pageSize * maxPagesPerBatch tokens, its only limit. */
  readonly maxPagesPerBatch: number;
  /** Longest chunk of a request in one step, in tokens; rounded down to pages. */
  readonly idealChunk: number;
  /** The same for the chunked mode; idealChunk when absent. */
  readonly fixedChunk?: number;
  /** How long a step should take, in milliseconds, while several clients are served: prompts' chunks are cut to it. 0, the default: any. */
  readonly targetStepMs?: number;
}

/** The longest chunk of a step: a multiple of the page size within the budget. */
export function chunkOf(options: SchedulerOptions): number {
  const { mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk = idealChunk } = options;
  const chunk = Math.min(mode === "chunked" ? fixedChunk : idealChunk, pageSize * maxPagesPerBatch);
  return Math.max(pageSize, alignDown(chunk, pageSize));
}

/** The most tokens that a step computes of one request: a chunk of its prompt, or a run of guesses. */
export function longestRow(options: SchedulerOptions): number {
  return Math.max(chunkOf(options), MAX_RUN);
}

/** `cachePageSize`: of the cache that the scheduler is to share out. */
export function checkOptions(options: SchedulerOptions, cachePageSize: number): void {
  const { pageSize, maxPagesPerBatch, idealChunk, fixedChunk = idealChunk } = options;
  requireCount("maxPagesPerBatch", maxPagesPerBatch);
  requireCount("idealChunk", idealChunk);
  requireCount("fixedChunk", fixedChunk);
  if (pageSize === cachePageSize) return;
  throw errorFor("invalid_option", { param: "pageSize", value: pageSize, expected: `the cache's ${cachePageSize}` });
}

function requireCount(param: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw errorFor("invalid_option", { param, value, expected: "an integer of at least 1" });
}
