// What the engine knows of a model: its shape, and one straight-line forward over the ragged batch.

import type { CacheSpec } from "../core/cache-spec.js";
import type { Pooling } from "../core/pooling.js";
import type { TensorSource } from "../core/tensor.js";
import type { Device, KvPool, StagedBatch, StatePool, Tensor, WeightQuantization } from "../device/device.js";
import type { HostLayer } from "./blocks/host-layers.js";
import type { Bounds, Linear } from "./blocks/linear.js";
import type { Predictor } from "./predictors/predictor.js";

/** One attention plan of each step: which group's pages it walks, and what a token sees of them. */
export interface PlanSpec {
  readonly group: number;
  readonly numHeads: number; // H
  /** 0: everything before the token. */
  readonly window: number;
  /** Chunked attention (core/attention-plan.ts); 0, or left out, is none. */
  readonly attentionChunk?: number;
  /** Most keys it sees ahead, of media whose tokens see each other (core/attention-plan.ts); left out: as many as back. */
  readonly mostAhead?: number;
}

/** The pools of a model's groups, in the order of `ModelSpec.caches`. */
export type Caches = readonly (KvPool | StatePool)[];

/** The shape of a model, as far as the cache, the plan and the borders need it. */
export interface ModelSpec {
  readonly architecture: string;
  readonly numLayers: number; // L
  readonly hiddenSize: number;
  readonly numHeads: number; // H
  readonly vocabSize: number; // V
  readonly maxContext: number;
  readonly caches: readonly CacheSpec[];
  /** The engine makes one attention plan for each, in order. */
  readonly plans: readonly PlanSpec[];
  /** What the checkpoint is for; left out: generating. Models with other tasks have no logits worth having. */
  readonly task?: "embed" | "score";
  /** Tokens see the text after them too: it is computed in one step, and nothing of it is kept. */
  readonly isBidirectional?: boolean;
  /** Of a model that scores texts: what its scorer gives, and of which hidden state. */
  readonly numLabels?: number;
  readonly scorePooling?: Pooling;
  /** The longest context that longrope's short factors serve; the capacity's maxContext decides which set is loaded. */
  readonly shortContext?: number;
}

/** Most tokens of one step, and most logit rows of one computeLogits call: sizes the activations, once. */
export interface ModelCapacity {
  readonly maxTokens: number;
  readonly maxLogitRows: number;
  /** Layers after which rows of pictures are added to hidden states; left out: none. */
  readonly deeperRows?: number;
  /** The longest sequence that will run, when it is less than the model's own limit: longrope chooses its factors by it. */
  readonly maxContext?: number;
}

/** Rows that stand for the embeddings of tokens [first, first + count) of the batch. */
export interface InputRows {
  readonly first: number;
  readonly count: number;
  readonly values: Float32Array; // [count, hidden]
  /** Added to the tokens' hidden states after each of the first layers; left out: nothing. */
  readonly deeper?: readonly Float32Array[]; // of [count, hidden]
}

/** Tokens [first, first + count) of the batch that stand in a picture, or behind one: they have a position on each of three axes. */
export interface PositionRows {
  readonly first: number;
  readonly count: number;
  readonly positions: Int32Array; // [count, 3]
}

export interface Model {
  readonly spec: ModelSpec;
  /** Final hidden states, normed [T, hidden]; valid after forward (embeddings read them). */
  readonly hidden: Tensor;
  /** Logits [maxLogitRows, V]; its first n rows are valid after computeLogits. Models that do not generate have none. */
  readonly logits: Tensor;
  /** A head that the checkpoint carries, where it was asked for and is there. */
  readonly predictor?: Predictor;
  /** The residual stream before the layers that were asked for, side by side [T, layers * hidden]; valid after forward. */
  readonly taps?: Tensor;
  /** out[t] = embedding of the batch's token t, for heads that have no table of their own. */
  embed?(out: Tensor, batch: StagedBatch): void;
  /** Of models with labels: from a pooled hidden state to one number for each, before any activation. */
  readonly scorer?: HostLayer;
  /**
   * Appends what the batch's tokens leave to the caches and computes the hidden states of all T tokens. `inputs` takes the place of the embeddings
   * of those tokens, `places` that of their positions; bidirectional models take neither.
   */
  forward(batch: StagedBatch, caches: Caches, inputs?: readonly InputRows[], places?: readonly PositionRows[]): void;
  /** Logits of the batch's logit rows [first, first + n), n <= maxLogitRows; after forward. */
  computeLogits(batch: StagedBatch, first: number, n: number): void;
}

export interface LoadContext {
  readonly device: Device;
  readonly source: TensorSource;
  readonly capacity: ModelCapacity;
  readonly quantize: WeightQuantization;
  /** Loads the head that predicts further tokens, too. */
  readonly withHead?: boolean;
  /** Keeps the residual stream before these layers. */
  readonly taps?: readonly number[];
  /** Filled with the Linears that adapters may attach to. */
  readonly linears?: Linear[];
  /** Of matrices, by name, that keep what they take and give between bounds; omitted: none does. */
  readonly bounds?: (name: string) => Bounds | null;
  /** A part that keeps pages of its own (a tower) has them in f32, though the device is faster with others. */
  readonly hasExactPages?: boolean;
  /** Called as tensors are handed over, for progress. */
  readonly onTensor?: (bytes: number) => void;
}

/** A family: reads its config once into a spec, then loads. `Config` is the family's own parsed configuration. */
export interface ModelFamily<Config = unknown> {
  /** Names in config.json `architectures`; GGUF files arrive with the same ones (src/formats/gguf/gguf-config.ts). */
  readonly architectures: readonly string[];
  /** Checks every field it relies on; throws FormatError unsupported_model_option for what it cannot honour. */
  parseConfig(raw: Record<string, unknown>, file: string): Config;
  specOf(config: Config): ModelSpec;
  load(config: Config, context: LoadContext): Model;
  /** Tensors that a checkpoint may hold and the forward has no use for, beside those of read-check.ts. */
  ignoredTensors?(config: Config): readonly RegExp[];
}
