// A head that predicts one token further on, as checkpoints carry it ("multi-token prediction", "nextn"): a layer like the model's own, over the
// embedding of the next token beside the model's hidden state. It shares the model's embedding table and head.
//
//   x = project([norm(embedding of token i + 1), norm(hidden state of i)]);  x = layer(x);  logits = head(norm(x))
//
// Guessing several tokens, it goes on from what it made of the one before.

import type { CacheSpec } from "../../core/cache-spec.js";
import type { StagedBatch, Tensor } from "../../device/device.js";
import { type Linear, loadLinear } from "../blocks/linear.js";
import { loadNorm, type Norm, type NormStyle } from "../blocks/norm.js";
import type { Layer } from "../blocks/residual.js";
import type { Rotaries } from "../blocks/rotaries.js";
import type { Vocabulary } from "../blocks/vocabulary.js";
import type { Loader } from "../loader.js";
import type { Caches, PlanSpec } from "../model.js";
import type { HiddenSource, Predictor } from "./predictor.js";

/** Names of a head's parts; those of its layer follow `layer`. */
export interface MtpNames {
  readonly layer: string;
  readonly embeddingNorm: string;
  readonly hiddenNorm: string;
  readonly project: string;
  /** Before the vocabulary; null: none. */
  readonly finalNorm: string | null;
  /** It goes on from the normed state, not from the stream before the norm. */
  readonly continuesNormed: boolean;
}

/** The names under which one head is stored; a checkpoint has those of one of them, or no head. */
export type MtpNaming = (root: string, numLayers: number) => readonly MtpNames[];

/** DeepSeek-V3, GLM-4.5 and files of llama.cpp: one layer more than the model has. */
export function appendedLayer(root: string, layer: number, continuesNormed = false): MtpNames {
  const name = `${root}layers.${layer}`;
  return {
    layer: name,
    embeddingNorm: `${name}.enorm`,
    hiddenNorm: `${name}.hnorm`,
    project: `${name}.eh_proj`,
    finalNorm: `${name}.shared_head.norm`,
    continuesNormed,
  };
}

export interface MtpParts {
  readonly names: MtpNames;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly norm: NormStyle;
  readonly vocabulary: Vocabulary;
  readonly rotaries: Rotaries;
  readonly layers: readonly Layer[];
  readonly caches: readonly CacheSpec[];
  readonly plans: readonly PlanSpec[];
  /** The model's normed hidden states [T, hidden]. */
  readonly hidden: Tensor;
}

export class MtpHead implements Predictor {
  readonly lead = 1;
  readonly vocabulary = null;
  readonly #loader: Loader;
  readonly #parts: MtpParts;
  readonly #embeddingNorm: Norm;
  readonly #hiddenNorm: Norm;
  readonly #finalNorm: Norm | null;
  readonly #project: Linear; // [hidden, 2 * hidden]
  readonly #both: Tensor; // [T, 2 * hidden] embedding, hidden state
  readonly #embeddings: Tensor; // [T, hidden] view
  readonly #states: Tensor; // [T, hidden] view
  readonly #given: Tensor; // [T, hidden]
  readonly #x: Tensor; // [T, hidden]
  readonly #normed: Tensor; // [T, hidden]

  constructor(loader: Loader, parts: MtpParts) {
    const { names, hiddenSize, norm } = parts;
    this.#loader = loader;
    this.#parts = parts;
    this.#embeddingNorm = loadNorm(loader, names.embeddingNorm, hiddenSize, norm);
    this.#hiddenNorm = loadNorm(loader, names.hiddenNorm, hiddenSize, norm);
    this.#finalNorm = names.finalNorm === null ? null : loadNorm(loader, names.finalNorm, hiddenSize, norm);
    this.#project = loadLinear(loader, [{ name: names.project, rows: hiddenSize }], 2 * hiddenSize);
    this.#both = loader.activations(2 * hiddenSize);
    this.#embeddings = this.#both.columns(0, hiddenSize);
    this.#states = this.#both.columns(hiddenSize, 2 * hiddenSize);
    this.#given = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#normed = this.#finalNorm === null ? this.#x : loader.activations(hiddenSize);
  }

  get vocabSize(): number {
    return this.#parts.vocabSize;
  }

  get caches(): readonly CacheSpec[] {
    return this.#parts.caches;
  }

  get plans(): readonly PlanSpec[] {
    return this.#parts.plans;
  }

  get features(): Tensor {
    return this.#parts.hidden;
  }

  get logits(): Tensor {
    return this.#parts.vocabulary.logits;
  }

  give(features: Float32Array, n: number): void {
    this.#loader.device.write(this.#given, 0, features, n);
  }

  forward(batch: StagedBatch, caches: Caches, source: HiddenSource): void {
    const { vocabulary, rotaries, layers, names, hidden } = this.#parts;
    const n = batch.numTokens;
    const own = names.continuesNormed ? this.#normed : this.#x;
    const states = source === "model" ? hidden : source === "given" ? this.#given : own;
    this.#hiddenNorm.run(this.#states, states, n);
    vocabulary.embed(this.#x, batch);
    this.#embeddingNorm.run(this.#embeddings, this.#x, n);
    this.#project.run(this.#x, this.#both, batch);
    rotaries.fill(batch);
    for (let i = 0; i < layers.length; i++) layers[i]!.run(this.#x, batch, caches);
    this.#finalNorm?.run(this.#normed, this.#x, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#parts.vocabulary.computeLogits(this.#normed, batch, first, n);
  }
}
