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

/** Pixels of a picture, or of a tile of it, as a tower takes them. */
export interface PictureFrame {
  readonly width: number;
  readonly height: number;
  readonly pixels: Float32Array; // [3, height, width], normalised
}

/** Its rows are made of a picture by the model's tower, when they are needed. */
export interface PictureMedium extends MediumSpan {
  /** The id names what the rows depend on: pixels and their places. */
  readonly picture: { readonly id: Int32Array; readonly frame: PictureFrame };
  /** Which of the frame's tokens its first one is. */
  readonly first: number;
}

export type GivenMedium = Medium | PictureMedium;

/** Throws unless they are in order and apart from each other within the prompt, with `numRows` rows for each token. */
export function checkMedia(media: readonly GivenMedium[], promptLen: number, hiddenSize: number, numRows = 1): void {
  let free = 0; // behind the last one
  for (const [i, medium] of media.entries()) {
    const { start, end, id } = medium;
    const param = `media[${i}]`;
    const isPlace = Number.isSafeInteger(start) && Number.isSafeInteger(end);
    if (!isPlace || start < free || end <= start || end > promptLen) {
      const expected = `a run of the prompt's ${promptLen} tokens, from ${free} on`;
      throw errorFor("invalid_value", { param, value: `${start} to ${end}`, expected });
    }
    if (id.length !== 4)
      throw errorFor("invalid_value", { param: `${param}.id`, value: id.length, expected: "4 words" });
    const expected = (end - start) * hiddenSize * numRows;
    if ("rows" in medium && medium.rows.length !== expected) {
      const why = `${expected} numbers, ${hiddenSize * numRows} for each of its tokens`;
      throw errorFor("invalid_value", { param: `${param}.rows`, value: medium.rows.length, expected: why });
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
