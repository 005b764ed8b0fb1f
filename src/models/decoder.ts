// The decoder most families are: attention and feed-forward in turn, added to a residual stream. `DecoderConfig` is what they
// differ in; a family's file states its settings, and brings a block of its own where a setting does not do.

import type { PositionScale, RotaryTable, Tensor } from "../device/device.js";
import type { RopeConfig } from "../formats/rope-config.js";
import { type AttentionSettings, loadAttention, PLAIN_ATTENTION, SelfAttention } from "./blocks/attention.js";
import type { Block, Epilogue } from "./blocks/block.js";
import { type LatentShape, latentNeed } from "./blocks/latent-attention.js";
import { GATED_MLP, loadMlp, type MlpNaming } from "./blocks/mlp.js";
import { loadNorm, type Norm, type NormStyle, rmsStyle } from "./blocks/norm.js";
import { type Layer, ParallelResidual, Residual } from "./blocks/residual.js";
import { Rotaries } from "./blocks/rotaries.js";
import { Vocabulary } from "./blocks/vocabulary.js";
import { type LayerCacheRef, type LayerStateRef, layoutBidirectional, layoutCaches } from "./cache-layout.js";
import { type CommonConfig, specOf } from "./common-config.js";
import { ConfigReader } from "./config-reader.js";
import { DecoderFrame } from "./decoder-frame.js";
import { Loader } from "./loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "./model.js";
import { MtpHead, type MtpNames, type MtpNaming } from "./predictors/mtp.js";
import { readHeadRope, ropeContext } from "./rope.js";

/** Norms around a block, by their names under the layer; null: none there. */
export interface NormNames {
  readonly before: string | null;
  readonly after: string | null;
}

export interface DecoderConfig extends CommonConfig {
  /** Size of the value heads: other than headDim in latent attention. */
  readonly valueDim: number; // Dv
  /** Latent attention: what the layers keep is not heads. */
  readonly latent?: LatentShape;
  /** Size of the heads, or of the part of them that is rotated on its own. */
  readonly ropeDim: number;
  readonly windows: readonly number[]; // [L] 0 is full attention
  /** Tokens see their own chunk of this many tokens and no more; 0 is off. */
  readonly attentionChunks: readonly number[]; // [L]
  /** [L] see PlanSpec; left out: as far ahead as back. */
  readonly mostAhead?: readonly number[];
  /** Layers whose attention is a recurrence: numbers of state of each; 0: the layer keeps keys and values. */
  readonly stateFloats: readonly number[]; // [L]
  /** Layers with a recurrence have attention too, side by side with it. */
  readonly hasBothMixers: boolean;
  /** Tokens see the text after them too; left out: they do not. */
  readonly isBidirectional?: boolean;
  readonly ropes: readonly RopeConfig[];
  readonly ropeOf: readonly (number | null)[]; // [L] index into ropes; null: the layer has no rotary embedding
  readonly isRopeInterleaved: boolean;
  readonly norm: NormStyle;
  readonly attentionNorms: NormNames;
  readonly mlpNorms: NormNames;
  /** Attention and feed-forward both read x as it was; without a norm of its own the feed-forward reads attention's input. */
  readonly isParallel: boolean;
  readonly attention: AttentionSettings;
  readonly attentionScale: number;
  /** Queries grow with their position; null: they do not. */
  readonly queryScales: readonly (PositionScale | null)[]; // [L]
  readonly keyScale: number;
  readonly attentionSoftcap: number;
  /** One learned logit per head in the softmax (self_attn.sinks). */
  readonly hasSinks: boolean;
  readonly mlp: MlpNaming;
  readonly embeddingScale: number;
  readonly residualScale: number;
  readonly logitsScale: number;
  readonly finalSoftcap: number;
  readonly hasHeadBias: boolean;
  readonly names: DecoderNames;
  /** How checkpoints store a head that predicts one token further; left out: none does. */
  readonly mtp?: MtpNaming;
}

/** Names of the parts; those of the model follow its prefix, those of a layer follow the layer's. */
export interface DecoderNames {
  readonly embedding: string;
  readonly layers: string;
  readonly finalNorm: string;
  readonly attention: string;
  readonly mlp: string;
  /** Beside the model, not in it. */
  readonly head: string;
}

/** The settings of Llama; families override what differs. */
export function llamaSettings(c: ConfigReader, common: CommonConfig, ropeDim = common.headDim): DecoderConfig {
  const rope = readHeadRope(c, ropeDim);
  return {
    ...common,
    valueDim: common.headDim,
    ropeDim,
    maxContext: Math.max(common.maxContext, ropeContext(rope)),
    windows: new Array<number>(common.numLayers).fill(0),
    attentionChunks: new Array<number>(common.numLayers).fill(0),
    stateFloats: new Array<number>(common.numLayers).fill(0),
    hasBothMixers: false,
    ropes: [rope],
    ropeOf: new Array<number>(common.numLayers).fill(0),
    isRopeInterleaved: false,
    norm: rmsStyle(common.eps),
    attentionNorms: { before: "input_layernorm", after: null },
    mlpNorms: { before: "post_attention_layernorm", after: null },
    isParallel: false,
    attention: PLAIN_ATTENTION,
    attentionScale: 1 / Math.sqrt(common.headDim),
    queryScales: new Array<null>(common.numLayers).fill(null),
    keyScale: 1,
    attentionSoftcap: 0,
    hasSinks: false,
    mlp: GATED_MLP,
    embeddingScale: 1,
    residualScale: 1,
    logitsScale: 1,
    finalSoftcap: 0,
    hasHeadBias: false,
    names: {
      embedding: "embed_tokens",
      layers: "layers",
      finalNorm: "norm",
      attention: "self_attn",
      mlp: "mlp",
      head: "lm_head.weight",
    },
  };
}

/** A family that is settings alone. `absent`: what Hugging Face takes for fields that a config leaves out. */
export function plainFamily(
  architecture: string,
  settings: (c: ConfigReader, architecture: string) => DecoderConfig,
  absent: Record<string, unknown> = {},
): ModelFamily<DecoderConfig> {
  return {
    architectures: [architecture],
    parseConfig: (raw, file) => settings(new ConfigReader({ ...absent, ...raw }, file), architecture),
    specOf: decoderSpec,
    load: (config, context) => loadDecoder(config, context),
  };
}

/** One setting of the bias of all four projections of attention. */
export function attentionBias(plain: DecoderConfig, bias: boolean): AttentionSettings {
  return { ...plain.attention, qkvBias: bias, outBias: bias };
}

function attentionNeed(config: DecoderConfig) {
  const { numHeads, numKvHeads, headDim: keyDim, valueDim } = config;
  return config.latent === undefined ? { numHeads, numKvHeads, keyDim, valueDim } : latentNeed(config.latent);
}

function cachesOf(config: DecoderConfig) {
  const need = attentionNeed(config);
  if (config.isBidirectional === true)
    return layoutBidirectional(config.windows.map((window) => ({ ...need, window })));
  const needs = config.windows.map((window, layer) =>
    config.stateFloats[layer]! > 0 && !config.hasBothMixers
      ? null
      : { ...need, window, attentionChunk: config.attentionChunks[layer]!, ...aheadOfLayer(config, layer) },
  );
  return layoutCaches(needs, config.stateFloats);
}

function aheadOfLayer({ mostAhead }: DecoderConfig, layer: number): { mostAhead?: number } {
  return mostAhead === undefined ? {} : { mostAhead: mostAhead[layer]! };
}

export function decoderSpec(config: DecoderConfig): ModelSpec {
  const spec = specOf(config, cachesOf(config), config.ropes);
  return config.isBidirectional === true ? { ...spec, task: "embed", isBidirectional: true } : spec;
}

/** What a block of a layer is made from. */
export interface LayerContext {
  readonly loader: Loader;
  /** Prefix of the layer's tensors. */
  readonly name: string;
  readonly layer: number;
  /** null: the layer is a recurrence, whose state is in `state`. */
  readonly place: LayerCacheRef | null;
  readonly state: LayerStateRef | null;
  readonly rotary: RotaryTable | null;
  readonly project: Epilogue;
}

/** Blocks that a family brings itself. */
export interface DecoderParts {
  attention?(context: LayerContext): Block;
  feedForward?(context: LayerContext): Block;
  /** Of a head that predicts further tokens; left out: as in the model's last layer. */
  headFeedForward?(context: LayerContext): Block;
}

export function loadDecoder(config: DecoderConfig, context: LoadContext, parts: DecoderParts = {}): Model {
  const loader = new Loader(context);
  const { names, hiddenSize } = config;
  const root = loader.decoderPrefix(`${names.embedding}.weight`);
  const { places, states } = cachesOf(config);
  const vocabulary = new Vocabulary(loader, {
    ...config,
    embedding: `${root}${names.embedding}.weight`,
    head: config.isTied ? null : loader.headName(names.head),
    softcap: config.finalSoftcap,
  });
  const rotaries = new Rotaries(loader, config.ropes, {
    headDim: config.ropeDim,
    maxContext: config.maxContext,
    isInterleaved: config.isRopeInterleaved,
  });
  const attention = parts.attention ?? ((layer) => plainAttention(config, layer));
  const feedForward = parts.feedForward ?? ((layer) => denseMlp(config, layer));
  const layers = config.windows.flatMap((_, layer) => {
    const rope = config.ropeOf[layer]!;
    const name = `${root}${names.layers}.${layer}`;
    const rotary = rope === null ? null : rotaries.tables[rope]!;
    const own = { loader, name, layer, place: places[layer]!, state: states[layer]!, rotary };
    return loadLayer(config, own, attention, feedForward);
  });
  const finalNorm = loadNorm(loader, `${root}${names.finalNorm}`, hiddenSize, config.norm);
  const frame = new DecoderFrame(loader, {
    spec: decoderSpec(config),
    ...(context.taps === undefined ? {} : { taps: context.taps }),
    vocabulary,
    rotaries,
    layers,
    stepsPerLayer: config.isParallel ? 1 : 2,
    finalNorm,
  });
  const headNames = context.withHead === true ? mtpNames(config, loader, root) : undefined;
  if (headNames === undefined) return frame;
  // Of the kind of the model's last layer.
  const layer = config.numLayers - 1;
  const rope = config.ropeOf[layer]!;
  const rotary = rope === null ? null : rotaries.tables[rope]!;
  const layout = layoutCaches([{ ...attentionNeed(config), window: config.windows[layer]! }]);
  const own = { loader, name: headNames.layer, layer, place: layout.places[0]!, state: null, rotary };
  frame.predictor = new MtpHead(loader, {
    ...{ names: headNames, vocabSize: config.vocabSize, hiddenSize, norm: config.norm, vocabulary, rotaries },
    layers: loadLayer(config, own, attention, parts.headFeedForward ?? feedForward),
    ...{ caches: layout.caches, plans: layout.plans, hidden: frame.hidden },
  });
  return frame;
}

/** The names of the head that the checkpoint has; undefined: it has none. */
function mtpNames(config: DecoderConfig, loader: Loader, root: string): MtpNames | undefined {
  return config.mtp?.(root, config.numLayers).find(({ project }) => loader.has(`${project}.weight`));
}

/** The steps of one layer: two halves, or one of both. */
function loadLayer(
  config: DecoderConfig,
  own: Omit<LayerContext, "project">,
  attention: (context: LayerContext) => Block,
  feedForward: (context: LayerContext) => Block,
): readonly Layer[] {
  const { loader, name } = own;
  const { hiddenSize, residualScale, attentionNorms, mlpNorms } = config;
  const norm = (part: string | null): Norm | null =>
    part === null ? null : loadNorm(loader, `${name}.${part}`, hiddenSize, config.norm);
  const contextFor = (norms: NormNames): LayerContext => ({
    ...own,
    project: norms.after === null ? { accumulate: true, scale: residualScale } : {},
  });
  if (config.isParallel) {
    const both = [
      { norm: norm(attentionNorms.before), block: attention(contextFor(attentionNorms)) },
      { norm: norm(mlpNorms.before), block: feedForward(contextFor(mlpNorms)) },
    ];
    return [new ParallelResidual(loader, hiddenSize, both)];
  }
  const half = (norms: NormNames, make: (context: LayerContext) => Block): Residual =>
    new Residual(loader, hiddenSize, norm(norms.before), make(contextFor(norms)), norm(norms.after));
  return [half(attentionNorms, attention), half(mlpNorms, feedForward)];
}

/** Self-attention as the settings describe it. */
export function plainAttention(config: DecoderConfig, context: LayerContext): Block {
  const { loader, layer, place, rotary, project } = context;
  const name = `${context.name}.${config.names.attention}`;
  const sinks: Tensor | null = config.hasSinks ? loader.vector(`${name}.sinks`, config.numHeads) : null;
  const weights = loadAttention(loader, name, config, config.attention, config.norm, project);
  return new SelfAttention(loader, config, weights, {
    place: place!,
    rotary,
    isNormedAfterRotary: config.attention.isNormedAfterRotary,
    queryScale: config.queryScales[layer]!,
    keyScale: config.keyScale,
    params: { numHeads: config.numHeads, scale: config.attentionScale, softcap: config.attentionSoftcap, sinks },
  });
}

/** The feed-forward of dense layers. */
export function denseMlp(config: DecoderConfig, { loader, name, project }: LayerContext): Block {
  return loadMlp(loader, `${name}.${config.names.mlp}`, config, config.mlp, project, config.norm);
}
