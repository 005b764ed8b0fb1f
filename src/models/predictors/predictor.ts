// A model that guesses the tokens to come for another one: a smaller model of the same vocabulary, or a head that continues the model's own hidden
// states. It has cache groups of its own beside the model's, in the same pages of the same requests: whatever the model has computed, the
// predictor has followed, so prefixes, forks and preemption need no care of their own.
//
//   lead 0   a model          reads token i at position i                         guesses token i + 1
//   lead 1   a head           reads the hidden state of i and token i + 1, at i   guesses token i + 2

import type { CacheSpec } from "../../core/cache-spec.js";
import type { StagedBatch, Tensor } from "../../device/device.js";
import type { Caches, Model, PlanSpec } from "../model.js";

/** Where a head's hidden states come from: the model's step, rows given by the host, its own last pass over the same rows. */
export type HiddenSource = "model" | "given" | "own";

export interface Predictor {
  readonly lead: 0 | 1;
  /** Ids that it reads. */
  readonly vocabSize: number;
  /** Its groups, all of them with pages; plans name groups of this list. */
  readonly caches: readonly CacheSpec[];
  readonly plans: readonly PlanSpec[];
  /** What it wants to know of the model's tokens [T, width], valid after the model's forward; null: nothing. */
  readonly features: Tensor | null;
  /** Logits [maxLogitRows, its vocabulary]; the first n rows are valid after computeLogits. */
  readonly logits: Tensor;
  /** The model's id of each of its own; null: they are the same. */
  readonly vocabulary: Int32Array | null;
  /** Features [n, width] of rows to come, for "given". */
  give(features: Float32Array, n: number): void;
  /** Appends what the batch's tokens leave to its caches. The batch's ids are those `lead` further on. */
  forward(batch: StagedBatch, caches: Caches, source: HiddenSource): void;
  /** Logits of the batch's logit rows [first, first + n); after forward. */
  computeLogits(batch: StagedBatch, first: number, n: number): void;
}

/** A whole model that guesses for another. */
export class DraftModel implements Predictor {
  readonly lead = 0;
  readonly features = null;
  readonly vocabulary = null;
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  get vocabSize(): number {
    return this.#model.spec.vocabSize;
  }

  get caches(): readonly CacheSpec[] {
    return this.#model.spec.caches;
  }

  get plans(): readonly PlanSpec[] {
    return this.#model.spec.plans;
  }

  get logits(): Tensor {
    return this.#model.logits;
  }

  give(): void {}

  forward(batch: StagedBatch, caches: Caches): void {
    this.#model.forward(batch, caches);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#model.computeLogits(batch, first, n);
  }
}
