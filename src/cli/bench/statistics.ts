// What a list of measurements says.

export interface Summary {
  readonly count: number;
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** All zero for an empty list. */
export function summaryOf(values: readonly number[]): Summary {
  const sorted = Float64Array.from(values).sort();
  const mean = values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    count: values.length,
    mean,
    p50: quantile(sorted, 0.5),
    p90: quantile(sorted, 0.9),
    p99: quantile(sorted, 0.99),
  };
}

/** The middle one: what a busy machine disturbs least. */
export function median(values: readonly number[]): number {
  return quantile(Float64Array.from(values).sort(), 0.5);
}

/** Between the two nearest ranks, in proportion. */
function quantile(sorted: Float64Array, q: number): number {
  if (sorted.length === 0) return 0;
  const rank = q * (sorted.length - 1);
  const below = Math.floor(rank);
  const low = sorted[below]!;
  return low + (rank - below) * (sorted[Math.min(below + 1, sorted.length - 1)]! - low);
}
