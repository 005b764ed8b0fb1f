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
  /** true: its tokens see each other, also those after them, so no chunk ends inside it. Left out: they see what is before them, as text does. */
  readonly isWhole?: boolean;
}

/** With what its tokens' embeddings are. */
export interface Medium extends MediumSpan {
  readonly rows: Float32Array; // [end - start, hidden]
}

/** Throws unless they are in order and apart from each other within the prompt, with a row for each token. */
export function checkMedia(media: readonly Medium[], promptLen: number, hiddenSize: number): void {
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
    const expected = (end - start) * hiddenSize;
    if (rows.length !== expected) {
      const why = `${expected} numbers, ${hiddenSize} for each of its tokens`;
      throw errorFor("invalid_value", { param: `${param}.rows`, value: rows.length, expected: why });
    }
    free = end;
  }
}

export const NO_MEDIA: readonly Medium[] = [];
