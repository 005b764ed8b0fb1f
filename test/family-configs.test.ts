// What each family takes for granted: its configuration when config.json says only the sizes, as far as it differs from Llama's.
// The list is test/fixtures/config-defaults.txt; `UPDATE_DEFAULTS=1 node dist/test/family-configs.test.js` writes it anew, and what
// changed is to be held against Hugging Face's configuration class of that family. And what each refuses.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { familyOf, knownArchitectures } from "../src/models/registry.js";

const FILE = "test/fixtures/config-defaults.txt";
const SIZES = {
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 8,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 9000,
};
/** Sizes that have no default, or whose defaults do not go with those above. */
const LATENT = { qk_nope_head_dim: 8, qk_rope_head_dim: 8, v_head_dim: 12, kv_lora_rank: 16 };
const MORE: Record<string, Record<string, unknown>> = {
  Qwen3MoeForCausalLM: { num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32 },
  GptOssForCausalLM: { num_local_experts: 4, num_experts_per_tok: 2 },
  DeepseekV3ForCausalLM: { ...LATENT, n_routed_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32 },
  DeepseekV2ForCausalLM: { ...LATENT, num_experts_per_tok: 2 },
  Mamba2ForCausalLM: { num_heads: 8, head_dim: 16 },
  GraniteMoeHybridForCausalLM: { hidden_size: 256 },
  FalconH1ForCausalLM: { mamba_d_ssm: 64 },
  NemotronHForCausalLM: { hybrid_override_pattern: "M*-E" },
  NomicBertModel: { n_embd: 64, n_head: 4, n_layer: 2, n_inner: 96, n_positions: 512 },
};

type Leaves = Map<string, string>;

function leavesOf(value: unknown, path = "", leaves: Leaves = new Map()): Leaves {
  if (typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)) {
    for (const [key, inner] of Object.entries(value)) leavesOf(inner, path === "" ? key : `${path}.${key}`, leaves);
  } else if (typeof value !== "function") leaves.set(path, JSON.stringify(value) ?? "undefined");
  return leaves;
}

function parsed(architecture: string, fields: Record<string, unknown> = {}): Leaves {
  const raw = { ...SIZES, ...MORE[architecture], architectures: [architecture], ...fields };
  return leavesOf(familyOf(raw, "config.json").parseConfig(raw, "config.json"));
}

test("absent fields mean to each family what they mean to Hugging Face's", () => {
  const plain = parsed("LlamaForCausalLM");
  const lines = [...plain].map(([path, value]) => `LlamaForCausalLM ${path} ${value}`);
  for (const architecture of knownArchitectures().slice(1)) {
    if (architecture.endsWith("ForConditionalGeneration")) continue; // their text part is another family
    const leaves = parsed(architecture);
    if (leaves.get("architecture") !== JSON.stringify(architecture)) continue; // another name for a family
    for (const [path, value] of leaves)
      if (plain.get(path) !== value && path !== "architecture") lines.push(`${architecture} ${path} ${value}`);
  }
  const text = `${lines.join("\n")}\n`;
  if (process.env.UPDATE_DEFAULTS !== undefined) writeFileSync(FILE, text);
  assert.deepEqual(text.split("\n"), readFileSync(FILE, "utf8").split("\n"));
});

const REFUSED: readonly [architecture: string, fields: Record<string, unknown>, field: string][] = [
  ["DeepseekV3ForCausalLM", { moe_layer_freq: 2 }, "moe_layer_freq"],
  ["DeepseekV3ForCausalLM", { qk_rope_head_dim: 7 }, "qk_rope_head_dim"],
  ["DeepseekV2ForCausalLM", { moe_layer_freq: 2 }, "moe_layer_freq"],
  ["DeepseekV2ForCausalLM", { topk_method: "noaux_tc" }, "topk_method"],
  ["DeepseekV2ForCausalLM", { scoring_func: "sigmoid" }, "scoring_func"],
  ["DeepseekV2ForCausalLM", { norm_topk_prob: true }, "norm_topk_prob"],
  ["Qwen3_5MoeForCausalLM", { norm_topk_prob: false }, "norm_topk_prob"],
  ["MiniMaxM2ForCausalLM", { scoring_func: "softmax" }, "scoring_func"],
  ["BertModel", { add_cross_attention: true }, "add_cross_attention"],
  ["BertModel", { is_decoder: true }, "is_decoder"],
  ["BertModel", { position_embedding_type: "relative_key" }, "position_embedding_type"],
  ["BertModel", { num_attention_heads: 5 }, "num_attention_heads"],
  ["RobertaModel", { pad_token_id: 8999 }, "pad_token_id"],
  ["ModernBertForSequenceClassification", { classifier_pooling: "max" }, "classifier_pooling"],
  ["NomicBertModel", { n_head: 64 }, "n_head"],
  ["GraniteMoeHybridForCausalLM", { position_embedding_type: "alibi" }, "position_embedding_type"],
  ["GraniteMoeHybridForCausalLM", { mamba_d_head: 3 }, "mamba_d_head"],
  ["GraniteMoeHybridForCausalLM", { mamba_n_groups: 3 }, "mamba_n_groups"],
  ["NemotronHForCausalLM", { mlp_hidden_act: "silu" }, "mlp_hidden_act"],
  ["NemotronHForCausalLM", { moe_latent_size: 8 }, "moe_latent_size"],
  ["NemotronHForCausalLM", { sliding_window: 8 }, "sliding_window"],
  ["Mamba2ForCausalLM", { time_step_limit: [1] }, "time_step_limit"],
  ["Mamba2ForCausalLM", { n_groups: 3 }, "n_groups"],
  ["Mamba2ForCausalLM", { expand: 3 }, "expand"],
  ["Gemma3nForCausalLM", { altup_num_inputs: 1 }, "altup_num_inputs"],
  ["Gemma3nForCausalLM", { altup_active_idx: 4 }, "altup_active_idx"],
  ["Gemma4ForCausalLM", { use_bidirectional_attention: "all" }, "use_bidirectional_attention"],
  ["GemmaForCausalLM", { use_bidirectional_attention: true }, "use_bidirectional_attention"],
  ["OlmoeForCausalLM", { clip_qkv: 8 }, "clip_qkv"],
  ["Llama4ForCausalLM", { no_rope_layers: [1] }, "no_rope_layers"],
];

test("what a family cannot honour is refused by the field's name", () => {
  for (const [architecture, fields, field] of REFUSED) {
    const expected = { code: "unsupported_model_option", message: new RegExp(`\\b${field} = `) };
    assert.throws(() => parsed(architecture, fields), expected, `${architecture} ${field}`);
  }
});

test("a quantised checkpoint that nobody unpacked is refused by every family", () => {
  const quantization_config = { quant_method: "odd" };
  const expected = { code: "unsupported_model_option", message: /quantization_config.*odd/ };
  for (const architecture of knownArchitectures()) {
    if (architecture.endsWith("ForConditionalGeneration")) continue; // their text part is another family
    assert.throws(() => parsed(architecture, { quantization_config }), expected, architecture);
  }
});

test("what concerns the whole model stands beside the text's part", () => {
  const text_config = { ...SIZES, model_type: "mistral" };
  const whole = (fields: Record<string, unknown>) =>
    parsed("Mistral3ForConditionalGeneration", { text_config, ...fields }).get("isTied");
  assert.deepEqual(
    [whole({}), whole({ tie_word_embeddings: true }), whole({ tie_word_embeddings: false })],
    [...["false", "true", "false"]],
  );
  const tied = { ...text_config, tie_word_embeddings: true };
  assert.equal(whole({ text_config: tied }), "true");
  assert.throws(() => whole({ quantization_config: { quant_method: "odd" } }), /quantization_config/);
});
