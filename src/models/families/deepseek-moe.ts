// The mixtures of DeepSeek and of what followed it: from some layer on, experts chosen from the best groups, beside experts that
// every token shares. Scores are sigmoids with a bias for the choice (V3, GLM-4.5, ERNIE by softmax) or a plain softmax (V2, Mistral 4).

import type { RouterSpec } from "../../device/device.js";
import { ADD, type Block } from "../blocks/block.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  MixtureOfExperts,
  MLP_EXPERTS,
  readTopK,
} from "../blocks/mixture.js";
import { loadMlp } from "../blocks/mlp.js";
import type { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, denseMlp, type LayerContext } from "../decoder.js";

export interface DeepseekMoe {
  readonly mixture: MixtureConfig;
  readonly router: Omit<RouterSpec, "bias">;
  /** Name under the layer of the bias for the choice, with its shape; null: none. */
  readonly bias: { readonly name: string; readonly rows: number } | null;
  /** Inner size of the experts that every token shares; 0: none. */
  readonly sharedSize: number;
  readonly isDense: readonly boolean[]; // [L]
}

export const V3_BIAS = { name: "mlp.gate.e_score_correction_bias", rows: 0 };

/** `absent`: the family's defaults. Families override what they do otherwise. */
export function readDeepseekMoe(
  c: ConfigReader,
  { hiddenSize, numLayers }: DecoderConfig,
  absent: {
    numExperts?: number;
    topK?: number;
    expertSize?: number;
    numShared?: number;
    numDense?: number;
    scale?: number;
    numGroups?: number;
    topkGroup?: number;
  },
): DeepseekMoe {
  const numExperts = c.int("n_routed_experts", absent.numExperts);
  const topK = readTopK(c, numExperts, absent.topK);
  const expertSize = c.int("moe_intermediate_size", absent.expertSize);
  const numGroups = c.int("n_group", absent.numGroups ?? 1);
  const topkGroup = c.int("topk_group", absent.topkGroup ?? 1);
  const size = numExperts / numGroups;
  c.check(Number.isInteger(size), "n_group", `a divisor of n_routed_experts (${numExperts})`);
  c.check(topkGroup <= numGroups && topkGroup * size >= topK, "topk_group", `groups that hold ${topK} experts`);
  const numDense = c.count("first_k_dense_replace", absent.numDense ?? 0);
  return {
    mixture: { hiddenSize, numExperts, topK, expertSize, activation: c.gatedActivation("hidden_act", "silu") },
    router: {
      numExperts,
      topK,
      score: "sigmoid",
      normalize: c.bool("norm_topk_prob", true),
      scale: c.number("routed_scaling_factor", absent.scale ?? 1),
      numGroups,
      topkGroup,
    },
    bias: V3_BIAS,
    sharedSize: expertSize * c.count("n_shared_experts", absent.numShared ?? 0),
    isDense: Array.from({ length: numLayers }, (_, layer) => layer < numDense),
  };
}

export function deepseekFeedForward(
  config: DecoderConfig & { readonly moe: DeepseekMoe },
  context: LayerContext,
): Block {
  const { mixture, router, sharedSize, isDense, bias } = config.moe;
  if (isDense[context.layer]) return denseMlp(config, context);
  const { loader, name, project } = context;
  const sharedShape = { ...config, innerSize: sharedSize };
  const weights = {
    router: loadRouter(loader, `${name}.${MLP_EXPERTS.router}`, mixture),
    experts: loadExperts(loader, name, MLP_EXPERTS, mixture),
    shared: sharedSize === 0 ? null : loadMlp(loader, `${name}.mlp.shared_experts`, sharedShape, config.mlp, ADD),
  };
  const { numExperts } = mixture;
  const biasTensor =
    bias === null
      ? null
      : bias.rows === 0
        ? loader.vector(`${name}.${bias.name}`, numExperts)
        : loader.rows(`${name}.${bias.name}`, bias.rows, numExperts);
  return new MixtureOfExperts(loader, config.hiddenSize, weights, { ...router, bias: biasTensor }, project);
}
