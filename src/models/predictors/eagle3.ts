// An EAGLE-3 head, trained for one model: it reads the residual stream before three of the model's layers, makes one hidden state of them, and puts a
// decoder layer over it whose attention reads the next token's embedding beside it. Its vocabulary may be a part of the model's.
//
//   g = fc([stream before layer a, b, c])                       or, guessing further, what came out of it for the token before
//   x = g + attention([norm(embedding of token i + 1), norm(g)]);  x += mlp(norm(x));  logits = head(norm(x))
//
// Two public formats: SafeAILab's (the layer is `midlayer`) and vLLM's "speculators" (`layers.0`, the config in `transformer_layer_config`).

import type { CacheSpec } from "../../core/cache-spec.js";
import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { CopyHeads, StagedBatch, Tensor, Weight } from "../../device/device.js";
import { isRecord } from "../../formats/json-file.js";
import { SelfAttention } from "../blocks/attention.js";
import { ADD, type Block } from "../blocks/block.js";
import { Linear, loadLinear } from "../blocks/linear.js";
import { GATED_MLP, loadMlp } from "../blocks/mlp.js";
import { loadNorm, type Norm } from "../blocks/norm.js";
import { Residual } from "../blocks/residual.js";
import { Rotaries } from "../blocks/rotaries.js";
import { layoutCaches } from "../cache-layout.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, llamaSettings } from "../decoder.js";
import { Loader } from "../loader.js";
import type { Caches, LoadContext, Model, PlanSpec } from "../model.js";
import type { HiddenSource, Predictor } from "./predictor.js";

/** Streams that a head reads. */
const NUM_TAPS = 3;

export interface Eagle3Config {
  readonly layer: DecoderConfig;
  readonly draftVocabSize: number;
  /** The model's layers before which the stream is read; null: early, middle, late, by the model's depth. */
  readonly taps: readonly number[] | null;
  /** The residual stream begins with the normed state. */
  readonly normsBeforeResidual: boolean;
  readonly hasBias: boolean;
}

/** Whether a config is of such a head, in either format. */
export function isEagle3(raw: Record<string, unknown>): boolean {
  if (raw.speculators_model_type === "eagle3") return true;
  const names = Array.isArray(raw.architectures) ? raw.architectures : [];
  return names.some((name) => /eagle-?3/i.test(String(name)));
}

export function readEagle3(raw: Record<string, unknown>, file: string): Eagle3Config {
  const inner = isRecord(raw.transformer_layer_config) ? raw.transformer_layer_config : raw;
  const c = new ConfigReader({ num_hidden_layers: 1, ...inner }, file);
  c.only("num_hidden_layers", 1);
  const whole = new ConfigReader(raw, file);
  const layer = llamaSettings(c, readCommon(c, "Eagle3"));
  const stated = raw.eagle_aux_hidden_state_layer_ids ?? nested(raw.eagle_config, "eagle_aux_hidden_state_layer_ids");
  const isList = Array.isArray(stated) && stated.length === NUM_TAPS && stated.every((id) => Number.isSafeInteger(id));
  if (stated != null) whole.check(isList, "eagle_aux_hidden_state_layer_ids", `${NUM_TAPS} layers`);
  return {
    layer,
    draftVocabSize: whole.int("draft_vocab_size", layer.vocabSize),
    taps: stated == null ? null : (stated as number[]),
    normsBeforeResidual: whole.bool("norm_before_residual", false),
    hasBias: c.bool("attention_bias", false),
  };
}

function nested(value: unknown, field: string): unknown {
  return isRecord(value) ? value[field] : undefined;
}

/** The model's layers before which the stream is read. */
export function tapsOf({ taps }: Eagle3Config, numLayers: number): readonly number[] {
  return taps ?? [2, Math.floor(numLayers / 2), numLayers - 3];
}

export class Eagle3Head implements Predictor {
  readonly lead = 1;
  readonly vocabulary: Int32Array | null;
  readonly caches: readonly CacheSpec[];
  readonly plans: readonly PlanSpec[];
  readonly features: Tensor; // [T, 3 * hidden of the model]
  readonly logits: Tensor; // [maxLogitRows, its vocabulary]
  readonly vocabSize: number;
  readonly #config: Eagle3Config;
  readonly #loader: Loader;
  /** Its own embedding table; null: the model's. */
  readonly #table: Weight | null;
  readonly #model: Model;
  readonly #fuse: Linear; // [hidden, 3 * hidden of the model]
  readonly #embeddingNorm: Norm;
  readonly #hiddenNorm: Norm;
  readonly #rotaries: Rotaries;
  readonly #attention: Block;
  readonly #mlp: Residual;
  readonly #finalNorm: Norm;
  readonly #head: Linear;
  readonly #both: Tensor; // [T, 2 * hidden] embedding, hidden state
  readonly #embeddings: Tensor; // [T, hidden] view
  readonly #states: Tensor; // [T, hidden] view
  readonly #given: Tensor; // [T, 3 * hidden of the model]
  readonly #fused: Tensor; // [T, hidden]
  readonly #x: Tensor; // [T, hidden]
  readonly #normed: Tensor; // [T, hidden]
  readonly #rows: Tensor; // [maxLogitRows, hidden]
  /** All columns, copied. */
  readonly #whole: CopyHeads;

  /** `model` was loaded with the head's taps. */
  constructor(config: Eagle3Config, context: LoadContext, model: Model) {
    const loader = new Loader(context);
    const { device } = loader;
    const { layer } = config;
    const { hiddenSize, numHeads, numKvHeads, headDim, vocabSize } = layer;
    const root = loader.has("model.fc.weight") ? "model." : "";
    const name = `${root}${loader.has(`${root}midlayer.hidden_norm.weight`) ? "midlayer" : "layers.0"}`;
    const norm = (part: string): Norm => loadNorm(loader, part, hiddenSize, layer.norm);
    const { caches, plans, places } = layoutCaches([
      { numHeads, numKvHeads, keyDim: headDim, valueDim: headDim, window: 0 },
    ]);
    this.#config = config;
    this.#loader = loader;
    this.#model = model;
    this.caches = caches;
    this.plans = plans;
    this.vocabSize = vocabSize;
    this.features = model.taps!;
    const embedding = `${root}embed_tokens.weight`;
    this.#table = loader.has(embedding) ? loader.table(embedding, vocabSize, hiddenSize) : null;
    this.#fuse = loadLinear(loader, [{ name: `${root}fc`, rows: hiddenSize }], this.features.cols);
    this.#embeddingNorm = norm(`${name}.input_layernorm`);
    this.#hiddenNorm = norm(`${name}.hidden_norm`);
    this.#rotaries = new Rotaries(loader, layer.ropes, { headDim, maxContext: layer.maxContext });
    this.#attention = this.#loadAttention(`${name}.self_attn`, places[0]!);
    const mlp = loadMlp(loader, `${name}.mlp`, layer, GATED_MLP, ADD, layer.norm);
    this.#mlp = new Residual(loader, hiddenSize, norm(`${name}.post_attention_layernorm`), mlp, null);
    this.#finalNorm = norm(`${root}norm`);
    const head = loader.vocabulary("lm_head.weight", config.draftVocabSize, hiddenSize, "head");
    this.#head = new Linear(device, head, null);
    this.vocabulary = loader.has("d2t") ? this.#readIds() : null;
    this.#both = loader.activations(2 * hiddenSize);
    this.#embeddings = this.#both.columns(0, hiddenSize);
    this.#states = this.#both.columns(hiddenSize, 2 * hiddenSize);
    this.#given = loader.activations(this.features.cols);
    this.#fused = loader.activations(hiddenSize);
    this.#x = loader.activations(hiddenSize);
    this.#normed = loader.activations(hiddenSize);
    this.#whole = {
      numHeads: 1,
      width: hiddenSize,
      outHead: hiddenSize,
      outOffset: 0,
      inHead: hiddenSize,
      inOffset: 0,
    };
    this.#rows = device.allocTensor(loader.capacity.maxLogitRows, hiddenSize);
    this.logits = device.allocTensor(loader.capacity.maxLogitRows, config.draftVocabSize);
  }

  give(features: Float32Array, n: number): void {
    this.#loader.device.write(this.#given, 0, features, n);
  }

  forward(batch: StagedBatch, caches: Caches, source: HiddenSource): void {
    const { device } = this.#loader;
    const n = batch.numTokens;
    let states = this.#x;
    if (source !== "own") {
      states = this.#fused;
      this.#fuse.run(states, source === "model" ? this.features : this.#given, batch);
    }
    this.#hiddenNorm.run(this.#states, states, n);
    if (this.#config.normsBeforeResidual) this.#hiddenNorm.run(this.#x, states, n);
    else if (states !== this.#x) device.copyHeads(this.#x, states, this.#whole, n);
    if (this.#table === null) this.#model.embed!(this.#normed, batch);
    else device.embed(this.#normed, this.#table, batch, 1);
    this.#embeddingNorm.run(this.#embeddings, this.#normed, n);
    this.#rotaries.fill(batch);
    this.#attention.run(this.#x, this.#both, batch, caches);
    this.#mlp.run(this.#x, batch, caches);
    this.#finalNorm.run(this.#normed, this.#x, n);
  }

  computeLogits(batch: StagedBatch, first: number, n: number): void {
    this.#loader.device.gatherLogitRows(this.#rows, this.#normed, batch, first, n);
    this.#head.run(this.logits, this.#rows, batch, n, first);
  }

  #loadAttention(name: string, place: NonNullable<ReturnType<typeof layoutCaches>["places"][number]>): Block {
    const loader = this.#loader;
    const { layer, hasBias } = this.#config;
    const { hiddenSize, numHeads, numKvHeads, headDim } = layer;
    const [q, kv] = [numHeads * headDim, numKvHeads * headDim];
    const parts = [
      { name: `${name}.q_proj`, rows: q },
      { name: `${name}.k_proj`, rows: kv },
      { name: `${name}.v_proj`, rows: kv },
    ];
    const weights = {
      qkv: loadLinear(loader, parts, 2 * hiddenSize, { hasBias }),
      out: loadLinear(loader, [{ name: `${name}.o_proj`, rows: hiddenSize }], q, { hasBias, project: ADD }),
      ...{ qNorm: null, kNorm: null, outNorm: null, hasGate: false },
    };
    return new SelfAttention(loader, layer, weights, {
      place,
      rotary: this.#rotaries.tables[0]!,
      isNormedAfterRotary: false,
      queryScale: null,
      keyScale: 1,
      params: { numHeads, scale: layer.attentionScale, softcap: 0, sinks: null },
    });
  }

  /** The model's id of each of its own, stored as the difference. */
  #readIds(): Int32Array {
    const { draftVocabSize } = this.#config;
    const offsets = toFloat32(this.#loader.host("d2t", [draftVocabSize]));
    return Int32Array.from(offsets, (offset, id) => id + offset);
  }
}
