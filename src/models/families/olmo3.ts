// OLMo 3: OLMo 2 in which three of four layers see a window, with a rope of their own where the config says so.

import type { RopeConfig } from "../../formats/rope-config.js";
import { readCommon } from "../common-config.js";
import { attentionBias, llamaSettings, plainFamily } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";
import { readHeadRope } from "../rope.js";
import { OLMO_NORMS } from "./olmo2.js";

export const olmo3 = plainFamily(
  "Olmo3ForCausalLM",
  (c, architecture) => {
    const plain = llamaSettings(c, readCommon(c, architecture, { eps: 1e-5 }));
    const isSliding = (layer: number): boolean => (layer + 1) % 4 !== 0;
    const marks = layerWindows(c, { ...plain, maxContext: Number.POSITIVE_INFINITY }, isSliding);
    const local = c.has("rope_parameters") ? readHeadRope(c, plain.headDim, "sliding_attention") : unscaled(plain);
    return {
      ...plain,
      ...OLMO_NORMS,
      windows: layerWindows(c, plain, isSliding),
      ropes: [plain.ropes[0]!, local],
      ropeOf: marks.map((window) => (window > 0 ? 1 : 0)),
      attention: { ...attentionBias(plain, c.bool("attention_bias", false)), qkNorm: "all" },
    };
  },
  { rope_theta: 500_000, sliding_window: 4096 },
);

/** Older configs scale the rope of the full layers only. */
function unscaled({ ropes }: { readonly ropes: readonly RopeConfig[] }): RopeConfig {
  const { theta, partialRotaryFactor, maxPosition } = ropes[0]!;
  return { theta, partialRotaryFactor, maxPosition, type: "default" };
}
