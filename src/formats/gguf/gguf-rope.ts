// The rotary keys of a GGUF file as the `rope_parameters` of config.json.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { TensorSource } from "../../core/tensor.js";
import type { GgufKeys } from "./gguf-keys.js";

/** How many pairs turn by time, row and column of a picture's tokens: one after another in the first of these models, in turn since. */
function sections(keys: GgufKeys): Record<string, unknown> {
  const given = /^qwen(2vl|3vl|3next|35)/.test(keys.architecture) ? keys.value("rope.dimension_sections") : undefined;
  if (given === undefined) return {};
  const counts = Array.isArray(given) ? given.slice(0, 3).map(Number) : [];
  if (counts.length < 3 || counts.some((count) => !(count >= 0)))
    throw keys.refuse("rope.dimension_sections", "counts");
  return { mrope_section: counts, mrope_interleaved: keys.architecture !== "qwen2vl" };
}

/** Rotary fields of the layers with full attention. `headDim` is the size that rope.dimension_count is a part of. */
export function ggufRope(keys: GgufKeys, source: TensorSource, headDim: number): Record<string, unknown> {
  const rotaryDim = keys.number("rope.dimension_count") ?? headDim;
  const common = {
    rope_theta: keys.number("rope.freq_base") ?? 10_000,
    ...(rotaryDim === headDim ? {} : { partial_rotary_factor: rotaryDim / headDim }),
    ...sections(keys),
  };
  const type = keys.text("rope.scaling.type") ?? "linear";
  const factor = keys.number("rope.scaling.factor") || keys.number("rope.scale_linear") || 1; // 0 says nothing
  const original = keys.number("rope.scaling.original_context_length") ?? keys.size("context_length");
  const attention = keys.number("rope.scaling.attn_factor") ?? 1;
  const yarnAttention = keys.number("rope.scaling.yarn_attn_factor");

  // Llama 3 and LongRoPE: the file carries the divisor of each frequency. Llama 3's are the same for every length.
  const [short, long] = source.has("rope_freqs.weight")
    ? ["rope_freqs.weight", "rope_freqs.weight"]
    : ["rope_factors_short.weight", "rope_factors_long.weight"];
  if (source.has(short) && source.has(long)) {
    if (type === "yarn") throw keys.refuse("rope.scaling.type", "none, linear or longrope where the file has factors");
    const slower = type === "linear" ? factor : 1;
    const factors = (name: string) => Array.from(toFloat32(source.get(name, [rotaryDim / 2])), (f) => f * slower);
    return {
      ...common,
      rope_type: "longrope",
      short_factor: factors(short),
      long_factor: factors(long),
      factor,
      original_max_position_embeddings: original,
      attention_factor: attention,
    };
  }
  switch (type) {
    case "none":
      return { ...common, rope_type: "default" };
    case "linear":
      return factor === 1 ? { ...common, rope_type: "default" } : { ...common, rope_type: "linear", factor };
    case "yarn": {
      const ext = keys.number("rope.scaling.yarn_ext_factor");
      if (ext !== null && ext !== 1) throw keys.refuse("rope.scaling.yarn_ext_factor", "1");
      return {
        ...common,
        rope_type: "yarn",
        factor,
        original_max_position_embeddings: original,
        beta_fast: keys.number("rope.scaling.yarn_beta_fast") ?? 32,
        beta_slow: keys.number("rope.scaling.yarn_beta_slow") ?? 1,
        // Converters write the attention_factor of config.json as yarn_attn_factor: it stands in place of the one that follows from
        // `factor`. attn_factor is on top of either.
        ...(attention === 1 && yarnAttention === null
          ? {}
          : { attention_factor: attention * (yarnAttention ?? 0.1 * Math.log(factor) + 1) }),
      };
    }
    default:
      throw keys.refuse("rope.scaling.type", "none, linear, yarn, longrope with its factors");
  }
}
