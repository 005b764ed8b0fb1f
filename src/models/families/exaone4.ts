// EXAONE 4: norms after attention and feed-forward, query and key heads normed. Where there is a window, three of four layers see it,
// and the others, which see everything, have no rotary embedding.

import { readCommon } from "../common-config.js";
import { llamaSettings, plainFamily } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";

export const exaone4 = plainFamily(
  "Exaone4ForCausalLM",
  (c, architecture) => {
    const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1e-5 }));
    const hasWindow = c.has("sliding_window");
    const period = c.int("sliding_window_pattern", 4);
    const isSliding = (layer: number): boolean => hasWindow && (layer + 1) % period !== 0;
    // A window that is too wide to matter still marks the layer as one with rotary embedding.
    const marks = layerWindows(c, { ...plain, maxContext: Number.POSITIVE_INFINITY }, isSliding);
    return {
      ...plain,
      windows: layerWindows(c, plain, isSliding),
      ropeOf: marks.map((window) => (!hasWindow || window > 0 ? 0 : null)),
      attentionNorms: { before: null, after: "post_attention_layernorm" },
      mlpNorms: { before: null, after: "post_feedforward_layernorm" },
      attention: { ...plain.attention, qkNorm: "head" },
    };
  },
  { sliding_window: 4096 },
);
