// Rows of online-softmax state (o, m, d): o = sum 2^(s-m) v (not normalised), m = running max of the scores, d = sum 2^(s-m).
// Scores are in units of log2: the caller multiplied them by log2(e). The empty state is (0, -inf, 0); merging it changes nothing,
// not even the sign of a zero. Stored as f32, computed in f64.

/** 2^x. Through exp, which is faster here than pow; exact at 0. */
export function exp2(x: number): number {
  return Math.exp(x * Math.LN2);
}

export class SoftmaxStates {
  readonly dim: number;
  o: Float32Array; // [rows, dim]
  m: Float32Array; // [rows]
  d: Float32Array; // [rows]

  constructor(rows: number, dim: number) {
    this.dim = dim;
    this.o = new Float32Array(rows * dim);
    this.m = new Float32Array(rows).fill(-Infinity);
    this.d = new Float32Array(rows);
  }

  get rows(): number {
    return this.m.length;
  }

  clear(row: number): void {
    this.o.fill(0, row * this.dim, (row + 1) * this.dim);
    this.m[row] = -Infinity;
    this.d[row] = 0;
  }

  isEmpty(row: number): boolean {
    return this.d[row] === 0;
  }

  /** this[row] += other[otherRow]. The left operand holds the earlier keys. */
  merge(row: number, other: SoftmaxStates, otherRow: number): void {
    if (other.isEmpty(otherRow)) return;
    const { dim, o } = this;
    const from = otherRow * dim;
    const to = row * dim;
    if (this.isEmpty(row)) {
      for (let i = 0; i < dim; i++) o[to + i] = other.o[from + i]!;
      this.m[row] = other.m[otherRow]!;
      this.d[row] = other.d[otherRow]!;
      return;
    }
    const m = Math.max(this.m[row]!, other.m[otherRow]!);
    const mine = exp2(this.m[row]! - m);
    const theirs = exp2(other.m[otherRow]! - m);
    for (let i = 0; i < dim; i++) o[to + i] = o[to + i]! * mine + other.o[from + i]! * theirs;
    this.m[row] = m;
    this.d[row] = this.d[row]! * mine + other.d[otherRow]! * theirs;
  }

  /** Base-2 log of the sum of exponentials: m + log2 d; -inf for an empty state. */
  lse(row: number): number {
    return this.m[row]! + Math.log2(this.d[row]!);
  }
}
