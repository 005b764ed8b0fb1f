// Granite mixtures: Granite's multipliers, experts stored in stacks, weights a softmax over the chosen ones alone; some have a dense
// feed-forward that every token shares beside them.

import { ADD, type Block, type Epilogue } from "../blocks/block.js";
import {
  chosenSoftmaxRouter,
  loadExperts,
  loadRouter,
  loadStackedExperts,
  type MixtureConfig,
  MixtureOfExperts,
  readTopK,
  W_EXPERTS,
} from "../blocks/mixture.js";
import { GATED_MLP, loadMlp } from "../blocks/mlp.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, type LayerContext, loadDecoder } from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { readGranite } from "./granite.js";

export interface GraniteMoe {
  /** null: the shared feed-forward alone. */
  readonly mixture: MixtureConfig | null;
  /** Inner size of the feed-forward that every token shares; 0: none. */
  readonly sharedSize: number;
}

interface GraniteMoeConfig extends DecoderConfig {
  readonly moe: GraniteMoe;
}

export const graniteMoe: ModelFamily<GraniteMoeConfig> = family("GraniteMoeForCausalLM", () => 0);
export const graniteMoeShared: ModelFamily<GraniteMoeConfig> = family("GraniteMoeSharedForCausalLM", (c) =>
  c.count("shared_intermediate_size", 0),
);

function family(architecture: string, sharedSize: (c: ConfigReader) => number): ModelFamily<GraniteMoeConfig> {
  return {
    architectures: [architecture],
    parseConfig(raw, file) {
      const c = new ConfigReader(raw, file);
      const config = readGranite(c, architecture);
      return { ...config, moe: { mixture: readGraniteMixture(c, config), sharedSize: sharedSize(c) } };
    },
    specOf: decoderSpec,
    load: (config, context) =>
      loadDecoder(config, context, { feedForward: (layer) => graniteFeedForward(config, config.moe, layer) }),
  };
}

export function readGraniteMixture(c: ConfigReader, config: DecoderConfig): MixtureConfig {
  const numExperts = c.int("num_local_experts", 8);
  return {
    hiddenSize: config.hiddenSize,
    numExperts,
    topK: readTopK(c, numExperts, 2),
    expertSize: config.innerSize,
    activation: c.gatedActivation("hidden_act", "silu"),
  };
}

export function graniteFeedForward(
  config: DecoderConfig,
  { mixture, sharedSize }: GraniteMoe,
  { loader, name, project }: LayerContext,
): Block {
  // GGUF files have gate and up by themselves, Hugging Face has them in one matrix.
  const isJoined = loader.has(`${name}.shared_mlp.input_linear.weight`);
  const naming = isJoined ? { ...GATED_MLP, gateUp: ["input_linear"], down: "output_linear" } : GATED_MLP;
  const shared = (how: Epilogue): Block =>
    loadMlp(loader, `${name}.shared_mlp`, { ...config, innerSize: sharedSize }, naming, how);
  if (mixture === null) return shared(project);
  const moe = `${name}.block_sparse_moe`;
  const weights = {
    router: loadRouter(loader, `${moe}.router.layer`, mixture),
    experts: loader.has(`${moe}.input_linear.weight`)
      ? loadStackedExperts(loader, `${moe}.input_linear.weight`, `${moe}.output_linear.weight`, mixture)
      : loadExperts(loader, name, W_EXPERTS, mixture),
    // What is added to the residual stream is scaled as a whole.
    shared: sharedSize === 0 ? null : shared({ ...ADD, scale: project.scale ?? 1 }),
  };
  return new MixtureOfExperts(loader, mixture.hiddenSize, weights, chosenSoftmaxRouter(mixture), project);
}
