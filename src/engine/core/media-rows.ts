// What a batch has of its rows' media: given embeddings of tokens, and positions on three axes.

import type { Batch } from "../../core/batch.js";
import { gridPositions, type Medium, type MediumSpan } from "../../core/media.js";
import type { InputRows, PositionRows } from "../../models/model.js";

/** Where the rows of a medium are. */
export interface RowSource {
  readonly rows: Float32Array | null; // [numRows, count, hidden]; null: they are not made yet
  readonly count: number;
}

/** A medium as the batch takes it: some of the rows of a source. */
export interface MediumRows extends MediumSpan {
  readonly source: RowSource;
  /** Which of them its first token has. */
  readonly first: number;
}

export const NO_ROWS: readonly MediumRows[] = [];

/** Of media that come with their rows. */
export function rowsGiven(media: readonly Medium[]): MediumRows[] {
  return media.map((medium) => {
    const { start, end, rows } = medium;
    return { ...medium, source: { rows, count: end - start }, first: 0 };
  });
}

export class MediaRows {
  readonly inputs: InputRows[] = [];
  readonly places: PositionRows[] = [];
  readonly #hiddenSize: number;

  constructor(hiddenSize: number) {
    this.#hiddenSize = hiddenSize;
  }

  clear(): void {
    this.inputs.length = 0;
    this.places.length = 0;
  }

  /** Of tokens [start, end), the batch's last row. Returns whether there is anything. */
  add(batch: Batch, media: readonly MediumRows[], start: number, end: number): boolean {
    const firstToken = batch.qoIndptr[batch.numRows - 1]!;
    const before = this.inputs.length + this.places.length;
    for (const medium of media) {
      const from = Math.max(medium.start, start);
      const to = Math.min(medium.end, end);
      if (from >= to) continue;
      batch.hideIds(from, to);
      if (medium.isWhole === true) batch.setVisibleEnd(medium.end, from, to);
      this.inputs.push({ first: firstToken + from - start, count: to - from, ...this.#rowsOf(medium, from, to) });
    }
    const positions = gridPositions(media, start, end);
    if (positions !== null) this.places.push({ first: firstToken, count: end - start, positions });
    return this.inputs.length + this.places.length > before;
  }

  /** The rows of tokens [from, to): embeddings first, then what is added after each of the first layers. */
  #rowsOf({ start, first, source }: MediumRows, from: number, to: number): Pick<InputRows, "values" | "deeper"> {
    const { rows, count } = source;
    if (rows === null) throw new Error("a chunk has media without rows");
    const hidden = this.#hiddenSize;
    const block = count * hidden;
    const part = (at: number): Float32Array =>
      rows.subarray(at + (first + from - start) * hidden, at + (first + to - start) * hidden);
    if (rows.length === block) return { values: part(0) };
    const deeper: Float32Array[] = [];
    for (let at = block; at < rows.length; at += block) deeper.push(part(at));
    return { values: part(0), deeper };
  }
}
