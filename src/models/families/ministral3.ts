// Ministral 3: Mistral whose queries grow with the logarithm of their position, counted in original context lengths.

import type { PositionScale } from "../../device/device.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { llamaSettings, plainFamily } from "../decoder.js";
import { layerWindows } from "../layer-windows.js";

export const ministral3 = plainFamily("Ministral3ForCausalLM", (c, architecture) => {
  const { reader, queryScale } = takeQueryScale(c, DEFAULT_ROPE);
  const plain = llamaSettings(reader, readCommon(reader, architecture, { eps: 1e-5, headDim: 128 }));
  return {
    ...plain,
    windows: layerWindows(reader, plain, () => c.has("sliding_window")),
    queryScales: plain.windows.map(() => queryScale),
  };
});

const DEFAULT_ROPE = {
  rope_type: "yarn",
  rope_theta: 1e6,
  factor: 16,
  original_max_position_embeddings: 16_384,
  mscale: 1,
  mscale_all_dim: 1,
  llama_4_scaling_beta: 0.1,
};

/** The field of the rope that scales queries, and a reader of the config without it. */
export function takeQueryScale(c: ConfigReader, absent: Record<string, unknown>) {
  const rope = (c.has("rope_parameters") ? c.raw.rope_parameters : (c.raw.rope_scaling ?? absent)) as Record<
    string,
    unknown
  >;
  const { llama_4_scaling_beta: beta, ...rest } = rope;
  const reader = new ConfigReader({ ...c.raw, rope_parameters: rest }, c.file);
  if (beta === undefined || beta === null) return { reader, queryScale: null };
  const r = new ConfigReader(rope, c.file);
  const period = r.int("original_max_position_embeddings");
  const queryScale: PositionScale = { beta: r.number("llama_4_scaling_beta"), period, shift: 0 };
  return { reader, queryScale };
}
