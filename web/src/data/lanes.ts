// Gives every request a lane of its own in the timeline: the lowest one free when it first runs, kept until it has been away for
// a while. A request that skips a few steps (preempted, or no budget left) comes back to its lane.

import type { StepRecord } from "./wire.js";

/** Steps a lane is held for an absent request. */
const HOLD = 12;

export class Lanes {
  readonly #laneOf = new Map<string, number>();
  readonly #holders: string[] = []; // [lane]
  readonly #lastSeen: number[] = []; // [lane] in steps assigned
  #numSteps = 0;

  /** Lane of each row of the next step. */
  assign({ rows }: StepRecord): number[] {
    const now = this.#numSteps++;
    return rows.map(({ id }) => {
      const lane = this.#laneOf.get(id) ?? this.#take(id, now);
      this.#lastSeen[lane] = now;
      return lane;
    });
  }

  #take(id: string, now: number): number {
    let lane = this.#lastSeen.findIndex((seen) => now - seen > HOLD);
    if (lane < 0) lane = this.#holders.length;
    else this.#laneOf.delete(this.#holders[lane]!);
    this.#holders[lane] = id;
    this.#laneOf.set(id, lane);
    return lane;
  }
}
