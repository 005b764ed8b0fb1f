// Media of a prompt: runs of its tokens whose embeddings are rows made elsewhere (a picture, a sound), not rows of the vocabulary's table. The
// tokens there are placeholders.

import { errorFor } from "./errors.js";

/** Where a medium stands in its prompt, and what it is: all that the identity of a page needs. */
export interface MediumSpan {
  readonly start: number;
  /** The first position after it. */
  readonly end: number;
  /** 128 bits that name its rows: media of one id have the same. */
  readonly id: Int32Array; // [4]
  /** Its tokens are turned by their place in this grid, row by row; omitted: by their place in the text. */
  readonly grid?: { readonly rows: number; readonly columns: number };
  /** true: its tokens see each other, also those after them, so no chunk ends inside it. Left out: they see what is before them, as text does. */
  readonly isWhole?: boolean;
}

/** With what its tokens' embeddings are. */
export interface Medium extends MediumSpan {
  /** Their embeddings, and what is added to their hidden states after each of the first layers, where the model has such rows. */
  readonly rows: Float32Array; // [numRows, end - start, hidden]
}

/** Throws unless they are in order and apart from each other within the prompt, with `numRows` rows for each token. */
export function checkMedia(media: readonly Medium[], promptLen: number, hiddenSize: number, numRows = 1): void {
  let free = 0; // behind the last one
  for (const [i, { start, end, id, rows }] of media.entries()) {
    const param = `media[${i}]`;
    const isPlace = Number.isSafeInteger(start) && Number.isSafeInteger(end);
    if (!isPlace || start < free || end <= start || end > promptLen) {
      const expected = `a run of the prompt's ${promptLen} tokens, from ${free} on`;
      throw errorFor("invalid_value", { param, value: `${start} to ${end}`, expected });
    }
    if (id.length !== 4)
      throw errorFor("invalid_value", { param: `${param}.id`, value: id.length, expected: "4 words" });
    const expected = (end - start) * hiddenSize * numRows;
    if (rows.length !== expected) {
      const why = `${expected} numbers, ${hiddenSize * numRows} for each of its tokens`;
      throw errorFor("invalid_value", { param: `${param}.rows`, value: rows.length, expected: why });
    }
    free = end;
  }
}

export const NO_MEDIA: readonly Medium[] = [];

/**
 * The positions of tokens [from, to) on three axes (time, row, column), where a medium with a grid is among them or before them; null: none is.
 * A grid takes as many positions as its longer edge, and what follows goes on from there.
 */
export function gridPositions(media: readonly MediumSpan[], from: number, to: number): Int32Array | null {
  let shift = 0; // of the text at hand
  let positions: Int32Array | null = null;
  let next = from; // the first token without positions
  const putText = (end: number): void => {
    for (; next < end; next++) positions!.fill(next + shift, 3 * (next - from), 3 * (next - from) + 3);
  };
  for (const { start, end, grid } of media) {
    if (grid === undefined || start >= to) continue;
    positions ??= new Int32Array(3 * (to - from));
    putText(Math.min(start, to));
    for (; next < Math.min(end, to); next++) {
      const at = next - start;
      const first = start + shift;
      positions[3 * (next - from)] = first;
      positions[3 * (next - from) + 1] = first + Math.floor(at / grid.columns);
      positions[3 * (next - from) + 2] = first + (at % grid.columns);
    }
    shift += Math.max(grid.rows, grid.columns) - (end - start);
  }
  if (positions !== null) putText(to);
  return positions;
}
