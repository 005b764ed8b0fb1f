// The rows of a step by adapter: which tokens, and which logit rows, belong to each adapter that is in it. Made once per step, so that an
// adapter's matrices are read once for all of its rows. Integers only; sized once.

import type { Batch } from "./batch.js";

export class AdapterRows {
  /** Adapters of the step; 0: no row has one. */
  count = 0; // G
  readonly slots: Int32Array; // [G] an adapter's slot
  readonly tokenIndptr: Int32Array; // [G+1]
  readonly tokens: Int32Array; // tokens of adapter g: [tokenIndptr[g], tokenIndptr[g+1]), ascending
  readonly logitIndptr: Int32Array; // [G+1]
  readonly logits: Int32Array; // numbers of logit rows, likewise
  readonly #groupOf: Int32Array; // [R] -1: no adapter

  constructor(maxTokens: number) {
    this.slots = new Int32Array(maxTokens);
    this.tokenIndptr = new Int32Array(maxTokens + 1);
    this.tokens = new Int32Array(maxTokens);
    this.logitIndptr = new Int32Array(maxTokens + 1);
    this.logits = new Int32Array(maxTokens);
    this.#groupOf = new Int32Array(maxTokens);
  }

  /** Reads the batch's rows anew. */
  group(batch: Batch): void {
    const { numRows, adapterSlots, qoIndptr } = batch;
    this.count = 0;
    for (let r = 0; r < numRows; r++) this.#groupOf[r] = adapterSlots[r]! < 0 ? -1 : this.#groupFor(adapterSlots[r]!);
    let numTokens = 0;
    let numLogits = 0;
    for (let g = 0; g < this.count; g++) {
      let logit = 0;
      for (let r = 0; r < numRows; r++) {
        const end = qoIndptr[r + 1]!;
        // Logit rows are in the order of their tokens.
        const firstLogit = logit;
        while (logit < batch.numLogitRows && batch.logitRows[logit]! < end) logit++;
        if (this.#groupOf[r] !== g) continue;
        for (let t = qoIndptr[r]!; t < end; t++) this.tokens[numTokens++] = t;
        for (let i = firstLogit; i < logit; i++) this.logits[numLogits++] = i;
      }
      this.tokenIndptr[g + 1] = numTokens;
      this.logitIndptr[g + 1] = numLogits;
    }
  }

  #groupFor(slot: number): number {
    for (let g = 0; g < this.count; g++) if (this.slots[g] === slot) return g;
    this.slots[this.count] = slot;
    return this.count++;
  }
}
