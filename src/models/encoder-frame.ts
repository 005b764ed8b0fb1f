// What every encoder has around its layers: embeddings of tokens, types and positions, their norm, and the last norm where there is
// one. The hidden states are the result; there is no head over the vocabulary.

import type { Device, StagedBatch, Tensor, Weight } from "../device/device.js";
import type { HostLayer } from "./blocks/host-layers.js";
import type { Norm } from "./blocks/norm.js";
import type { Layer } from "./blocks/residual.js";
import type { Rotaries } from "./blocks/rotaries.js";
import type { Loader } from "./loader.js";
import type { Caches, Model, ModelSpec } from "./model.js";

export interface EncoderParts {
  readonly spec: ModelSpec;
  readonly words: Weight; // [V, hidden]
  readonly types: Weight | null; // [types, hidden]
  readonly positions: Weight | null; // [maxContext or more, hidden]
  readonly embeddingNorm: Norm;
  readonly rotaries: Rotaries | null;
  readonly layers: readonly Layer[];
  readonly finalNorm: Norm | null;
  readonly scorer: HostLayer | null;
}

export class EncoderFrame implements Model {
  readonly hidden: Tensor; // [T, hidden] the residual stream, and the result
  readonly scorer?: HostLayer;
  readonly #device: Device;
  readonly #parts: EncoderParts;

  constructor(loader: Loader, parts: EncoderParts) {
    this.#device = loader.device;
    this.#parts = parts;
    this.hidden = loader.activations(parts.spec.hiddenSize);
    if (parts.scorer !== null) this.scorer = parts.scorer;
  }

  get spec(): ModelSpec {
    return this.#parts.spec;
  }

  get logits(): Tensor {
    throw new Error("an encoder has no logits");
  }

  forward(batch: StagedBatch, caches: Caches): void {
    const { words, types, positions, embeddingNorm, rotaries, layers, finalNorm } = this.#parts;
    const x = this.hidden;
    this.#device.embed(x, words, batch, 1);
    if (types !== null) this.#device.addTypes(x, types, batch);
    if (positions !== null) this.#device.addPositions(x, positions, batch);
    embeddingNorm.run(x, x, batch.numTokens);
    rotaries?.fill(batch);
    for (let i = 0; i < layers.length; i++) layers[i]!.run(x, batch, caches);
    finalNorm?.run(x, x, batch.numTokens);
  }

  computeLogits(): void {
    throw new Error("an encoder has no logits");
  }
}
