// The tokens of a flight on devices that run in step with the host: they are known as soon as they are chosen.

import type { Batch } from "../core/batch.js";
import { MAX_TOP_LOGPROBS } from "../core/sampling-rows.js";
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
  const { inputOf } = batch;
  for (let t = 0; t < batch.numTokens; t++) if (inputOf[t]! < 0) inputOf[t] = previous.ids[-inputOf[t]! - 1]!;
}
