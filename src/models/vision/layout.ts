// Where the patches of a step's frames lie in a tower, and which of them become which token.

import type { Windows } from "./tower.js";

/** A frame in patches. */
export interface FrameGrid {
  readonly rows: number;
  readonly columns: number;
}

export interface LayoutRules {
  /** Edge of the blocks that patches come in; 1: row by row. */
  readonly block: number;
  /** Edge of the block of patches that become one token. */
  readonly merge: number;
  /** A token of no patch comes before those of a frame. */
  readonly hasFirst: boolean;
  /** Features beside those of the patches: 1, that of the token of no patch comes first; -1, the first patch has none. */
  readonly extraTokens: -1 | 0 | 1;
  readonly windowsOf: ((rows: number, columns: number) => Windows) | null;
}

export class FrameLayout {
  /** Rows of the tower that each frame takes. */
  readonly lengths: readonly number[];
  /** The same of each window; null: there are none. */
  readonly windows: readonly number[] | null;
  /** Rows of the tower in all. */
  readonly numRows: number;
  /** The frame of each row of the tower, and the patch of it that is there; -1: the token of no patch. [numRows] */
  readonly frameOf: Int32Array;
  readonly patchOf: Int32Array;
  /** Tokens of each frame. */
  readonly tokens: readonly number[];
  readonly numTokens: number;
  /** Rows of the tower that become tokens: the first patch of every token, then the second of every token. [merge * merge * numTokens] */
  readonly gathered: Int32Array;

  constructor(frames: readonly FrameGrid[], rules: LayoutRules) {
    const { block, merge, hasFirst, extraTokens, windowsOf } = rules;
    const offset = hasFirst ? 1 : 0;
    this.lengths = frames.map(({ rows, columns }) => rows * columns + offset);
    this.numRows = this.lengths.reduce((sum, length) => sum + length, 0);
    this.frameOf = new Int32Array(this.numRows);
    this.patchOf = new Int32Array(this.numRows).fill(-1);
    const windows: number[] = [];
    const places: Int32Array[] = [];
    let row = 0;
    for (const [f, { rows, columns }] of frames.entries()) {
      this.frameOf.fill(f, row, row + this.lengths[f]!);
      const own = windowsOf?.(rows, columns) ?? null;
      if (own !== null) windows.push(...own.lengths);
      const placeOf = new Int32Array(rows * columns); // the row of the tower that each patch is in
      const unit = block * block;
      for (let i = 0; i < rows * columns; i++) {
        const patch = own === null ? i : own.order[Math.floor(i / unit)]! * unit + (i % unit);
        placeOf[patch] = row + offset + i;
        this.patchOf[row + offset + i] = patch;
      }
      const tokens = tokensOf(rows, columns, block, merge).map((patches) => patches.map((patch) => placeOf[patch]!));
      if (extraTokens === 1) tokens.unshift([row]);
      places.push(Int32Array.from((extraTokens === -1 ? tokens.slice(1) : tokens).flat()));
      row += this.lengths[f]!;
    }
    this.windows = windowsOf === null ? null : windows;
    const unit = merge * merge;
    this.tokens = places.map((rows) => rows.length / unit);
    this.numTokens = this.tokens.reduce((sum, count) => sum + count, 0);
    this.gathered = new Int32Array(unit * this.numTokens);
    let token = 0;
    for (const rows of places) {
      for (let i = 0; i < rows.length; i++)
        this.gathered[(i % unit) * this.numTokens + token + Math.floor(i / unit)] = rows[i]!;
      token += rows.length / unit;
    }
  }
}

/** The patches of each token of a frame, row by row. */
function tokensOf(rows: number, columns: number, block: number, merge: number): number[][] {
  const across = Math.floor(columns / merge);
  const unit = merge * merge;
  return Array.from({ length: Math.floor(rows / merge) * across }, (_, token) =>
    Array.from({ length: unit }, (_, k) => {
      if (block > 1) return token * unit + k;
      const row = Math.floor(token / across) * merge + Math.floor(k / merge);
      return row * columns + (token % across) * merge + (k % merge);
    }),
  );
}
