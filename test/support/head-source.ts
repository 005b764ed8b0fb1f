// Random checkpoints with a head that predicts further tokens: tensors by name, whatever the layout calls them.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HostTensor, TensorSource } from "../../src/core/tensor.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { familyOf } from "../../src/models/registry.js";
import { RandomSource, safetensorsOf } from "./random-source.js";

export type RawConfig = Readonly<Record<string, unknown>>;

const BASE: RawConfig = {
  ...{ hidden_size: 64, intermediate_size: 96, num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2 },
  ...{ head_dim: 16, hidden_act: "silu", rms_norm_eps: 1e-5, rope_theta: 10_000, max_position_embeddings: 512 },
  ...{ vocab_size: 320, tie_word_embeddings: false, bos_token_id: 256, eos_token_id: 257 },
};
const MIXTURE: RawConfig = {
  ...{ moe_intermediate_size: 40, n_routed_experts: 8, n_shared_experts: 1, num_experts_per_tok: 2, n_group: 1 },
  ...{ topk_group: 1, first_k_dense_replace: 1, norm_topk_prob: true, routed_scaling_factor: 1.5 },
};
const DELTA_NET: RawConfig = {
  ...{ linear_num_key_heads: 2, linear_num_value_heads: 4, linear_key_head_dim: 16, linear_value_head_dim: 16 },
  ...{
    full_attention_interval: 2,
    partial_rotary_factor: 0.5,
    rope_parameters: { rope_type: "default", rope_theta: 1e4 },
  },
};

export const DEEPSEEK: RawConfig = {
  ...{ ...BASE, ...MIXTURE, architectures: ["DeepseekV3ForCausalLM"], num_nextn_predict_layers: 1, n_group: 2 },
  ...{ q_lora_rank: 32, kv_lora_rank: 24, qk_nope_head_dim: 24, qk_rope_head_dim: 16, v_head_dim: 20 },
};
export const GLM: RawConfig = {
  ...{ ...BASE, ...MIXTURE, architectures: ["Glm4MoeForCausalLM"], num_nextn_predict_layers: 1 },
  ...{ partial_rotary_factor: 0.5, use_qk_norm: true },
};
export const QWEN_NEXT: RawConfig = {
  ...{ ...BASE, ...DELTA_NET, architectures: ["Qwen3NextForCausalLM"], num_experts: 8, num_experts_per_tok: 2 },
  ...{ moe_intermediate_size: 32, shared_expert_intermediate_size: 32, norm_topk_prob: true, decoder_sparse_step: 1 },
};
export const QWEN35: RawConfig = { ...BASE, ...DELTA_NET, architectures: ["Qwen3_5ForCausalLM"] };
export const ERNIE: RawConfig = {
  ...{ ...BASE, architectures: ["Ernie4_5_MoeForCausalLM"], moe_num_experts: 8, moe_k: 2, moe_intermediate_size: 40 },
  ...{ moe_num_shared_experts: 1, moe_layer_start_index: 1, use_bias: false, num_nextn_predict_layers: 1 },
};

/** A source that says it has what the layout's names are, and no other form. */
export class HeadSource extends RandomSource {
  readonly #names: RegExp;

  constructor(seed: number, names: RegExp, normMean = 1) {
    super({ seed, normMean, absent: /\.bias$/ });
    this.#names = names;
  }

  override has(name: string): boolean {
    return name === "lm_head.weight" || name === "model.embed_tokens.weight" || this.#names.test(name);
  }
}

/** The same tensors under other names. */
export class RenamedSource implements TensorSource {
  readonly path = "renamed";
  readonly #inner: TensorSource;
  readonly #nameOf: (name: string) => string;

  constructor(inner: TensorSource, nameOf: (name: string) => string) {
    this.#inner = inner;
    this.#nameOf = nameOf;
  }

  has(name: string): boolean {
    return this.#inner.has(this.#nameOf(name));
  }

  get(name: string, shape?: readonly number[]): HostTensor {
    return this.#inner.get(this.#nameOf(name), shape);
  }

  names(): Iterable<string> {
    return [];
  }

  close(): void {}
}

/** Writes the model and its head to a folder; `edit` may change tensors before. */
export function writeWithHead(
  raw: RawConfig,
  source: HeadSource,
  edit: (source: HeadSource) => void = () => {},
): string {
  const family = familyOf(raw, "config.json");
  const config = family.parseConfig(raw, "config.json");
  const capacity = { maxTokens: 8, maxLogitRows: 4 };
  family.load(config, { device: new ReferenceDevice(), source, capacity, quantize: "none", withHead: true });
  edit(source);
  const folder = mkdtempSync(join(tmpdir(), "pagoda-head-"));
  writeFileSync(join(folder, "config.json"), JSON.stringify(raw));
  writeFileSync(join(folder, "model.safetensors"), safetensorsOf(source));
  return folder;
}

/** A tensor of the source becomes these numbers. */
export function setTensor(source: HeadSource, name: string, of: (row: number, col: number) => number): void {
  const { shape } = source.get(name);
  const [rows, cols] = shape.length === 1 ? [1, shape[0]!] : (shape as [number, number]);
  const codes = new Uint16Array(rows * cols);
  const one = new Float32Array(1);
  const bits = new Uint32Array(one.buffer);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) {
      one[0] = of(r, c);
      codes[r * cols + c] = bits[0]! >>> 16; // exact for what tests set
    }
  }
  const bytes = new Uint8Array(codes.buffer);
  source.tensors.set(name, { name, dtype: "bf16", shape, file: null, byteLength: bytes.length, bytes: () => bytes });
}
