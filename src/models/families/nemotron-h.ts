// Nemotron-H and Nemotron 3 Nano: each layer is one thing: a Mamba-2 mixer, attention without rotary embedding, a feed-forward
// without a gate, or a mixture of such feed-forwards.

import { ADD, type Block } from "../blocks/block.js";
import { Mamba2Mixer, type Mamba2Shape, mamba2Floats } from "../blocks/mamba2.js";
import { loadRouter, loadUngatedExperts, MixtureOfExperts } from "../blocks/mixture.js";
import { loadMlp } from "../blocks/mlp.js";
import { loadNorm } from "../blocks/norm.js";
import { Residual } from "../blocks/residual.js";
import { Vocabulary } from "../blocks/vocabulary.js";
import { type CacheLayout, layoutCaches } from "../cache-layout.js";
import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, type LayerContext, llamaSettings, plainAttention } from "../decoder.js";
import { DecoderFrame } from "../decoder-frame.js";
import { readLayerTypes } from "../layer-windows.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily } from "../model.js";
import { type DeepseekMoe, readDeepseekMoe } from "./deepseek-moe.js";

interface NemotronHConfig extends DecoderConfig {
  readonly types: readonly string[]; // [L]
  readonly mixer: Mamba2Shape;
  /** null: no layer is a mixture. */
  readonly moe: DeepseekMoe | null;
}

const TYPES = ["linear_attention", "full_attention", "mlp", "moe"];
const LETTERS: Readonly<Record<string, string>> = { M: TYPES[0]!, "*": TYPES[1]!, "-": TYPES[2]!, E: TYPES[3]! };

export const nemotronH: ModelFamily<NemotronHConfig> = {
  architectures: ["NemotronHForCausalLM"],
  parseConfig(raw, file) {
    const types = readTypes(new ConfigReader(raw, file));
    const shaped = { ...raw, num_hidden_layers: types.length, hidden_act: raw.mlp_hidden_act ?? "relu2" };
    const c = new ConfigReader(shaped, file);
    const absent = { eps: 1e-5, epsField: "layer_norm_epsilon", headDim: 128 };
    const plain = llamaSettings(c, readCommon(c, "NemotronHForCausalLM", absent));
    c.check(!c.has("moe_latent_size"), "moe_latent_size", "null");
    c.check(!c.has("sliding_window"), "sliding_window", "null");
    const mixer = readMixer(c, plain);
    return {
      ...plain,
      types,
      ropeOf: types.map(() => null),
      ropes: [],
      stateFloats: types.map((type) => (type === "linear_attention" ? mamba2Floats(mixer) : 0)),
      mlp: { ...plain.mlp, gateUp: null, hasBias: c.bool("mlp_bias", false) },
      names: { ...plain.names, attention: "mixer", mlp: "mixer" },
      mixer,
      moe: types.includes("moe") ? readMoe(c, plain) : null,
    };
  },
  specOf: (config) => specOf(config, cachesOf(config), []),
  load,
  // Heads that predict several tokens ahead.
  ignoredTensors: () => [/^(backbone\.)?mtp\b/],
};

/** A list of names, or the older pattern of letters. */
function readTypes(c: ConfigReader): readonly string[] {
  const pattern = c.raw.hybrid_override_pattern;
  const field = c.has("layers_block_type") ? "layers_block_type" : "layer_types";
  if (c.has(field)) return readLayerTypes(c, c.strings(field).length, TYPES, () => "", field);
  c.check(
    typeof pattern === "string" && [...pattern].every((letter) => letter in LETTERS),
    "hybrid_override_pattern",
    "letters M, *, -, E",
  );
  return [...(pattern as string)].map((letter) => LETTERS[letter]!);
}

function readMixer(c: ConfigReader, { hiddenSize, eps }: DecoderConfig): Mamba2Shape {
  const own = (name: string, older: string): string => (c.has(older) ? older : name);
  const bias = c.bool("use_bias", false);
  const numGroups = c.int(own("n_groups", "mamba_n_groups"), 8);
  return {
    hiddenSize,
    numHeads: c.int("mamba_num_heads", 128),
    headDim: c.int("mamba_head_dim", 64),
    numGroups,
    stateSize: c.int("ssm_state_size", 128),
    kernel: c.int(own("conv_kernel", "mamba_d_conv"), 4),
    convBias: c.bool(own("use_conv_bias", "mamba_conv_bias"), true),
    inBias: bias,
    outBias: bias,
    activation: c.activation("mamba_hidden_act", "silu"),
    stepLimits: { min: c.number(own("time_step_min", "mamba_dt_min"), 0.001), max: Number.POSITIVE_INFINITY },
    eps,
    norm: "gated",
    normGroups: numGroups,
  };
}

function readMoe(c: ConfigReader, plain: DecoderConfig): DeepseekMoe {
  const read = new ConfigReader({ ...c.raw, hidden_act: "silu" }, c.file);
  c.check(plain.activation === "relu2", "mlp_hidden_act", "relu2");
  const moe = readDeepseekMoe(read, plain, { numExperts: 8, topK: 2, expertSize: 7688 });
  const sharedSize = c.int("moe_shared_expert_intermediate_size", 7688);
  return { ...moe, mixture: { ...moe.mixture, activation: "relu2" }, sharedSize };
}

function cachesOf({ types, numHeads, numKvHeads, headDim, stateFloats }: NemotronHConfig): CacheLayout {
  const need = { numHeads, numKvHeads, keyDim: headDim, valueDim: headDim, window: 0 };
  return layoutCaches(
    types.map((type) => (type === "full_attention" ? need : null)),
    stateFloats,
  );
}

function load(config: NemotronHConfig, context: LoadContext): Model {
  const loader = new Loader(context);
  const { hiddenSize, norm } = config;
  const root = loader.decoderPrefix("embeddings.weight");
  const { places, states } = cachesOf(config);
  // The head is a matrix of its own wherever there is one, whatever tie_word_embeddings says.
  const isTied = config.isTied && !loader.has(loader.headName());
  const vocabulary = new Vocabulary(loader, {
    ...config,
    embedding: `${root}embeddings.weight`,
    head: isTied ? null : loader.headName(),
  });
  const layers = config.types.map((type, layer) => {
    const name = `${root}layers.${layer}`;
    const before = loadNorm(loader, `${name}.norm`, hiddenSize, norm);
    const own = { loader, name, layer, place: places[layer]!, state: states[layer]!, rotary: null, project: ADD };
    return new Residual(loader, hiddenSize, before, block(config, type, own), null);
  });
  const finalNorm = loadNorm(loader, `${root}norm_f`, hiddenSize, norm);
  return new DecoderFrame(loader, { spec: nemotronH.specOf(config), vocabulary, rotaries: null, layers, finalNorm });
}

function block(config: NemotronHConfig, type: string, context: LayerContext): Block {
  const { loader, state, project } = context;
  const name = `${context.name}.mixer`;
  if (type === "linear_attention") return new Mamba2Mixer(loader, name, config.mixer, state!, project);
  if (type === "full_attention") return plainAttention(config, context);
  if (type === "mlp") return loadMlp(loader, name, config, config.mlp, project);
  const { mixture, router, sharedSize } = config.moe!;
  const weights = {
    router: loadRouter(loader, `${name}.gate`, mixture),
    experts: loadUngatedExperts(loader, `${name}.experts`, mixture),
    shared: loadMlp(loader, `${name}.shared_experts`, { ...config, innerSize: sharedSize }, config.mlp, ADD),
  };
  const bias = loader.vector(`${name}.gate.e_score_correction_bias`, mixture.numExperts);
  return new MixtureOfExperts(loader, config.hiddenSize, weights, { ...router, bias }, project);
}
