// Mamba-2: every layer is one state-space mixer; no attention, no feed-forward.

import { ADD } from "../blocks/block.js";
import { Mamba2Mixer, type Mamba2Shape, mamba2Floats, readStepLimits } from "../blocks/mamba2.js";
import { loadNorm, rmsStyle } from "../blocks/norm.js";
import { Residual } from "../blocks/residual.js";
import { Vocabulary } from "../blocks/vocabulary.js";
import { layoutCaches } from "../cache-layout.js";
import { type CommonConfig, refuseQuantization, specOf } from "../common-config.js";
import { ConfigReader, MAX_LAYERS } from "../config-reader.js";
import { DecoderFrame } from "../decoder-frame.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily } from "../model.js";

interface Mamba2Config extends CommonConfig {
  readonly mixer: Mamba2Shape;
}

/** A recurrence has no longest context; positions are counted in 32 bits. */
const LONGEST = 2 ** 20;

export const mamba2: ModelFamily<Mamba2Config> = {
  architectures: ["Mamba2ForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(raw, file);
    refuseQuantization(c);
    const hiddenSize = c.int("hidden_size", 4096);
    const numHeads = c.int("num_heads", 128);
    const headDim = c.int("head_dim", 64);
    const eps = c.number("layer_norm_epsilon", 1e-5);
    const inner = Math.trunc(c.number("expand", 2) * hiddenSize);
    c.check(inner === numHeads * headDim, "expand", `${numHeads * headDim} / ${hiddenSize}, as num_heads * head_dim`);
    const numGroups = c.int("n_groups", 8);
    c.check(numHeads % numGroups === 0, "n_groups", `a divisor of num_heads (${numHeads})`);
    return {
      architecture: "Mamba2ForCausalLM",
      hiddenSize,
      numLayers: c.int("num_hidden_layers", 64, MAX_LAYERS),
      numHeads,
      numKvHeads: numHeads,
      headDim,
      innerSize: inner,
      vocabSize: c.int("vocab_size", 32_768),
      maxContext: c.int("max_position_embeddings", LONGEST),
      eps,
      activation: c.activation("hidden_act", "silu"),
      isTied: c.bool("tie_word_embeddings", false),
      mixer: {
        hiddenSize,
        numHeads,
        headDim,
        numGroups,
        stateSize: c.int("state_size", 128),
        kernel: c.int("conv_kernel", 4),
        convBias: c.bool("use_conv_bias", true),
        inBias: c.bool("use_bias", false),
        outBias: c.bool("use_bias", false),
        activation: c.activation("hidden_act", "silu"),
        stepLimits: readStepLimits(c),
        eps,
        norm: "gated",
        normGroups: 1,
      },
    };
  },
  specOf: (config) => specOf(config, cachesOf(config), []),
  load,
};

function cachesOf({ numLayers, mixer }: Mamba2Config) {
  return layoutCaches(new Array<null>(numLayers).fill(null), new Array<number>(numLayers).fill(mamba2Floats(mixer)));
}

function load(config: Mamba2Config, context: LoadContext): Model {
  const loader = new Loader(context);
  const { hiddenSize, eps } = config;
  const root = ["backbone.", "model.", ""].find((prefix) => loader.has(`${prefix}embeddings.weight`)) ?? "backbone.";
  const { states } = cachesOf(config);
  const vocabulary = new Vocabulary(loader, {
    ...config,
    embedding: `${root}embeddings.weight`,
    head: config.isTied ? null : loader.headName(),
  });
  const layers = states.map((state, layer) => {
    const name = `${root}layers.${layer}`;
    const norm = loadNorm(loader, `${name}.norm`, hiddenSize, rmsStyle(eps));
    return new Residual(
      loader,
      hiddenSize,
      norm,
      new Mamba2Mixer(loader, `${name}.mixer`, config.mixer, state!, ADD),
      null,
    );
  });
  const finalNorm = loadNorm(loader, `${root}norm_f`, hiddenSize, rmsStyle(eps));
  return new DecoderFrame(loader, { spec: mamba2.specOf(config), vocabulary, rotaries: null, layers, finalNorm });
}
