// The tokens of a flight on devices that run in step with the host: they are known as soon as they are chosen.

import type { Batch } from "../core/batch.js";
import { DRAW, DRAW_WORDS, type Draws, MAX_TOP_LOGPROBS } from "../core/draws.js";
import type { TokenBuffer } from "./device.js";

export class HostTokenBuffer implements TokenBuffer {
  readonly ids: Int32Array; // [maxRows]
  readonly logprobs: Float32Array; // [maxRows]
  readonly topIds: Int32Array; // [maxRows, MAX_TOP_LOGPROBS]
  readonly topLogprobs: Float32Array; // [maxRows, MAX_TOP_LOGPROBS]

  constructor(maxRows: number) {
    this.ids = new Int32Array(maxRows);
    this.logprobs = new Float32Array(maxRows);
    this.topIds = new Int32Array(maxRows * MAX_TOP_LOGPROBS);
    this.topLogprobs = new Float32Array(maxRows * MAX_TOP_LOGPROBS);
  }
}

/** Puts ids in the place of references to the flight before. */
export function resolveInputs(batch: Batch, previous: TokenBuffer | null): void {
  if (previous === null) return;
  const { inputIds } = batch;
  for (let t = 0; t < batch.numTokens; t++) if (inputIds[t]! < 0) inputIds[t] = previous.ids[-inputIds[t]! - 1]!;
}

/** The same for the tokens that draws list for penalties. */
export function resolveTokens({ ints, lists, count }: Draws, previous: TokenBuffer | null): void {
  if (previous === null) return;
  for (let at = 0; at < count * DRAW_WORDS; at += DRAW_WORDS) {
    const first = ints[at + DRAW.tokens]!;
    for (let i = first; i < first + ints[at + DRAW.numTokens]!; i++) {
      if (lists[i]! < 0) lists[i] = previous.ids[-lists[i]! - 1]!;
    }
  }
}
