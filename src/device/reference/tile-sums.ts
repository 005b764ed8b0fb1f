// The sums of attention over a tile of keys, in f64. Each is taken in one order, whatever the tile: only which of them go on side by side
// is for speed.

/** scores[i] = q . key i, for keys from .. to; four at a time, since four sums hide the latency of an addition. */
export function dots(
  scores: Float64Array,
  q: Float32Array,
  qAt: number,
  keys: Float32Array,
  at: Uint32Array,
  from: number,
  to: number,
  dim: number,
): void {
  let key = from;
  for (; key + 4 <= to; key += 4) {
    const [a0, a1, a2, a3] = [at[key]!, at[key + 1]!, at[key + 2]!, at[key + 3]!];
    let s0 = 0;
    let s1 = 0;
    let s2 = 0;
    let s3 = 0;
    for (let i = 0; i < dim; i++) {
      const x = q[qAt + i]!;
      s0 += x * keys[a0 + i]!;
      s1 += x * keys[a1 + i]!;
      s2 += x * keys[a2 + i]!;
      s3 += x * keys[a3 + i]!;
    }
    scores[key] = s0;
    scores[key + 1] = s1;
    scores[key + 2] = s2;
    scores[key + 3] = s3;
  }
  for (; key < to; key++) {
    const a = at[key]!;
    let sum = 0;
    for (let i = 0; i < dim; i++) sum += q[qAt + i]! * keys[a + i]!;
    scores[key] = sum;
  }
}

/** sum += p[i] * value i, for keys from .. to in ascending order. */
export function addWeighted(
  sum: Float64Array,
  p: Float64Array,
  values: Float32Array,
  at: Uint32Array,
  from: number,
  to: number,
): void {
  let key = from;
  for (; key + 4 <= to; key += 4) {
    const [a0, a1, a2, a3] = [at[key]!, at[key + 1]!, at[key + 2]!, at[key + 3]!];
    const [p0, p1, p2, p3] = [p[key]!, p[key + 1]!, p[key + 2]!, p[key + 3]!];
    for (let i = 0; i < sum.length; i++)
      sum[i] = sum[i]! + p0 * values[a0 + i]! + p1 * values[a1 + i]! + p2 * values[a2 + i]! + p3 * values[a3 + i]!;
  }
  for (; key < to; key++) for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! + p[key]! * values[at[key]! + i]!;
}
