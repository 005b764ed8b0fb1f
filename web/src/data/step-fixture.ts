// Step records for tests of what is computed from them.

import type { StepRecord } from "./wire.js";

export function stepOf(step: number, ids: readonly string[]): StepRecord {
  return {
    step,
    startMs: step,
    durationMs: 1,
    rows: ids.map((id) => ({ id, start: step, queryLen: 1, contextLen: step + 1, isPrefill: false })),
    prefills: 0,
    tokens: ids.length,
    budget: 64,
    paddingAvoided: 0,
    pagesFree: 1,
    pagesCached: 0,
    pagesUsed: 1,
    waiting: 0,
    preempted: [],
  };
}
