// Falcon-H1: in every layer a Mamba-2 mixer and attention read the same normed input side by side; multipliers nearly everywhere.

import type { StagedBatch, Tensor } from "../../device/device.js";
import type { Block } from "../blocks/block.js";
import { Mamba2Mixer, type Mamba2Shape, mamba2Floats } from "../blocks/mamba2.js";
import { loadMlp } from "../blocks/mlp.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import {
  attentionBias,
  type DecoderConfig,
  decoderSpec,
  type LayerContext,
  llamaSettings,
  loadDecoder,
  plainAttention,
} from "../decoder.js";
import type { Caches, ModelFamily } from "../model.js";
import { readMambaShape } from "./granite-hybrid.js";

interface FalconH1Config extends DecoderConfig {
  readonly mixer: Mamba2Shape;
  readonly attentionOutScale: number;
  readonly mixerOutScale: number;
  readonly gateScale: number;
  readonly downScale: number;
}

export const falconH1: ModelFamily<FalconH1Config> = {
  architectures: ["FalconH1ForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    const plain = llamaSettings(c, readCommon(c, "FalconH1ForCausalLM", { eps: 1e-5 }));
    // null says that the size follows from mamba_expand; a field that is not there is 1024.
    const isExpanded = raw.mamba_d_ssm === null;
    const inner = isExpanded ? c.int("mamba_expand", 2) * plain.hiddenSize : c.int("mamba_d_ssm", 1024);
    const shape = readMambaShape(c, plain, { numHeads: 128, stateSize: 256, inner });
    const [gateScale, downScale] = multipliers(c, "mlp_multipliers", 2);
    const mixer: Mamba2Shape = {
      ...shape,
      outBias: c.bool("projectors_bias", false),
      norm: !c.bool("mamba_rms_norm", false)
        ? "none"
        : c.bool("mamba_norm_before_gate", true)
          ? "before_gate"
          : "gated",
      normGroups: shape.numGroups,
      inScale: c.number("ssm_in_multiplier", 1),
      partScales: multipliers(c, "ssm_multipliers", 5),
    };
    return {
      ...plain,
      mlpNorms: { before: "pre_ff_layernorm", after: null },
      attention: {
        ...attentionBias(plain, c.bool("attention_bias", false)),
        inputScale: c.number("attention_in_multiplier", 1),
      },
      mlp: { ...plain.mlp, hasBias: c.bool("mlp_bias", false) },
      names: { ...plain.names, mlp: "feed_forward", finalNorm: "final_layernorm" },
      keyScale: c.number("key_multiplier", 1),
      embeddingScale: c.number("embedding_multiplier", 1),
      logitsScale: c.number("lm_head_multiplier", 1),
      stateFloats: plain.windows.map(() => mamba2Floats(mixer)),
      hasBothMixers: true,
      mixer,
      attentionOutScale: c.number("attention_out_multiplier", 1),
      mixerOutScale: c.number("ssm_out_multiplier", 1),
      gateScale: gateScale!,
      downScale: downScale!,
    };
  },
  specOf: decoderSpec,
  load: (config, context) =>
    loadDecoder(config, context, {
      attention: (layer) => new SideBySide(config, layer),
      feedForward: ({ loader, name, project }) =>
        loadMlp(loader, `${name}.feed_forward`, config, config.mlp, { ...project, scale: config.downScale }),
    }),
};

function multipliers(c: ConfigReader, name: string, count: number): readonly number[] {
  const values = c.has(name) ? c.raw[name] : new Array<number>(count).fill(1);
  const isRight = Array.isArray(values) && values.length === count && values.every((v) => typeof v === "number");
  c.check(isRight, name, `a list of ${count} numbers`);
  return values as readonly number[];
}

/** out += mixer(x) + attention(x). */
class SideBySide implements Block {
  readonly #mixer: Block;
  readonly #attention: Block;

  constructor(config: FalconH1Config, context: LayerContext) {
    const { loader, name, state, project } = context;
    const mixed = { ...project, scale: config.mixerOutScale };
    this.#mixer = new Mamba2Mixer(loader, `${name}.mamba`, config.mixer, state!, mixed);
    this.#attention = plainAttention(config, { ...context, project: { ...project, scale: config.attentionOutScale } });
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    this.#mixer.run(out, x, batch, caches);
    this.#attention.run(out, x, batch, caches);
  }
}
