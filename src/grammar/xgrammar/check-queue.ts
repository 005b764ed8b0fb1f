// Grammars to be checked in one lane, one after another. They wait here and not in the thread's own queue, so that what nobody
// waits for any more is never begun: clients that ask and leave cost nothing.

import type { ConstraintSpec } from "../constraint.js";
import type { Lane } from "./lane.js";
import type { Verdict } from "./matcher-messages.js";

export type CheckResult = Verdict | "too slow" | "unwanted";

interface Waiting {
  readonly id: number;
  readonly spec: ConstraintSpec;
  isWanted(): boolean;
  resolve(result: CheckResult): void;
}

export class CheckQueue {
  readonly lane: Lane;
  readonly #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(lane: Lane) {
    this.lane = lane;
  }

  check(id: number, spec: ConstraintSpec, isWanted: () => boolean): Promise<CheckResult> {
    return new Promise((resolve) => {
      this.#waiting.push({ id, spec, isWanted, resolve });
      this.#next();
    });
  }

  #next(): void {
    while (!this.#isBusy && this.#waiting.length > 0) {
      const { id, spec, isWanted, resolve } = this.#waiting.shift()!;
      if (!isWanted()) {
        resolve("unwanted");
        continue;
      }
      const end = (result: CheckResult): void => {
        this.#isBusy = false;
        resolve(result);
        this.#next();
      };
      this.#isBusy = true;
      this.lane.add(id, {
        openMessage: () => ({ type: "check", id, spec }),
        fail: () => end("too slow"),
        answer: end,
      });
    }
  }
}
