// A part of a layer: attention, a feed-forward, a mixer. It reads x [T, hidden] and gives out = f(x), or out += scale * f(x): which
// of the two is decided when it is made, so that the last matmul can do the addition.

import type { StagedBatch, Tensor } from "../../device/device.js";
import type { Caches } from "../model.js";

export interface Block {
  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void;
}

/** What the last matmul of a block does to its output. */
export interface Epilogue {
  readonly accumulate?: boolean;
  readonly scale?: number;
}

/** Added to the residual stream as it is. */
export const ADD: Epilogue = { accumulate: true };
