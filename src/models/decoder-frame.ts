// What every decoder has around its layers: embedding, rotary tables, final norm, logits. A family puts its layers into it.

import type { Device, StagedBatch, Tensor, Weight } from "../device/device.js";
import type { Norm } from "./blocks/norm.js";
import type { Layer } from "./blocks/residual.js";
import type { Rotaries } from "./blocks/rotaries.js";
import type { Vocabulary } from "./blocks/vocabulary.js";
import type { Loader } from "./loader.js";
import type { Caches, InputRows, Model, ModelSpec } from "./model.js";

const NO_INPUTS: readonly InputRows[] = [];

export interface FrameParts {
  readonly spec: ModelSpec;
  readonly vocabulary: Vocabulary;
  /** Learned positions [maxContext, hidden]; null: none. */
  readonly positions?: Weight | null;
  readonly rotaries: Rotaries | null;
  readonly layers: readonly Layer[];
  readonly finalNorm: Norm;
}

export class DecoderFrame implements Model {
  readonly hidden: Tensor; // [T, hidden]
  readonly #device: Device;
  readonly #parts: FrameParts;
  readonly #positions: Weight | null;
  readonly #x: Tensor; // [T, hidden] the residual stream

  constructor(loader: Loader, parts: FrameParts) {
    this.#device = loader.device;
    this.#parts = parts;
    this.#positions = parts.positions ?? null;
    this.#x = loader.activations(parts.spec.hiddenSize);
    this.hidden = loader.activations(parts.spec.hiddenSize);
  }

  get spec(): ModelSpec {
    return this.#parts.spec;
  }

  get logits(): Tensor {
    return this.#parts.vocabulary.logits;
  }

  forward(batch: StagedBatch, caches: Caches, inputs: readonly InputRows[] = NO_INPUTS): void {
    const { vocabulary, rotaries, layers, finalNorm } = this.#parts;
    const x = this.#x;
    vocabulary.embed(x, batch);
    for (let i = 0; i < inputs.length; i++) {
      const { first, count, values } = inputs[i]!;
      this.#device.write(x, first, values, count);
    }
    if (this.#positions !== null) this.#device.addPositions(x, this.#positions, batch);
    rotaries?.fill(batch);
    for (let i = 0; i < layers.length; i++) layers[i]!.run(x, batch, caches);
    finalNorm.run(this.hidden, x, batch.numTokens);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#parts.vocabulary.computeLogits(this.hidden, batch, first, n);
  }
}
