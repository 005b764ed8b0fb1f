// StarCoder 2: LayerNorm, biases everywhere, a feed-forward without a gate, a window on all layers where the config has one.

import { layerNormStyle } from "../blocks/norm.js";
import { readCommon } from "../common-config.js";
import { attentionBias, llamaSettings, plainFamily } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";

export const starcoder2 = plainFamily("Starcoder2ForCausalLM", (c, architecture) => {
  const absent = { eps: 1e-5, epsField: "norm_epsilon", isTied: true, activation: "gelu_pytorch_tanh" };
  const plain = llamaSettings(c, readCommon(c, architecture, absent));
  const bias = c.bool("use_bias", true);
  return {
    ...plain,
    windows: layerWindows(c, plain, () => c.has("sliding_window")),
    norm: layerNormStyle(plain.eps),
    attention: attentionBias(plain, bias),
    mlp: { ...plain.mlp, gateUp: null, up: "c_fc", down: "c_proj", hasBias: bias },
  };
});
