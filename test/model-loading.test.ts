// Loading: sizes are checked against the tensors, and what is wrong is named.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { FormatError } from "../src/core/errors.js";
import type { HostTensor, TensorSource } from "../src/core/tensor.js";
import { NullDevice } from "../src/device/null/null-device.js";
import { openSafetensors } from "../src/formats/hf/safetensors.js";
import { familyOf } from "../src/models/registry.js";

const OWN = "test/goldens";
const CAPACITY = { maxTokens: 8, maxLogitRows: 8 };

/** A checkpoint with some tensors taken away or renamed. */
class ChangedSource implements TensorSource {
  readonly #inner: TensorSource;
  readonly #nameOf: (name: string) => string | null;
  readonly asked: string[] = [];

  constructor(inner: TensorSource, nameOf: (name: string) => string | null) {
    this.#inner = inner;
    this.#nameOf = nameOf;
  }

  get path(): string {
    return this.#inner.path;
  }

  has(name: string): boolean {
    const inner = this.#nameOf(name);
    return inner !== null && this.#inner.has(inner);
  }

  get(name: string, shape?: readonly number[]): HostTensor {
    this.asked.push(name);
    const inner = this.#nameOf(name);
    if (inner === null)
      throw new FormatError("tensor_missing", { file: this.path, tensor: name, expected: String(shape) });
    return this.#inner.get(inner, shape);
  }

  names(): Iterable<string> {
    return [...this.#inner.names()].flatMap((inner) =>
      [inner, inner.replace(/^model\./, "")].filter((name) => this.#nameOf(name) === inner).slice(0, 1),
    );
  }

  close(): void {
    this.#inner.close();
  }
}

function load(folder: string, changes: Record<string, unknown>, nameOf: (name: string) => string | null = (n) => n) {
  const raw = { ...(JSON.parse(readFileSync(join(OWN, folder, "config.json"), "utf8")) as object), ...changes };
  const family = familyOf(raw, "config.json");
  const source = new ChangedSource(openSafetensors(join(OWN, folder, "model.safetensors")), nameOf);
  let bytes = 0;
  const model = family.load(family.parseConfig(raw, "config.json"), {
    device: new NullDevice(),
    source,
    capacity: CAPACITY,
    quantize: "none",
    onTensor: (size) => {
      bytes += size;
    },
  });
  return { model, source, bytes };
}

const folders = readdirSync(OWN, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== "variants")
  .map((entry) => entry.name);

for (const folder of folders) {
  test(`${folder}: every tensor is asked for once, and its bytes are told`, () => {
    const { source, bytes } = load(folder, {});
    assert.deepEqual([...source.asked].sort(), [...source.names()].sort());
    let total = 0;
    for (const name of source.names()) total += source.get(name).byteLength;
    assert.equal(bytes, total);
  });

  test(`${folder}: any tensor that is missing is named`, () => {
    for (const missing of load(folder, {}).source.asked) {
      assert.throws(
        () => load(folder, {}, (name) => (name === missing ? null : name)),
        (error: unknown) =>
          error instanceof FormatError && error.code === "tensor_missing" && error.message.includes(missing),
      );
    }
  });
}

test("a config that does not match its tensors is refused with the tensor's name", () => {
  const mismatch = (folder: string, changes: Record<string, unknown>, tensor: string): void => {
    assert.throws(
      () => load(folder, changes),
      (error: unknown) =>
        error instanceof FormatError && error.code === "tensor_mismatch" && error.message.includes(tensor),
      tensor,
    );
  };
  mismatch("llama", { vocab_size: 49 }, "model.embed_tokens.weight");
  mismatch("llama", { hidden_size: 23 }, "model.embed_tokens.weight");
  mismatch("llama", { num_key_value_heads: 3 }, "model.layers.0.self_attn.k_proj.weight");
  mismatch("llama", { head_dim: 10 }, "model.layers.0.self_attn.q_proj.weight");
  mismatch("llama", { intermediate_size: 33 }, "model.layers.0.mlp.gate_proj.weight");
  mismatch("mixtral", { num_local_experts: 3 }, "block_sparse_moe.gate.weight");
  mismatch("deepseek-v3", { kv_lora_rank: 13 }, "kv_a_proj_with_mqa.weight");
  mismatch("deepseek-v3", { moe_intermediate_size: 13 }, "experts.0.gate_proj.weight");
});

test("more layers than the checkpoint has", () => {
  assert.throws(() => load("llama", { num_hidden_layers: 3 }), /model\.layers\.2\.input_layernorm\.weight is missing/);
});

test("a checkpoint saved without the model's prefix loads the same", () => {
  const { model } = load("llama", {}, (name) =>
    name.startsWith("model.") ? null : name === "lm_head.weight" ? name : `model.${name}`,
  );
  assert.equal(model.spec.numLayers, 2);
});

test("an untied head must be there", () => {
  assert.throws(() => load("qwen3", { tie_word_embeddings: false }), /lm_head\.weight is missing/);
});

test("a tensor that nothing reads is refused by name, but for those that may be there", () => {
  const unread = (changes: Record<string, unknown>, tensor: string): void => {
    assert.throws(
      () => load("llama", changes),
      (error: unknown) =>
        error instanceof FormatError && error.code === "tensor_unread" && error.message.includes(tensor),
    );
  };
  unread({ num_hidden_layers: 1 }, "model.layers.1.");
  load("llama", { tie_word_embeddings: true }); // the head is a copy of the embedding then
});
