// mode: chunked. Fixed chunks, and prefill and decode never in one step: the older way of serving, kept to be compared with.

import { ChunkSizer } from "./chunk-sizer.js";
import type { SharePolicy } from "./share-policy.js";
import type { StepBuilder } from "./step.js";

/** Every chunk costs as much as the longest, as the padded kernel arguments of this mode do. */
export class FixedChunkSizer extends ChunkSizer {
  protected override get takesDecodes(): boolean {
    return false;
  }

  protected override costOf(queryLen: number): number {
    return Math.max(this.longest, queryLen);
  }
}

/** Prefill and decode steps take turns while there is work for both. */
export class AlternatingSteps {
  readonly #builder: StepBuilder;
  /** The last step was a prefill. */
  #isDecodeTurn = false;

  constructor(builder: StepBuilder) {
    this.#builder = builder;
  }

  fill(inOrder: SharePolicy, policy: SharePolicy, placeLateDecodes: () => void): void {
    const { step } = this.#builder;
    if (this.#isDecodeTurn) inOrder.placeDecodes(0);
    this.#isDecodeTurn = false;
    if (step.numRows > 0) return;
    this.#builder.firstChunkRow = 0;
    policy.placeChunks();
    if (step.numRows > 0) this.#isDecodeTurn = true;
    else placeLateDecodes();
  }
}
