// What families read from config.json: the older and the newer spelling agree, rules for absent fields are Hugging Face's, and what
// cannot be honoured is refused by name.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FormatError } from "../core/errors.js";
import type { RopeConfig } from "../formats/rope-config.js";
import { familyOf, knownArchitectures } from "./registry.js";

const BASE = {
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  max_position_embeddings: 512,
  rms_norm_eps: 1e-6,
};

const EXTRA: Record<string, Record<string, unknown>> = {
  MixtralForCausalLM: { num_local_experts: 4, num_experts_per_tok: 2 },
  Qwen3MoeForCausalLM: { num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32 },
  GptOssForCausalLM: { num_local_experts: 4, num_experts_per_tok: 2 },
  DeepseekV3ForCausalLM: {
    kv_lora_rank: 16,
    q_lora_rank: 16,
    qk_nope_head_dim: 8,
    qk_rope_head_dim: 8,
    v_head_dim: 12,
    n_routed_experts: 8,
    num_experts_per_tok: 2,
    moe_intermediate_size: 32,
  },
};

function parse(architecture: string, fields: Record<string, unknown> = {}): Record<string, unknown> {
  const raw = { ...BASE, ...EXTRA[architecture], architectures: [architecture], ...fields };
  return familyOf(raw, "config.json").parseConfig(raw, "config.json") as Record<string, unknown>;
}

function refuses(architecture: string, fields: Record<string, unknown>, pattern: RegExp): void {
  assert.throws(
    () => parse(architecture, fields),
    (error: unknown) => error instanceof FormatError && pattern.test(error.message),
    `${architecture} ${JSON.stringify(fields)}`,
  );
}

test("an unknown architecture is refused with the list of known ones", () => {
  assert.throws(
    () => familyOf({ architectures: ["MambaForCausalLM"] }, "config.json"),
    /MambaForCausalLM.*LlamaForCausalLM/,
  );
  assert.throws(() => familyOf({ model_type: "rwkv" }, "config.json"), /rwkv.*no architectures in config.json/);
  assert.equal(knownArchitectures().length, new Set(knownArchitectures()).size);
});

test("both spellings of the rope fields give one configuration", () => {
  const pairs: [string, Record<string, unknown>, Record<string, unknown>][] = [
    [
      "LlamaForCausalLM",
      {
        torch_dtype: "bfloat16",
        rope_theta: 500_000,
        rope_scaling: {
          rope_type: "llama3",
          factor: 8,
          low_freq_factor: 1,
          high_freq_factor: 4,
          original_max_position_embeddings: 128,
        },
      },
      {
        dtype: "bfloat16",
        rope_parameters: {
          rope_theta: 500_000,
          rope_type: "llama3",
          factor: 8,
          low_freq_factor: 1,
          high_freq_factor: 4,
          original_max_position_embeddings: 128,
        },
      },
    ],
    [
      "Qwen2ForCausalLM",
      { rope_theta: 1e6, rope_scaling: { type: "yarn", factor: 4, original_max_position_embeddings: 128 } },
      {
        rope_parameters: { rope_theta: 1e6, rope_type: "yarn", factor: 4, original_max_position_embeddings: 128 },
        layer_types: new Array(4).fill("full_attention"),
      },
    ],
    [
      "Gemma3ForCausalLM",
      {
        rope_theta: 1e6,
        rope_local_base_freq: 1e4,
        rope_scaling: { rope_type: "linear", factor: 8 },
        sliding_window: 24,
        sliding_window_pattern: 3,
      },
      {
        rope_parameters: {
          full_attention: { rope_theta: 1e6, rope_type: "linear", factor: 8 },
          sliding_attention: { rope_theta: 1e4, rope_type: "default" },
        },
        sliding_window: 24,
        layer_types: ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
      },
    ],
    [
      "Gemma2ForCausalLM",
      { rope_theta: 1e4, sliding_window: 24 },
      {
        rope_parameters: { rope_theta: 1e4, rope_type: "default" },
        sliding_window: 24,
        layer_types: ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
      },
    ],
    [
      "Phi3ForCausalLM",
      {
        rope_theta: 1e4,
        original_max_position_embeddings: 128,
        rope_scaling: { type: "su", short_factor: new Array(8).fill(1), long_factor: new Array(8).fill(2) },
      },
      {
        rope_parameters: {
          rope_theta: 1e4,
          rope_type: "longrope",
          original_max_position_embeddings: 128,
          short_factor: new Array(8).fill(1),
          long_factor: new Array(8).fill(2),
        },
      },
    ],
    [
      "GptOssForCausalLM",
      { rope_theta: 150_000, rope_scaling: { type: "linear", factor: 2 }, sliding_window: 24 },
      {
        rope_parameters: { rope_theta: 150_000, rope_type: "linear", factor: 2 },
        sliding_window: 24,
        layer_types: ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
      },
    ],
    [
      "ApertusForCausalLM",
      { hidden_act: "xielu", rope_theta: 5000, rope_scaling: { type: "linear", factor: 2 } },
      { hidden_act: "xielu", rope_parameters: { rope_theta: 5000, rope_type: "linear", factor: 2 } },
    ],
    [
      "SmolLM3ForCausalLM",
      {},
      { rope_parameters: { rope_theta: 2e6, rope_type: "default" }, no_rope_layers: [1, 1, 1, 0] },
    ],
    ["Qwen3MoeForCausalLM", {}, { num_experts: undefined, num_local_experts: 4 }],
  ];
  for (const [architecture, older, newer] of pairs) {
    assert.deepEqual(parse(architecture, older), parse(architecture, newer), architecture);
  }
});

test("windows: which layers have one", () => {
  assert.deepEqual(parse("MistralForCausalLM", { sliding_window: 24 }).windows, [24, 24, 24, 24]);
  assert.deepEqual(parse("MistralForCausalLM", { sliding_window: null }).windows, [0, 0, 0, 0]);
  assert.deepEqual(parse("MistralForCausalLM", { max_position_embeddings: 9000 }).windows, [4096, 4096, 4096, 4096]);
  const qwen = { sliding_window: 24, max_window_layers: 3 };
  assert.deepEqual(parse("Qwen2ForCausalLM", qwen).windows, [0, 0, 0, 0]);
  assert.deepEqual(parse("Qwen2ForCausalLM", { ...qwen, use_sliding_window: true }).windows, [0, 0, 0, 24]);
  assert.deepEqual(parse("Gemma3ForCausalLM", { sliding_window: 24 }).windows, [24, 24, 24, 24]);
  assert.deepEqual(
    parse("Gemma3ForCausalLM", { num_hidden_layers: 6, sliding_window: 24 }).windows,
    [24, 24, 24, 24, 24, 0],
  );
  assert.deepEqual(parse("LlamaForCausalLM").windows, [0, 0, 0, 0]);
});

test("a window as long as the context is full attention, and keeps the rope of its layer", () => {
  const gemma = parse("Gemma3ForCausalLM", { num_hidden_layers: 6, sliding_window: 512 });
  assert.deepEqual(gemma.windows, [0, 0, 0, 0, 0, 0]);
  assert.deepEqual(gemma.ropeOf, [1, 1, 1, 1, 1, 0]);
});

test("absent fields have the family's own defaults", () => {
  assert.equal(parse("LlamaForCausalLM", { num_key_value_heads: undefined }).numKvHeads, 4);
  assert.equal(parse("LlamaForCausalLM", { head_dim: null }).headDim, 16);
  assert.equal(parse("LlamaForCausalLM").isTied, false);
  assert.equal(parse("Gemma2ForCausalLM").isTied, true);
  assert.equal(parse("Gemma2ForCausalLM").attentionSoftcap, 50);
  assert.equal(parse("Gemma2ForCausalLM", { attn_logit_softcapping: null }).attentionSoftcap, 0);
  assert.equal(parse("Gemma3ForCausalLM").finalSoftcap, 0);
  assert.equal(parse("Qwen3ForCausalLM", { head_dim: undefined }).headDim, 128);
  for (const none of [{}, { rope_parameters: null }, { rope_scaling: null }]) {
    const ropeOf = (architecture: string, fields: Record<string, unknown>) =>
      (parse(architecture, { ...fields, ...none }).ropes as RopeConfig[])[0]!;
    const { type, theta } = ropeOf("GptOssForCausalLM", { rope_theta: 5000 });
    assert.deepEqual([type, theta], ["yarn", 5000]);
    assert.equal(ropeOf("ApertusForCausalLM", { hidden_act: "xielu" }).type, "llama3");
  }
  const gpt2 = parse("GPT2LMHeadModel", { n_embd: 64, n_head: 4, n_layer: 2 });
  assert.deepEqual([gpt2.innerSize, gpt2.maxContext, gpt2.isTied], [256, 1024, true]);
});

test("the text part of a larger model is read from text_config", () => {
  const whole = (fields: Record<string, unknown>) =>
    parse("Gemma3ForConditionalGeneration", { vocab_size: undefined, ...fields });
  const text = { hidden_size: 2560, intermediate_size: 10_240, num_hidden_layers: 6, sliding_window: 1024 };
  const config = whole({ text_config: text });
  assert.deepEqual(
    [config.vocabSize, config.numHeads, config.numKvHeads, config.headDim, config.maxContext, config.hiddenSize],
    [262_208, 8, 4, 256, 131_072, 2560],
  );
  assert.throws(() => whole({}), /text_config = missing/);
  assert.throws(() => whole({ text_config: text, quantization_config: { quant_method: "hqq" } }), /quant_method = hqq/);
});

test("what a family cannot honour is refused by name", () => {
  refuses("LlamaForCausalLM", { hidden_act: "mish" }, /hidden_act = mish .* silu, swish, gelu/);
  refuses("LlamaForCausalLM", { rope_scaling: { rope_type: "xpos" } }, /rope_type = xpos/);
  refuses("LlamaForCausalLM", { quantization_config: { quant_method: "bitsandbytes" } }, /quant_method = bitsandbytes/);
  refuses("LlamaForCausalLM", { num_key_value_heads: 3 }, /num_key_value_heads = 3 .*divisor of num_attention_heads/);
  refuses("LlamaForCausalLM", { head_dim: 15 }, /head_dim = 15 .*even/);
  refuses("LlamaForCausalLM", { hidden_size: 62, head_dim: undefined }, /head_dim/);
  refuses("LlamaForCausalLM", { attention_bias: "yes" }, /attention_bias = yes .*true or false/);
  refuses("LlamaForCausalLM", { hidden_size: undefined }, /hidden_size = missing/);
  refuses("LlamaForCausalLM", { vocab_size: -1 }, /vocab_size = -1/);
  refuses("LlamaForCausalLM", { num_hidden_layers: 1e9 }, /num_hidden_layers = 1000000000/);
  refuses("Qwen3ForCausalLM", { layer_types: new Array(4).fill("linear_attention") }, /layer_types = linear_attention/);
  refuses("Qwen3ForCausalLM", { layer_types: ["full_attention"] }, /layer_types .*a list of 4 names/);
  refuses("Gemma2ForCausalLM", { use_bidirectional_attention: true }, /use_bidirectional_attention = true/);
  refuses("MixtralForCausalLM", { num_experts_per_tok: 5 }, /num_experts_per_tok = 5 .*at most 4/);
  refuses("MixtralForCausalLM", { hidden_act: "relu" }, /hidden_act = relu/);
  refuses("Phi3ForCausalLM", { attention_bias: true }, /attention_bias = true/);
  refuses("Phi3ForCausalLM", { partial_rotary_factor: 0.3125 }, /partial_rotary_factor/);
  refuses("SmolLM3ForCausalLM", { no_rope_layers: [1, 0] }, /no_rope_layers .*a list of 4 numbers/);
  refuses("GptOssForCausalLM", { swiglu_limit: 10 }, /swiglu_limit = 10/);
  refuses("GptOssForCausalLM", { quantization_config: { quant_method: "gptq" } }, /quant_method = gptq/);
  refuses("DeepseekV3ForCausalLM", { scoring_func: "softmax" }, /scoring_func = softmax .*sigmoid/);
  refuses("DeepseekV3ForCausalLM", { topk_method: "greedy" }, /topk_method = greedy/);
  refuses("DeepseekV3ForCausalLM", { n_group: 3 }, /n_group = 3 .*divisor of n_routed_experts/);
  refuses("DeepseekV3ForCausalLM", { n_group: 8, topk_group: 1 }, /topk_group = 1 /);
  refuses("GPT2LMHeadModel", { n_embd: 64, n_head: 5 }, /n_head = 5 .*divisor of n_embd/);
  refuses("GPT2LMHeadModel", { add_cross_attention: true }, /add_cross_attention = true/);
});
