// The fields that nearly every family has, under the names that most of them use.

import type { Activation } from "../device/device.js";
import type { RopeConfig } from "../formats/rope-config.js";
import type { CacheLayout } from "./cache-layout.js";
import { type ConfigReader, MAX_LAYERS } from "./config-reader.js";
import type { ModelSpec } from "./model.js";

export interface CommonConfig {
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly numLayers: number; // L
  readonly numHeads: number; // H
  readonly numKvHeads: number; // K
  readonly headDim: number; // D
  readonly innerSize: number;
  readonly vocabSize: number; // V
  readonly maxContext: number;
  readonly eps: number;
  readonly activation: Activation;
  /** The head is the embedding table. */
  readonly isTied: boolean;
}

/** `absent` are the family's defaults in Hugging Face, for fields that configs leave out. */
export function readCommon(
  c: ConfigReader,
  architecture: string,
  absent: {
    eps?: number;
    epsField?: string;
    isTied?: boolean;
    headDim?: number;
    activation?: string;
    ropeDim?: number;
  } = {},
): CommonConfig {
  refuseQuantization(c);
  const hiddenSize = c.int("hidden_size");
  const numHeads = c.int("num_attention_heads");
  const numKvHeads = c.int("num_key_value_heads", numHeads);
  c.check(numHeads % numKvHeads === 0, "num_key_value_heads", `a divisor of num_attention_heads (${numHeads})`);
  const headDim = c.int("head_dim", absent.headDim ?? hiddenSize / numHeads);
  // Pairs are turned; the rest of a head may be odd.
  if (absent.ropeDim === undefined) c.check(headDim % 2 === 0, "head_dim", "an even number");
  else c.check(absent.ropeDim % 2 === 0, "qk_rope_head_dim", "an even number");
  return {
    architecture,
    hiddenSize,
    numLayers: c.int("num_hidden_layers", undefined, MAX_LAYERS),
    numHeads,
    numKvHeads,
    headDim,
    innerSize: c.int("intermediate_size"),
    vocabSize: c.int("vocab_size"),
    maxContext: c.int("max_position_embeddings"),
    eps: c.number(absent.epsField ?? "rms_norm_eps", absent.eps ?? 1e-6),
    activation: c.activation(
      c.has("hidden_activation") ? "hidden_activation" : "hidden_act",
      absent.activation ?? "silu",
    ),
    isTied: c.bool("tie_word_embeddings", absent.isTied ?? false),
  };
}

/** A reader of quantised checkpoints (src/formats) takes the field away once it can serve the tensors. */
export function refuseQuantization(c: ConfigReader): void {
  if (!c.has("quantization_config")) return;
  const { quant_method: method } = c.raw.quantization_config as Record<string, unknown>;
  throw c.refuse("quantization_config.quant_method", method ?? "unnamed", "none for this checkpoint");
}

export function specOf(config: CommonConfig, layout: CacheLayout, ropes: readonly RopeConfig[]): ModelSpec {
  const longrope = ropes.find((rope) => rope.type === "longrope");
  return {
    architecture: config.architecture,
    numLayers: config.numLayers,
    hiddenSize: config.hiddenSize,
    numHeads: config.numHeads,
    vocabSize: config.vocabSize,
    maxContext: config.maxContext,
    caches: layout.caches,
    plans: layout.plans,
    ...(longrope?.type === "longrope" ? { shortContext: longrope.originalMaxPosition } : {}),
  };
}
