// Families that are Llama with other settings: Mistral, Qwen, Phi-3, SmolLM3, Granite, Mixtral, gpt-oss. Their files state the
// settings; this one turns them into the parts of a decoder.

import type { RopeConfig } from "../formats/rope-config.js";
import { type AttentionNaming, AttentionSpace, loadAttention, SelfAttention } from "./blocks/attention.js";
import { GatedMlp, MlpSpace } from "./blocks/gated-mlp.js";
import { Rotaries } from "./blocks/rotaries.js";
import { type CommonConfig, specOf } from "./common-config.js";
import type { ConfigReader } from "./config-reader.js";
import { Decoder, type DecoderParts } from "./decoder.js";
import type { LoadContext, Model } from "./model.js";
import { readHeadRope, ropeContext } from "./rope.js";

export interface LlamaLikeConfig extends CommonConfig {
  readonly windows: readonly number[]; // [L] 0 is full attention
  readonly rope: RopeConfig;
  readonly hasRope: readonly boolean[]; // [L]
  readonly attention: AttentionNaming;
  readonly attentionScale: number;
  /** One learned logit per head in the softmax (self_attn.sinks). */
  readonly hasSinks: boolean;
  readonly mlpBias: boolean;
  readonly isMlpFused: boolean;
  readonly embeddingScale: number;
  readonly residualScale: number;
  readonly logitsScale: number;
}

/** The settings of Llama; families override what differs. */
export function llamaSettings(c: ConfigReader, common: CommonConfig): LlamaLikeConfig {
  const rope = readHeadRope(c, common.headDim);
  return {
    ...common,
    maxContext: Math.max(common.maxContext, ropeContext(rope)),
    windows: new Array<number>(common.numLayers).fill(0),
    rope,
    hasRope: new Array<boolean>(common.numLayers).fill(true),
    attention: { qkvBias: false, outBias: false, isFused: false, qkNorm: "none", normOffset: 0 },
    attentionScale: common.headDim ** -0.5,
    hasSinks: false,
    mlpBias: false,
    isMlpFused: false,
    embeddingScale: 1,
    residualScale: 1,
    logitsScale: 1,
  };
}

export type FeedForwardMaker = DecoderParts["feedForward"];

export function loadLlamaLike(
  config: LlamaLikeConfig,
  context: LoadContext,
  feedForward: FeedForwardMaker = denseMlp(config),
): Model {
  const spec = specOf(config, config.windows);
  let space: AttentionSpace | null = null;
  return new Decoder(
    config,
    {
      spec,
      embeddingScale: config.embeddingScale,
      logitsScale: config.logitsScale,
      rotaries: (loader) => new Rotaries(loader, [config.rope], config),
      attention: (loader, name, layer, rotaries) => {
        const weights = loadAttention(loader, name, config, config.attention);
        space ??= new AttentionSpace(loader, config);
        return new SelfAttention(loader, space, weights, {
          layer,
          planIndex: spec.windows.indexOf(config.windows[layer]!),
          rotary: config.hasRope[layer] ? rotaries.tables[0]! : null,
          eps: config.eps,
          params: {
            numHeads: config.numHeads,
            scale: config.attentionScale,
            softcap: 0,
            sinks: config.hasSinks ? loader.vector(`${name}.sinks`, config.numHeads) : null,
          },
          project: { accumulate: true, scale: config.residualScale },
        });
      },
      feedForward,
    },
    context,
  );
}

/** The feed-forward of dense layers. */
export function denseMlp(config: LlamaLikeConfig): FeedForwardMaker {
  let space: MlpSpace | null = null;
  return (loader, name) => {
    space ??= new MlpSpace(loader, config.innerSize);
    return new GatedMlp(loader, `${name}.mlp`, space, {
      hiddenSize: config.hiddenSize,
      innerSize: config.innerSize,
      activation: config.activation,
      hasBias: config.mlpBias,
      isFused: config.isMlpFused,
      project: { accumulate: true, scale: config.residualScale },
    });
  };
}
