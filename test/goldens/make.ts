// Makes the small checkpoints of this folder and their golden.json with the reference device, which agrees with Hugging Face on
// larger ones (docs/reference/models.md). They let a clone by itself notice when a family's numbers change.
//
//   npm run build && node dist/test/goldens/make.js        run from the project's root; writes test/goldens/*/

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { argmax } from "../../src/core/choose-token.js";
import { uniformAt } from "../../src/core/random.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { ModelRunner } from "../../src/engine/core/verify/model-runner.js";
import { logprobSum } from "../../src/engine/core/verify/verify.js";
import { familyOf } from "../../src/models/registry.js";
import { RandomSource, safetensorsOf } from "../support/random-source.js";

const PROMPT_LENGTHS = [1, 6, 41];
const NUM_GREEDY = 12;

const COMMON = {
  vocab_size: 48,
  hidden_size: 24,
  intermediate_size: 32,
  num_hidden_layers: 2,
  num_attention_heads: 3,
  num_key_value_heads: 1,
  head_dim: 8,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  hidden_act: "silu",
  tie_word_embeddings: false,
  dtype: "bfloat16",
  bos_token_id: 0,
  eos_token_id: 1,
};

const CONFIGS: Record<string, Record<string, unknown>> = {
  llama: {
    ...COMMON,
    architectures: ["LlamaForCausalLM"],
    rope_parameters: {
      rope_type: "llama3",
      rope_theta: 10000,
      factor: 4,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 32,
    },
  },
  qwen3: {
    ...COMMON,
    architectures: ["Qwen3ForCausalLM"],
    tie_word_embeddings: true,
    rope_theta: 1000000, // the older spelling
    rope_scaling: { type: "yarn", factor: 4, original_max_position_embeddings: 32 },
  },
  gemma3: {
    ...COMMON,
    architectures: ["Gemma3ForCausalLM"],
    num_hidden_layers: 3,
    hidden_activation: "gelu_pytorch_tanh",
    query_pre_attn_scalar: 12,
    sliding_window: 10,
    sliding_window_pattern: 3,
    rope_theta: 1000000,
    rope_local_base_freq: 10000,
    rope_scaling: { rope_type: "linear", factor: 8 },
    tie_word_embeddings: true,
  },
  mixtral: {
    ...COMMON,
    architectures: ["MixtralForCausalLM"],
    num_local_experts: 4,
    num_experts_per_tok: 2,
    sliding_window: 18,
    rope_parameters: { rope_type: "default", rope_theta: 1000000 },
  },
  "deepseek-v3": {
    ...COMMON,
    architectures: ["DeepseekV3ForCausalLM"],
    first_k_dense_replace: 1,
    kv_lora_rank: 12,
    q_lora_rank: 16,
    qk_nope_head_dim: 8,
    qk_rope_head_dim: 4,
    v_head_dim: 6,
    n_routed_experts: 6,
    n_shared_experts: 1,
    n_group: 3,
    topk_group: 2,
    num_experts_per_tok: 2,
    moe_intermediate_size: 12,
    norm_topk_prob: true,
    routed_scaling_factor: 1.5,
    rope_interleave: true,
    rope_parameters: {
      rope_type: "yarn",
      rope_theta: 10000,
      factor: 4,
      original_max_position_embeddings: 32,
      beta_fast: 32,
      beta_slow: 1,
      mscale: 1,
      mscale_all_dim: 0.8,
    },
  },
};

async function makeGolden(folder: string, config: Record<string, unknown>, seed: number): Promise<void> {
  const device = new ReferenceDevice();
  const source = new RandomSource({ seed, normMean: folder === "gemma3" ? 0 : 1 });
  const family = familyOf(config, "config.json");
  const capacity = { maxTokens: 64, maxLogitRows: 64 };
  const model = family.load(family.parseConfig(config, "config.json"), { device, source, capacity, quantize: "none" });
  const runner = new ModelRunner({ device, model, ...capacity, numSequences: 1, maxLength: 64 });
  const cases: Record<string, unknown>[] = [];
  for (const [i, length] of PROMPT_LENGTHS.entries())
    cases.push(await makeCase(runner, model.spec.vocabSize, length, seed * 10 + i));
  const path = join("test", "goldens", folder);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  writeFileSync(join(path, "model.safetensors"), safetensorsOf(source));
  writeFileSync(
    join(path, "golden.json"),
    `${JSON.stringify({ family: folder, made_with: "pagoda, reference device", cases })}\n`,
  );
}

async function makeCase(
  runner: ModelRunner,
  vocab: number,
  length: number,
  seed: number,
): Promise<Record<string, unknown>> {
  const prompt = Array.from({ length }, (_, i) => Math.floor(uniformAt(seed, 1, i) * vocab));
  const all = await runner.run([{ sequence: 0, tokens: prompt, start: 0, end: length, logitsFrom: 0 }]);
  const last = all.slice((length - 1) * vocab);
  const tokens = [...prompt];
  let logits: Float32Array = last;
  let gap = Number.POSITIVE_INFINITY;
  for (let i = 0; i < NUM_GREEDY; i++) {
    const sorted = Float32Array.from(logits).sort();
    gap = Math.min(gap, sorted[vocab - 1]! - sorted[vocab - 2]!);
    tokens.push(argmax(logits));
    const start = tokens.length - 1;
    logits = await runner.run([{ sequence: 0, tokens, start, end: start + 1, logitsFrom: start }]);
  }
  return {
    prompt,
    last_logits: Array.from(last, (value) => Number(value.toFixed(5))),
    logprob_sum: Number(logprobSum(all, prompt, vocab).toFixed(5)),
    greedy: tokens.slice(length),
    min_top2_gap: gap,
  };
}

for (const [i, [folder, config]] of Object.entries(CONFIGS).entries()) await makeGolden(folder, config, i + 1);
