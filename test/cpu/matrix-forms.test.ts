// Weights that are only multiplied may be held in another form (amx: q8_0 and q4_0 over spans of columns, bf16 in 12 bits). Models whose matrices come out
// of stacks and slices: every one of them is in that form where there is one, and the logits are the same bits as without it.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { HostTensor } from "../../src/core/tensor.js";
import type { Device, Weight } from "../../src/device/device.js";
import { ModelRunner } from "../../src/engine/core/verify/model-runner.js";
import { familyOf } from "../../src/models/registry.js";
import { assertSameBits } from "../contract/duel.js";
import { openCpu } from "../support/cpu.js";
import { overriding } from "../support/overriding.js";
import { RandomSource } from "../support/random-source.js";

/** Half a span of columns or more, in pairs of blocks, so that the other form is no larger. */
const COMMON = {
  vocab_size: 40,
  hidden_size: 128,
  intermediate_size: 384,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  num_key_value_heads: 2,
  head_dim: 64,
  max_position_embeddings: 64,
  rms_norm_eps: 1e-6,
  hidden_act: "silu",
  tie_word_embeddings: false,
  num_local_experts: 4,
  num_experts_per_tok: 2,
  rope_theta: 10000,
};
const MODELS: Record<string, { config: Record<string, unknown>; absent?: RegExp }> = {
  "experts in stacks": { config: { ...COMMON, architectures: ["MixtralForCausalLM"] } },
  "experts one by one": { config: { ...COMMON, architectures: ["MixtralForCausalLM"] }, absent: /gate_up_proj$/ },
  "gpt-oss": {
    config: { ...COMMON, architectures: ["GptOssForCausalLM"], sliding_window: 8, layer_types: ["full_attention"] },
    absent: /experts\.0\.|_blocks$/,
  },
  "latent attention, shared experts": {
    config: {
      ...COMMON,
      architectures: ["DeepseekV3ForCausalLM"],
      first_k_dense_replace: 0,
      kv_lora_rank: 128,
      q_lora_rank: 128,
      qk_nope_head_dim: 128,
      qk_rope_head_dim: 32,
      v_head_dim: 64,
      n_routed_experts: 4,
      n_shared_experts: 1,
      n_group: 1,
      topk_group: 1,
      moe_intermediate_size: 128,
      norm_topk_prob: true,
      routed_scaling_factor: 1,
    },
  },
};
const LENGTH = 24;
const CAPACITY = { maxTokens: LENGTH, maxLogitRows: LENGTH };

const cpu = await openCpu();
after(() => cpu.device?.close());

/** From how many columns on the form is smaller; heads are q8 beside q4. */
const SMALLER_FROM: Record<string, number> = { q8: 64, q4: 128, bf16: 64 };
const cases = Object.entries(MODELS).flatMap(([name, model]) =>
  (["q8", "q4"] as const).map((quantize) => ({ name, quantize, ...model })),
);

for (const { name, quantize, config, absent } of cases) {
  test(`${name}: matrices of ${quantize} in the form for products, the same bits`, { skip: cpu.reason }, async () => {
    const device = cpu.device!;
    const family = familyOf(config, "config.json");
    const load = async (asMatrices: boolean) => {
      const weights: { weight: Weight; isTable: boolean }[] = [];
      const watched = overriding<Device>(device, {
        loadWeight(parts: readonly HostTensor[], options = {}) {
          const weight = device.loadWeight(parts, asMatrices ? options : { ...options, isMatrix: false });
          weights.push({ weight, isTable: options.isTable === true });
          return weight;
        },
      });
      const source = new RandomSource({ seed: 3, ...(absent && { absent }) });
      const context = { device: watched, source, capacity: CAPACITY, quantize };
      const model = family.load(family.parseConfig(config, "config.json"), context);
      const runner = new ModelRunner({ device, model, ...CAPACITY, numSequences: 1, maxLength: LENGTH });
      const tokens = Array.from({ length: LENGTH }, (_, i) => (i * 7) % COMMON.vocab_size);
      // Many rows, and one.
      const logits = [await runner.run([{ sequence: 0, tokens, start: 0, end: LENGTH - 1, logitsFrom: 0 }])];
      logits.push(await runner.run([{ sequence: 0, tokens, start: LENGTH - 1, end: LENGTH, logitsFrom: LENGTH - 1 }]));
      return { weights, logits };
    };
    const [own, plain] = [await load(true), await load(false)];
    for (const [i, logits] of own.logits.entries()) assertSameBits(logits, plain.logits[i]!, `step ${i}`);
    const isSmaller = own.weights.map(({ weight }, i) => weight.byteLength < plain.weights[i]!.weight.byteLength);
    const hasForm = device.info.numerics === "cpu-amx";
    const expected = own.weights.map(
      ({ weight, isTable }) => hasForm && !isTable && weight.cols >= (SMALLER_FROM[weight.dtype] ?? Infinity),
    );
    assert.deepEqual(isSmaller, expected);
    assert.ok(own.weights.filter(({ weight }) => weight.dtype in SMALLER_FROM).length > 10);
    assert.ok(own.weights.some(({ weight }) => weight.dtype === quantize));
  });
}
