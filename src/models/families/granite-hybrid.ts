// Granite 4: most layers are Mamba-2 mixers, the others attention, mostly without rotary embedding; a feed-forward that every token
// shares, with or without a mixture beside it.

import type { Block } from "../blocks/block.js";
import { Mamba2Mixer, type Mamba2Shape, mamba2Floats, readStepLimits } from "../blocks/mamba2.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, decoderSpec, type LayerContext, loadDecoder, plainAttention } from "../decoder.js";
import { readLayerTypes } from "../layer-windows.js";
import type { ModelFamily } from "../model.js";
import { readGranite } from "./granite.js";
import { type GraniteMoe, graniteFeedForward, readGraniteMixture } from "./granite-moe.js";

interface GraniteHybridConfig extends DecoderConfig {
  readonly mixer: Mamba2Shape;
  readonly moe: GraniteMoe;
}

export const graniteHybrid: ModelFamily<GraniteHybridConfig> = {
  architectures: ["GraniteMoeHybridForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = readGranite(c, "GraniteMoeHybridForCausalLM");
    c.only("position_embedding_type", "rope", "nope");
    const known = ["linear_attention", "full_attention"];
    const types = readLayerTypes(c, plain.numLayers, known, () => "linear_attention");
    const mixer = readMambaShape(c, plain, {
      numHeads: 128,
      stateSize: 256,
      inner: c.int("mamba_expand", 2) * plain.hiddenSize,
    });
    return {
      ...plain,
      ropeOf: plain.ropeOf.map(() => (raw.position_embedding_type === "rope" ? 0 : null)),
      stateFloats: types.map((type) => (type === "linear_attention" ? mamba2Floats(mixer) : 0)),
      mixer,
      moe: {
        mixture: c.count("num_local_experts", 8) === 0 ? null : readGraniteMixture(c, plain),
        sharedSize: c.int("shared_intermediate_size", 1024),
      },
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, {
      attention: (layer) => mixer(config, layer),
      feedForward: (layer) => graniteFeedForward(config, config.moe, layer),
    }),
};

/** The mixer as the fields mamba_* describe it; gated, normed over all heads. */
export function readMambaShape(
  c: ConfigReader,
  config: DecoderConfig,
  absent: { numHeads: number; stateSize: number; inner: number },
): Mamba2Shape {
  const numHeads = c.int("mamba_n_heads", absent.numHeads);
  const isAuto = !c.has("mamba_d_head") || c.raw.mamba_d_head === "auto";
  const headDim = isAuto ? absent.inner / numHeads : c.int("mamba_d_head");
  c.check(numHeads * headDim === absent.inner, "mamba_d_head", `${absent.inner} / mamba_n_heads`);
  const numGroups = c.int("mamba_n_groups", 1);
  c.check(numHeads % numGroups === 0, "mamba_n_groups", `a divisor of mamba_n_heads (${numHeads})`);
  const bias = c.bool("mamba_proj_bias", false);
  return {
    hiddenSize: config.hiddenSize,
    numHeads,
    headDim,
    numGroups,
    stateSize: c.int("mamba_d_state", absent.stateSize),
    kernel: c.int("mamba_d_conv", 4),
    convBias: c.bool("mamba_conv_bias", true),
    inBias: bias,
    outBias: bias,
    activation: config.activation,
    stepLimits: readStepLimits(c),
    eps: config.eps,
    norm: "gated",
    normGroups: 1,
  };
}

function mixer(config: GraniteHybridConfig, context: LayerContext): Block {
  const { loader, name, state, project } = context;
  if (state === null) return plainAttention(config, context);
  return new Mamba2Mixer(loader, `${name}.mamba`, config.mixer, state, project);
}
