// The last thousand steps, as the timeline shows them. While paused the view keeps the steps it had, and new ones are kept
// behind it; so what one looks at neither moves nor falls out.

import { Lanes } from "./lanes.js";
import type { StepRecord } from "./wire.js";

export const MAX_STEPS = 1000;

export interface LoggedStep {
  readonly record: StepRecord;
  /** Lane of each row in the timeline. */
  readonly lanes: readonly number[];
}

export class StepHistory {
  #steps: LoggedStep[] = [];
  #lanes = new Lanes();
  #frozen: readonly LoggedStep[] | null = null;

  /** The server's history, on connecting: it replaces what is here; a paused view stays. */
  reset(history: readonly StepRecord[]): void {
    this.#steps = [];
    this.#lanes = new Lanes();
    for (const record of history) this.add(record);
  }

  add(record: StepRecord): void {
    const latest = this.latest;
    // A restarted engine counts from 0 again: its steps are another history.
    if (latest !== undefined && record.step <= latest.step) this.reset([]);
    this.#steps.push({ record, lanes: this.#lanes.assign(record) });
    // Cut rarely: a shift per step would move a thousand entries each time.
    if (this.#steps.length > MAX_STEPS * 1.25) this.#steps = this.#steps.slice(-MAX_STEPS);
  }

  get isPaused(): boolean {
    return this.#frozen !== null;
  }

  pause(): void {
    this.#frozen ??= this.#live();
  }

  resume(): void {
    this.#frozen = null;
  }

  /** What is shown, oldest first. */
  get view(): readonly LoggedStep[] {
    return this.#frozen ?? this.#live();
  }

  /** The newest step there is, shown or not. */
  get latest(): StepRecord | undefined {
    return this.#steps.at(-1)?.record;
  }

  #live(): readonly LoggedStep[] {
    return this.#steps.slice(-MAX_STEPS);
  }
}
