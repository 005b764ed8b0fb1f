// Architectures by what their files hold, where no golden has it: older layouts, and choices that a file leaves to its reader.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { toFloat32 } from "../src/core/dequantize/dequantize.js";
import { openGgufModel } from "../src/formats/gguf/gguf-model.js";
import { ggufVariations } from "./support/gguf-variations.js";
import { type GgufTensor, type GgufValue, writeGguf } from "./support/gguf-writer.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-gguf-architectures-"));
after(() => rmSync(folder, { recursive: true }));

/** Ascending numbers, so that it can be seen where each went. */
function tensor(name: string, ...shape: number[]): GgufTensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return { name, dtype: "f32", shape, bytes: new Uint8Array(Float32Array.from({ length: count }, (_, i) => i).buffer) };
}

function open(architecture: string, keys: Record<string, GgufValue>, tensors: GgufTensor[]) {
  const metadata: Record<string, GgufValue> = { "general.architecture": architecture };
  const common = { context_length: 64, embedding_length: 4, block_count: 1, feed_forward_length: 8 };
  const all = { ...common, "attention.head_count": 2, ...keys };
  for (const [key, value] of Object.entries(all)) metadata[`${architecture}.${key}`] = value;
  const path = join(folder, `${architecture}.gguf`);
  writeFileSync(path, writeGguf(metadata, [tensor("token_embd.weight", 8, 4), ...tensors]));
  const { config, source } = openGgufModel(path);
  return { config, source, values: (name: string) => [...toFloat32(source.get(name))] };
}

test("phi2: q, k and v of older files, in one matrix, are taken apart", () => {
  const { source, values } = open("phi2", {}, [
    tensor("blk.0.attn_qkv.weight", 12, 4),
    tensor("blk.0.attn_qkv.bias", 12),
  ]);
  for (const [i, part] of ["q", "k", "v"].entries()) {
    assert.deepEqual(source.get(`model.layers.0.self_attn.${part}_proj.weight`).shape, [4, 4]);
    assert.deepEqual(values(`model.layers.0.self_attn.${part}_proj.bias`), [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3]);
  }
});

test("chatglm: q, k and v in one matrix, with fewer key heads", () => {
  const { config, values } = open("chatglm", { "attention.head_count_kv": 1, "rope.dimension_count": 1 }, [
    tensor("blk.0.attn_qkv.bias", 8),
  ]);
  assert.equal(config.attention_bias, true);
  assert.deepEqual(values("model.layers.0.self_attn.k_proj.bias"), [4, 5]);
  assert.deepEqual(values("model.layers.0.self_attn.v_proj.bias"), [6, 7]);
});

test("stablelm: norms of the heads, in one matrix, are taken apart; without a second norm the halves run side by side", () => {
  const { config, values } = open("stablelm", {}, [tensor("blk.0.attn_q_norm.weight", 2, 2)]);
  assert.equal(config.qk_layernorm, true);
  assert.equal(config.use_parallel_residual, true);
  assert.deepEqual(values("model.layers.0.self_attn.q_layernorm.norms.1.weight"), [2, 3]);
});

test("gptneox: rows of q, k, v of all heads become those of each head", () => {
  const { values } = open("gptneox", { use_parallel_residual: false }, [tensor("blk.0.attn_qkv.bias", 12)]);
  assert.deepEqual(values("gpt_neox.layers.0.attention.query_key_value.bias"), [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]);
});

test("command-r and gemma: what differs from their successors", () => {
  const cohere = open("command-r", { logit_scale: 0.5 }, [tensor("blk.0.attn_q_norm.weight", 2, 2)]).config;
  assert.deepEqual([cohere.use_qk_norm, cohere.logit_scale, cohere.sliding_window], [true, 0.5, undefined]);
  const gemma = open("gemma", {}, [tensor("output_norm.weight", 4)]);
  assert.deepEqual(gemma.values("model.norm.weight"), [-1, 0, 1, 2]);
});

test("a number for every layer is that number where all are equal", () => {
  const heads = (counts: number[]) => open("llama", { block_count: 2, "attention.head_count_kv": counts }, []).config;
  assert.equal(heads([1, 1]).num_key_value_heads, 1);
  assert.throws(() => heads([1, 2]), /head_count_kv/);
});

test("olmo2 with a window is the third: every fourth layer sees everything", () => {
  const { config } = open("olmo2", { block_count: 5, "attention.sliding_window": 8 }, []);
  assert.deepEqual(config.architectures, ["Olmo3ForCausalLM"]);
  const isFull = (config.layer_types as string[]).map((type) => type === "full_attention");
  assert.deepEqual(isFull, [false, false, false, true, false]);
});

test("gemma4: a single layer's sizes are its own", () => {
  const heads = { "attention.key_length": 2, "attention.key_length_swa": 2, "attention.head_count_kv": 1 };
  const factors = { ...tensor("rope_freqs.weight", 1), bytes: new Uint8Array(Float32Array.of(1).buffer) };
  const { config } = open("gemma4", { ...heads, "attention.sliding_window": 8 }, [factors]);
  assert.deepEqual([config.intermediate_size, config.num_key_value_heads, config.head_dim], [8, 1, 2]);
});

test("stacks of gate and up in one are taken apart, expert by expert", () => {
  const keys = { expert_count: 2, expert_used_count: 1, expert_feed_forward_length: 1 };
  const { values } = open("qwen3moe", keys, [tensor("blk.0.ffn_gate_up_exps.weight", 2, 2, 4)]);
  assert.deepEqual(values("model.layers.0.mlp.experts.0.up_proj.weight"), [4, 5, 6, 7]);
  assert.deepEqual(values("model.layers.0.mlp.experts.1.gate_proj.weight"), [8, 9, 10, 11]);
});

test("deepseek2: the router's scores by what the file has; heads as older files state them", () => {
  const latent = { "attention.kv_lora_rank": 3, "rope.dimension_count": 2, expert_used_count: 1 };
  const older = { "attention.head_count_kv": 2, "attention.key_length": 5, "attention.value_length": 4 };
  const moe = { expert_count: 2, expert_feed_forward_length: 4, leading_dense_block_count: 0 };
  const of = (more: Record<string, GgufValue>, ...tensors: GgufTensor[]) =>
    open("deepseek2", { ...latent, ...older, ...moe, ...more }, tensors).config;
  const v2 = of({});
  assert.deepEqual(v2.architectures, ["DeepseekV2ForCausalLM"]);
  assert.deepEqual([v2.qk_nope_head_dim, v2.v_head_dim, v2.topk_method], [3, 4, "greedy"]);
  assert.equal(of({ expert_group_count: 2 }).topk_method, "group_limited_greedy");
  assert.deepEqual(of({ expert_weights_norm: true }).architectures, ["Mistral4ForCausalLM"]);
  assert.deepEqual(of({}, tensor("blk.0.exp_probs_b.bias", 2)).architectures, ["DeepseekV3ForCausalLM"]);
  assert.throws(() => of({ expert_gating_func: 4 }), /expert_gating_func/);
});

test("deepseek2: yarn's multiplier sharpens both ways", () => {
  const keys = {
    ...{ "attention.kv_lora_rank": 3, "rope.dimension_count": 2, expert_used_count: 1, expert_count: 2 },
    ...{ "attention.head_count_kv": 2, "attention.key_length": 5, "attention.value_length": 4 },
    ...{ expert_feed_forward_length: 4, "rope.scaling.type": "yarn", "rope.scaling.factor": 4 },
    ...{ "rope.scaling.original_context_length": 16 },
  };
  const rope = (more: Record<string, GgufValue>) =>
    open("deepseek2", { ...keys, ...more }, []).config.rope_parameters as Record<string, unknown>;
  const sharpened = rope({ "rope.scaling.yarn_log_multiplier": 0.5 });
  assert.deepEqual([sharpened.mscale, sharpened.mscale_all_dim], [5, 5]);
  assert.equal(rope({}).mscale, undefined);
});

test("llama: experts make a Mixtral, a window a Mistral", () => {
  const kind = (keys: Record<string, GgufValue>) => {
    const { config } = open("llama", keys, []);
    return [(config.architectures as string[])[0], config.sliding_window, config.num_local_experts];
  };
  const experts = { expert_count: 4, expert_used_count: 2 };
  assert.deepEqual(kind({}), ["LlamaForCausalLM", undefined, undefined]);
  assert.deepEqual(kind({ expert_count: 0, expert_used_count: 2 }), ["LlamaForCausalLM", undefined, undefined]);
  assert.deepEqual(kind({ "attention.sliding_window": 8 }), ["MistralForCausalLM", 8, undefined]);
  assert.deepEqual(kind({ ...experts, "attention.sliding_window": 8 }), ["MixtralForCausalLM", 8, 4]);
  assert.deepEqual(kind(experts), ["MixtralForCausalLM", null, 4]);
});

test("llama4: every fourth layer sees everything and turns nothing; a window of 0 means chunks nowhere", () => {
  const keys = { block_count: 5, expert_count: 2, expert_used_count: 1, expert_feed_forward_length: 4 };
  const layers = (more: Record<string, GgufValue>) => {
    const { config } = open("llama4", { ...keys, ...more }, []);
    const isFull = (config.layer_types as string[]).map((type) => type === "full_attention");
    return [isFull, config.no_rope_layers, config.attention_chunk_size, config.attn_temperature_tuning];
  };
  assert.deepEqual(layers({}), [[false, false, false, true, false], [1, 1, 1, 0, 1], 8192, true]);
  assert.deepEqual(layers({ "attention.sliding_window": 0 }), [Array(5).fill(true), Array(5).fill(1), null, false]);
});

test("encoders: what says nothing new of them is read and left", () => {
  const heads = { "attention.head_count_kv": 2 };
  const names = (architecture: string, keys: Record<string, GgufValue>) =>
    open(architecture, { ...heads, ...keys }, []).config.architectures;
  assert.deepEqual(names("nomic-bert", {}), ["NomicBertModel"]);
  const rope = { "rope.dimension_count": 2, "rope.scaling.type": "none" };
  assert.deepEqual(names("modern-bert", rope), ["ModernBertModel"]);
  assert.throws(() => names("bert", {}), /bert\.attention\.head_count_kv/);
});

test("gemma: the 27B models alone scale queries by the model's width", () => {
  const scalar = (architecture: string, block_count: number) =>
    open(architecture, { block_count, "attention.key_length": 6, "attention.sliding_window": 8 }, []).config
      .query_pre_attn_scalar;
  const layers = [45, 46, 47, 61, 62, 63];
  assert.deepEqual(
    layers.map((count) => scalar("gemma2", count)),
    [6, 2, 6, 6, 6, 6],
  );
  assert.deepEqual(
    layers.map((count) => scalar("gemma3", count)),
    [6, 6, 6, 6, 2, 6],
  );
});

test("gemma3n: layers without keys, a matrix of each stream, sizes of each layer", () => {
  const of = (block_count: number, sizes: GgufValue, more: Record<string, GgufValue> = {}) =>
    open(
      "gemma3n",
      {
        ...{ block_count, feed_forward_length: sizes, "attention.sliding_window": 8, "altup.num_inputs": 4 },
        ...{ "attention.head_count_kv": 2, ...more },
      },
      [tensor("blk.0.laurel_l.weight", 3, 4), tensor("altup_proj.weight", 3, 1, 2)],
    );
  const shared = (block_count: number, more = {}) => of(block_count, 8, more).config.num_kv_shared_layers;
  assert.deepEqual(
    [19, 20, 21, 35].map((count) => shared(count)),
    [0, 0, 1, 15],
  );
  assert.equal(shared(35, { "attention.shared_kv_layers": 10 }), 10);
  const { config, source, values } = of(2, [8, 16]);
  assert.deepEqual([config.intermediate_size, config.laurel_rank, config.altup_active_idx], [[8, 16], 3, 0]);
  assert.deepEqual(
    [...source.names()].filter((name) => name.includes("altup")),
    [0, 1, 2].map((i) => `model.altup_projections.${i}.weight`),
  );
  assert.deepEqual(values("model.altup_projections.2.weight"), [4, 5]);
});

test("gemma4: layers without keys may be twice as wide, all of them", () => {
  const factors = { ...tensor("rope_freqs.weight", 2), bytes: new Uint8Array(Float32Array.of(1, 1e30).buffer) };
  const of = (sizes: number[], shared: number, more: Record<string, GgufValue> = {}) =>
    open(
      "gemma4",
      {
        ...{ block_count: sizes.length, feed_forward_length: sizes, "attention.sliding_window": 8 },
        ...{ "attention.key_length": 4, "attention.key_length_swa": 2, "rope.dimension_count": 4 },
        "attention.shared_kv_layers": shared,
        ...{ "attention.head_count_kv": sizes.map((_, layer) => (layer === 5 ? 1 : 2)), ...more },
      },
      [factors],
    ).config;
  const wide = of([4, 4, 4, 4, 4, 8, 8], 2);
  assert.deepEqual(
    [wide.intermediate_size, wide.use_double_wide_mlp, wide.num_kv_shared_layers, wide.num_key_value_heads],
    [4, true, 2, 2],
  );
  assert.deepEqual(wide.per_layer_config, { 5: { head_dim: 4, num_key_value_heads: 1 } });
  assert.deepEqual((wide.rope_parameters as Record<string, object>).full_attention, {
    ...{ rope_type: "proportional", rope_theta: 1e6, partial_rotary_factor: 0.5 },
  });
  assert.equal(of(Array(7).fill(4), 2).use_double_wide_mlp, false);
  assert.equal(of(Array(7).fill(4), 0).use_double_wide_mlp, false);
  for (const [sizes, shared] of [
    [[4, 4, 4, 4, 4, 4, 8], 2],
    [[4, 4, 4, 4, 8, 8, 8], 2],
    [[4, 4, 4, 4, 4, 8, 8], 0],
    [[4, 4, 4, 4, 4, 12, 12], 2],
    [[4, 5, 4, 4, 4, 8, 8], 2],
  ] as const)
    assert.throws(() => of([...sizes], shared), /feed_forward_length.*one size, or twice as much/);
  for (const key of ["attention.value_length", "rope.dimension_count"]) {
    of(Array(7).fill(4), 0, { [key]: 4, [`${key}_swa`]: 2 });
    assert.throws(() => of(Array(7).fill(4), 0, { [key]: 3 }), new RegExp(`${key} = 3`));
    assert.throws(() => of(Array(7).fill(4), 0, { [`${key}_swa`]: 4 }), new RegExp(`${key}_swa = 4`));
  }
});

test("granite: a file without rope is refused, a hybrid may be", () => {
  assert.throws(() => open("granite", { "rope.scaling.finetuned": false }, []), /rope.scaling.finetuned/);
});

test("every architecture: what it is made of plain keys, what each key and tensor changes, what each tensor becomes", () => {
  const expected = readFileSync(new URL("../../test/fixtures/gguf/variations.txt", import.meta.url), "utf8");
  // Not one text: the first line that differs says enough.
  const lines = expected.trimEnd().split("\n");
  const got = ggufVariations();
  for (const [i, line] of got.entries()) assert.equal(line, lines[i]);
  assert.equal(got.length, lines.length);
});
