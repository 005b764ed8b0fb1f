// The last few hundred times of something, and their percentiles.

const CAPACITY = 256;

export class RecentTimes {
  readonly #ms = new Float64Array(CAPACITY);
  #count = 0;

  note(ms: number): void {
    this.#ms[this.#count++ % CAPACITY] = ms;
  }

  /** null: there are none yet. */
  percentile(share: number): number | null {
    const sorted = this.#ms.slice(0, Math.min(this.#count, CAPACITY)).sort();
    return sorted[Math.ceil(share * sorted.length) - 1] ?? null;
  }
}
