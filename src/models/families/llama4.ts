// Llama 4. Three of four layers see their own chunk of tokens, with rotary embedding of neighbours and queries and keys normed after
// it; the others see everything, without rotary embedding, and sharpen their queries with the position. Mixtures weigh what the experts
// read, beside an expert that every token shares.

import { ADD, type Block } from "../blocks/block.js";
import {
  loadExperts,
  loadRouter,
  loadStackedExperts,
  type MixtureConfig,
  MixtureOfExperts,
  MLP_EXPERTS,
  readTopK,
} from "../blocks/mixture.js";
import { loadMlp } from "../blocks/mlp.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import {
  attentionBias,
  type DecoderConfig,
  decoderSpec,
  denseMlp,
  type LayerContext,
  llamaSettings,
  loadDecoder,
  plainAttention,
} from "../decoder.js";
import { readLayerTypes } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";

interface Llama4Config extends DecoderConfig {
  readonly mixture: MixtureConfig;
  readonly moeLayers: readonly number[];
  readonly hasQkNorm: boolean;
}

export const llama4: ModelFamily<Llama4Config> = {
  architectures: ["Llama4ForCausalLM"],
  parseConfig(raw, file) {
    const own = new ConfigReader(raw, file);
    const expertSize = own.int("intermediate_size", 8192);
    const dense = { intermediate_size: own.int("intermediate_size_mlp", 16_384) };
    const c = new ConfigReader({ rope_theta: 500_000, ...raw, ...dense }, file);
    const plain = llamaSettings(c, readCommon(c, "Llama4ForCausalLM", { eps: 1e-5, headDim: 128 }));
    const { numLayers, hiddenSize } = plain;
    const hasRope = ropeLayers(c, numLayers);
    const types = readLayerTypes(c, numLayers, ["chunked_attention", "full_attention"], (layer) =>
      hasRope[layer] ? "chunked_attention" : "full_attention",
    );
    const isChunked = c.raw.attention_chunk_size !== null;
    const chunk = isChunked ? c.int("attention_chunk_size", 8192) : 0;
    const scale = { beta: c.number("attn_scale", 0.1), period: c.int("floor_scale", 8192), shift: 1 };
    const isTuned = c.bool("attn_temperature_tuning", true);
    const numExperts = c.int("num_local_experts", 16);
    const step = c.int("interleave_moe_layer_step", 1);
    const everyStep = plain.windows.flatMap((_, layer) => ((layer + 1) % step === 0 ? [layer] : []));
    return {
      ...plain,
      isRopeInterleaved: true,
      ropeOf: hasRope.map((has) => (has ? 0 : null)),
      // A chunk that is too long to matter is full attention.
      attentionChunks: types.map((type) => (type === "chunked_attention" && chunk < plain.maxContext ? chunk : 0)),
      queryScales: hasRope.map((has) => (has || !isTuned ? null : scale)),
      attention: { ...attentionBias(plain, c.bool("attention_bias", false)), isNormedAfterRotary: true },
      hasQkNorm: c.bool("use_qk_norm", true),
      names: { ...plain.names, mlp: "feed_forward" },
      moeLayers: c.has("moe_layers") ? c.ints("moe_layers") : everyStep,
      mixture: {
        hiddenSize,
        numExperts,
        topK: readTopK(c, numExperts, 1),
        expertSize,
        activation: c.gatedActivation("hidden_act", "silu"),
      },
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, {
      attention: (layer) => plainAttention(withQkNorm(config, layer), layer),
      feedForward: (layer) =>
        config.moeLayers.includes(layer.layer) ? experts(config, layer) : denseMlp(config, layer),
    }),
};

/** `no_rope_layers` has a 1 for each layer with rotary embedding, whatever its name suggests. */
function ropeLayers(c: ConfigReader, numLayers: number): readonly boolean[] {
  const interval = c.int("no_rope_layer_interval", 4);
  const flags = c.has("no_rope_layers") ? c.ints("no_rope_layers") : [];
  if (flags.length === 0) return Array.from({ length: numLayers }, (_, layer) => (layer + 1) % interval !== 0);
  c.check(flags.length === numLayers, "no_rope_layers", `a list of ${numLayers} numbers`);
  return flags.map((flag) => flag !== 0);
}

/** Queries and keys are normed, without weights, where they are rotated. */
function withQkNorm(config: Llama4Config, { rotary }: LayerContext): DecoderConfig {
  if (!config.hasQkNorm || rotary === null) return config;
  return { ...config, attention: { ...config.attention, qkNorm: "plain" } };
}

function experts(config: Llama4Config, { loader, name, project }: LayerContext): Block {
  const { mixture } = config;
  const { numExperts, topK, hiddenSize, expertSize } = mixture;
  const base = `${name}.feed_forward`;
  const stacks = [`${base}.experts.gate_up_proj`, `${base}.experts.down_proj`] as const;
  const weights = {
    router: loadRouter(loader, `${base}.router`, mixture),
    // One by one in GGUF files.
    experts: loader.has(stacks[0])
      ? loadStackedExperts(loader, ...stacks, mixture, true)
      : loadExperts(loader, name, { ...MLP_EXPERTS, experts: "feed_forward.experts" }, mixture),
    shared: loadMlp(loader, `${base}.shared_expert`, { ...config, innerSize: expertSize }, config.mlp, ADD),
  };
  const router = {
    numExperts,
    topK,
    score: "sigmoid",
    normalize: false,
    scale: 1,
    bias: null,
    numGroups: 1,
    topkGroup: 1,
    scalesInput: true,
  } as const;
  return new MixtureOfExperts(loader, hiddenSize, weights, router, project);
}
