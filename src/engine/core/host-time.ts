// Where the time of the engine's thread goes, from step to step: a mark at the end of each stage. All stages but `wait` are host time;
// on a device that computes in its own calls `launch` is its computing.

import type { HostTimes } from "../types.js";

/** Held here: the global is found through a getter. */
const { performance } = globalThis;

const NONE: HostTimes = { schedule: 0, plan: 0, stage: 0, launch: 0, wait: 0, commit: 0, deliver: 0, loop: 0 };

/** All but waiting. */
export function hostMsOf({ wait: _, ...stages }: HostTimes): number {
  return Object.values(stages).reduce((sum, ms) => sum + ms, 0);
}

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
