// The mixtures of Qwen: softmax routers, in most layers, beside a gated expert that every token shares (Qwen2-MoE, Qwen3-Next,
// Qwen3.5-MoE) or without one (Qwen3-MoE).

import type { Block } from "../blocks/block.js";
import {
  GatedSharedExpert,
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MLP_EXPERTS,
  readTopK,
  softmaxRouter,
} from "../blocks/mixture.js";
import { loadMlp } from "../blocks/mlp.js";
import type { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, denseMlp, type LayerContext } from "../decoder.js";

export interface QwenMoe {
  readonly mixture: MixtureConfig;
  readonly normalize: boolean;
  /** Inner size of the shared expert; 0: there is none. */
  readonly sharedSize: number;
  readonly isDense: readonly boolean[]; // [L]
}

export function readQwenMoe(
  c: ConfigReader,
  config: DecoderConfig,
  absent: { numExperts?: number; topK?: number; expertSize?: number; sharedSize?: number; normalize: boolean },
): QwenMoe {
  const numExperts = c.int(c.has("num_experts") ? "num_experts" : "num_local_experts", absent.numExperts);
  const denseLayers = c.has("mlp_only_layers") ? c.ints("mlp_only_layers") : [];
  const step = c.int("decoder_sparse_step", 1);
  return {
    mixture: {
      hiddenSize: config.hiddenSize,
      numExperts,
      topK: readTopK(c, numExperts, absent.topK),
      expertSize: c.int("moe_intermediate_size", absent.expertSize),
      activation: c.gatedActivation("hidden_act", "silu"),
    },
    normalize: c.bool("norm_topk_prob", absent.normalize),
    sharedSize: absent.sharedSize === undefined ? 0 : c.int("shared_expert_intermediate_size", absent.sharedSize),
    isDense: config.windows.map((_, layer) => denseLayers.includes(layer) || (layer + 1) % step !== 0),
  };
}

export function qwenFeedForward(config: DecoderConfig & { readonly moe: QwenMoe }, context: LayerContext): Block {
  const { moe, hiddenSize } = config;
  if (moe.isDense[context.layer]) return denseMlp(config, context);
  const { loader, name, project } = context;
  const weights = {
    router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, moe.mixture),
    experts: loadExperts(loader, name, MLP_EXPERTS, moe.mixture),
    shared: moe.sharedSize === 0 ? null : sharedExpert(config, context),
  };
  return new MixtureOfExperts(loader, hiddenSize, weights, softmaxRouter(moe.mixture, moe.normalize), project);
}

function sharedExpert(config: DecoderConfig & { readonly moe: QwenMoe }, { loader, name }: LayerContext): Block {
  const shape = { ...config, innerSize: config.moe.sharedSize };
  const expert = loadMlp(loader, `${name}.mlp.shared_expert`, shape, config.mlp, {});
  return new GatedSharedExpert(loader, config.hiddenSize, expert, `${name}.mlp.shared_expert_gate`, 1);
}
