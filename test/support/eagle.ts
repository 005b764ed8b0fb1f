// A random EAGLE-3 head for a model of four layers, in both public formats.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TensorSource } from "../../src/core/tensor.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { Eagle3Head, readEagle3 } from "../../src/models/predictors/eagle3.js";
import { familyOf } from "../../src/models/registry.js";
import type { RawConfig } from "./head-source.js";
import { RandomSource } from "./random-source.js";
import { writeSafetensors } from "./safetensors-writer.js";

export type EagleFormat = "SafeAILab" | "speculators";
export const EAGLE_FORMATS: readonly EagleFormat[] = ["SafeAILab", "speculators"];

/** The model that it guesses for. */
export const EAGLE_MAIN: RawConfig = {
  ...{ architectures: ["LlamaForCausalLM"], hidden_size: 64, intermediate_size: 96, num_hidden_layers: 4 },
  ...{ num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, vocab_size: 320, max_position_embeddings: 512 },
  ...{
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    hidden_act: "silu",
    tie_word_embeddings: false,
    bos_token_id: 256,
    eos_token_id: 257,
  },
};
const DRAFT_VOCAB = 120;

export function eagleConfig(format: EagleFormat): RawConfig {
  const layer = { ...EAGLE_MAIN, num_hidden_layers: 1 };
  const own = { draft_vocab_size: DRAFT_VOCAB, eagle_aux_hidden_state_layer_ids: [1, 2, 3] };
  if (format === "SafeAILab") return { ...layer, ...own, architectures: ["LlamaForCausalLMEagle3"] };
  const { architectures: _, ...inner } = layer as RawConfig;
  const facts = { architectures: ["Eagle3DraftModel"], speculators_model_type: "eagle3", norm_before_residual: true };
  return { ...facts, ...own, transformer_layer_config: inner };
}

/** d2t: the draft vocabulary is the model's ids from 1 on. */
export function eagleSource(format: EagleFormat): TensorSource {
  const noise = new RandomSource({ seed: 11 });
  const layer = format === "SafeAILab" ? "midlayer" : "layers.0";
  const data = new BigInt64Array(DRAFT_VOCAB).fill(1n);
  const ids = new Uint8Array(data.buffer);
  return {
    path: "eagle",
    has: (name) =>
      name === "d2t" ||
      name === `${layer}.hidden_norm.weight` ||
      (format === "speculators" && name === "embed_tokens.weight"),
    get: (name, shape) =>
      name === "d2t"
        ? { name, dtype: "i64", shape: [DRAFT_VOCAB], file: null, byteLength: ids.length, bytes: () => ids }
        : noise.get(name, shape),
    names: () => noise.names(),
    close: () => {},
  };
}

/** The folder of a head. */
export function writeEagle(format: EagleFormat): string {
  const device = new ReferenceDevice();
  const raw = eagleConfig(format);
  const config = readEagle3(raw, "config.json");
  const capacity = { maxTokens: 8, maxLogitRows: 4 };
  const family = familyOf(EAGLE_MAIN, "config.json");
  const context = {
    device,
    source: new RandomSource({ seed: 3 }),
    capacity,
    quantize: "none",
    taps: [1, 2, 3],
  } as const;
  const main = family.load(family.parseConfig(EAGLE_MAIN, "config.json"), context);
  const source = eagleSource(format);
  new Eagle3Head(config, { device, source, capacity, quantize: "none" }, main);
  const entries = new Map<string, { dtype: string; shape: readonly number[]; data: ArrayBufferView }>();
  for (const name of source.names()) {
    const { shape, bytes } = source.get(name);
    entries.set(name, { dtype: "BF16", shape, data: bytes() });
  }
  entries.set("d2t", { dtype: "I64", shape: [DRAFT_VOCAB], data: new BigInt64Array(DRAFT_VOCAB).fill(1n) });
  entries.set("t2d", { dtype: "BOOL", shape: [320], data: new Uint8Array(320) });
  const folder = mkdtempSync(join(tmpdir(), "pagoda-eagle-"));
  writeFileSync(join(folder, "config.json"), JSON.stringify(raw));
  writeSafetensors(join(folder, "model.safetensors"), entries);
  return folder;
}
