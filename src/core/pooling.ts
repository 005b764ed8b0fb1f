// How the hidden states of a text become one vector.

/** Of the first or the last token; over all tokens: mean, largest, sum / sqrt(count), mean weighted by position + 1. */
export const POOLINGS = ["first", "last", "mean", "max", "mean_sqrt_len", "weighted_mean"] as const;

/** How one vector is made of a text's hidden states. */
export type Pooling = (typeof POOLINGS)[number];

/** Only one token's state is needed. */
export function isOfOneToken(pooling: Pooling): boolean {
  return pooling === "first" || pooling === "last";
}

/** Takes in hidden states in the order of their positions. Sums are in f64: their order is that of the positions, always. */
export class PooledState {
  readonly pooling: Pooling;
  readonly #sums: Float64Array; // [hidden]
  #weight = 0;

  constructor(pooling: Pooling, hiddenSize: number) {
    this.pooling = pooling;
    this.#sums = new Float64Array(hiddenSize);
    this.clear();
  }

  clear(): void {
    this.#sums.fill(this.pooling === "max" ? Number.NEGATIVE_INFINITY : 0);
    this.#weight = 0;
  }

  add(states: Float32Array, position: number): void {
    const sums = this.#sums;
    if (this.pooling === "max") {
      for (let d = 0; d < sums.length; d++) sums[d] = Math.max(sums[d]!, states[d]!);
      this.#weight = 1;
      return;
    }
    const weight = this.pooling === "weighted_mean" ? position + 1 : 1;
    for (let d = 0; d < sums.length; d++) sums[d]! += weight * states[d]!;
    this.#weight += weight;
  }

  vector(): Float32Array {
    const divisor = this.pooling === "mean_sqrt_len" ? Math.sqrt(this.#weight) : this.#weight;
    return Float32Array.from(this.#sums, (sum) => sum / divisor);
  }
}
