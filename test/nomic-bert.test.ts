// NomicBERT, of which there is no golden: against its definition written out in f64, from safetensors and from GGUF.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { toFloat32 } from "../src/core/dequantize/dequantize.js";
import type { TensorSource } from "../src/core/tensor.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { verifyModel } from "../src/engine/core/verify/verify.js";
import { writeGguf } from "./support/gguf-writer.js";
import { writeTinyEncoder } from "./support/tiny-encoder.js";

const CONFIG = {
  architectures: ["NomicBertModel"],
  n_embd: 24,
  n_head: 3,
  n_layer: 2,
  n_inner: 20,
  n_positions: 64,
  vocab_size: 40,
  rotary_emb_base: 1000,
  layer_norm_epsilon: 1e-12,
  type_vocab_size: 2,
};
const PROMPT = [3, 17, 5, 39, 0, 21, 8];
const [D, H, HEAD] = [CONFIG.n_embd, CONFIG.n_head, CONFIG.n_embd / CONFIG.n_head];

type Rows = number[][];

/** The hidden states by the definition. */
function forward(source: TensorSource): Rows {
  const values = (name: string) => toFloat32(source.get(name));
  const linear = (x: Rows, name: string): Rows => {
    const w = values(`${name}.weight`);
    const outputs = w.length / x[0]!.length;
    return x.map((row) =>
      Array.from({ length: outputs }, (_, o) => row.reduce((sum, v, i) => sum + v * w[o * row.length + i]!, 0)),
    );
  };
  const norm = (x: Rows, name: string): Rows => {
    const [w, b] = [values(`${name}.weight`), values(`${name}.bias`)];
    return x.map((row) => {
      const mean = row.reduce((sum, v) => sum + v, 0) / D;
      const variance = row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / D;
      return row.map((v, i) => ((v - mean) / Math.sqrt(variance + CONFIG.layer_norm_epsilon)) * w[i]! + b[i]!);
    });
  };
  const add = (a: Rows, b: Rows): Rows => a.map((row, t) => row.map((v, i) => v + b[t]![i]!));
  const rotated = (head: number[], position: number): number[] =>
    head.map((v, i) => {
      const half = HEAD / 2;
      const angle = position / 1000 ** ((2 * (i % half)) / HEAD);
      const other = i < half ? -head[i + half]! : head[i - half]!;
      return v * Math.cos(angle) + other * Math.sin(angle);
    });

  const words = values("embeddings.word_embeddings.weight");
  const types = values("embeddings.token_type_embeddings.weight");
  const embedded = PROMPT.map((id) => Array.from({ length: D }, (_, i) => words[id * D + i]! + types[i]!));
  let x = norm(embedded, "emb_ln");
  for (let layer = 0; layer < CONFIG.n_layer; layer++) {
    const name = `encoder.layers.${layer}`;
    const qkv = linear(x, `${name}.attn.Wqkv`);
    const head = (t: number, part: number, h: number) => qkv[t]!.slice(part * D + h * HEAD, part * D + (h + 1) * HEAD);
    const mixed = x.map((_, t) =>
      Array.from({ length: H }, (_, h) => {
        const q = rotated(head(t, 0, h), t);
        const scores = x.map(
          (_, s) => rotated(head(s, 1, h), s).reduce((sum, k, i) => sum + k * q[i]!, 0) / Math.sqrt(HEAD),
        );
        const weights = scores.map((score) => Math.exp(score - Math.max(...scores)));
        const total = weights.reduce((sum, w) => sum + w, 0);
        return Array.from({ length: HEAD }, (_, i) =>
          weights.reduce((sum, w, s) => sum + (w / total) * head(s, 2, h)[i]!, 0),
        );
      }).flat(),
    );
    x = norm(add(x, linear(mixed, `${name}.attn.out_proj`)), `${name}.norm1`);
    const gate = linear(x, `${name}.mlp.fc12`);
    const inner = linear(x, `${name}.mlp.fc11`).map((row, t) =>
      row.map((v, i) => (v * gate[t]![i]!) / (1 + Math.exp(-gate[t]![i]!))),
    );
    x = norm(add(x, linear(inner, `${name}.mlp.fc2`)), `${name}.norm2`);
  }
  return x;
}

const GGUF_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^embeddings\.word_embeddings/, "token_embd"],
  [/^embeddings\.token_type_embeddings/, "token_types"],
  [/^emb_ln/, "token_embd_norm"],
  [/^encoder\.layers\.(\d+)\.attn\.Wqkv/, "blk.$1.attn_qkv"],
  [/^encoder\.layers\.(\d+)\.attn\.out_proj/, "blk.$1.attn_output"],
  [/^encoder\.layers\.(\d+)\.norm1/, "blk.$1.attn_output_norm"],
  [/^encoder\.layers\.(\d+)\.norm2/, "blk.$1.layer_output_norm"],
  [/^encoder\.layers\.(\d+)\.mlp\.fc11/, "blk.$1.ffn_up"],
  [/^encoder\.layers\.(\d+)\.mlp\.fc12/, "blk.$1.ffn_gate"],
  [/^encoder\.layers\.(\d+)\.mlp\.fc2/, "blk.$1.ffn_down"],
];

test("NomicBERT is what its definition says, from either format", async () => {
  const model = writeTinyEncoder(CONFIG);
  const scratch = mkdtempSync(join(tmpdir(), "pagoda-nomic-"));
  try {
    const { config, openTensors } = openCheckpoint(model);
    assert.equal((config.architectures as string[])[0], "NomicBertModel");
    const source = openTensors();
    const bare = { ...source, get: (name: string) => source.get(source.has(name) ? name : `bert.${name}`) };
    const expected = forward(bare);
    const cases = [{ prompt: PROMPT, first: expected[0], last: expected.at(-1) }];
    for (const folder of [model, scratch]) writeFileSync(join(folder, "golden.json"), JSON.stringify({ cases }));
    const tensors = [...source.names()].map((name) => {
      const { shape } = source.get(name);
      const [pattern, own] = GGUF_NAMES.find(([known]) => known.test(name.replace(/^bert\./, "")))!;
      const data = toFloat32(source.get(name));
      return {
        name: name.replace(/^bert\./, "").replace(pattern, own),
        dtype: "f32" as const,
        shape,
        bytes: new Uint8Array(data.buffer),
      };
    });
    const metadata = {
      "general.architecture": "nomic-bert",
      "nomic-bert.embedding_length": D,
      "nomic-bert.block_count": CONFIG.n_layer,
      "nomic-bert.feed_forward_length": CONFIG.n_inner,
      "nomic-bert.context_length": CONFIG.n_positions,
      "nomic-bert.attention.head_count": H,
      "nomic-bert.attention.layer_norm_epsilon": 1e-12,
      "nomic-bert.attention.causal": false,
      "nomic-bert.rope.freq_base": 1000,
      "nomic-bert.pooling_type": 1,
    };
    writeFileSync(join(scratch, "model.gguf"), writeGguf(metadata, tensors));
    for (const folder of [model, scratch]) {
      const [result] = (await verifyModel(folder, new ReferenceDevice())).cases;
      assert.ok(result!.isOk && result!.logitDifference! < 1e-5, `${folder}: ${result!.logitDifference}`);
    }
  } finally {
    rmSync(scratch, { recursive: true });
    rmSync(model, { recursive: true });
  }
});
