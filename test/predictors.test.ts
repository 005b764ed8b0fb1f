// Heads that guess: their logits are those of a plain reference, a head rigged to be the model is always right, and none changes an answer.

import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Batch } from "../src/core/batch.js";
import { toFloat32 } from "../src/core/dequantize/dequantize.js";
import type { TensorSource } from "../src/core/tensor.js";
import type { Device } from "../src/device/device.js";
import { readTensor } from "../src/device/read-tensor.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { createEngine, type EngineOptions } from "../src/engine/client/engine.js";
import { allocCaches, plannerFor } from "../src/engine/core/load/cache-pools.js";
import type { Engine, GenerateOptions } from "../src/engine/types.js";
import type { Caches, InputRows, Model, PlanSpec } from "../src/models/model.js";
import { Eagle3Head, readEagle3, tapsOf } from "../src/models/predictors/eagle3.js";
import type { Predictor } from "../src/models/predictors/predictor.js";
import { familyOf } from "../src/models/registry.js";
import { convertToGguf } from "./support/gguf-converter.js";
import {
  DEEPSEEK,
  ERNIE,
  GLM,
  HeadSource,
  QWEN_NEXT,
  QWEN35,
  type RawConfig,
  RenamedSource,
  setTensor,
  writeWithHead,
} from "./support/head-source.js";
import { RandomSource } from "./support/random-source.js";
import { writeSafetensors } from "./support/safetensors-writer.js";
import { withByteTokenizer, writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const LENGTH = 40;
const HIDDEN = 64;
const ONES = "ones.norm.weight";
const TOKENS = Int32Array.from({ length: LENGTH + 1 }, (_, i) => (i * 37 + 11) % 250);

// --- logits ----------------------------------------------------------------------------------------------------------

interface Layout {
  readonly raw: RawConfig;
  readonly names: RegExp;
  readonly normMean?: number;
  /** Of the head's parts: its layer, the norms of embedding and state, the projection, the last norm. */
  readonly parts: readonly [string, string, string, string, string | null];
  /** A model of one layer that is the head's. */
  readonly one: RawConfig;
}

const appended = "model.layers.4";
const LAYOUTS: Readonly<Record<string, Layout>> = {
  "DeepSeek-V3": {
    raw: DEEPSEEK,
    names: /^model\.layers\.4\.eh_proj/,
    parts: [appended, `${appended}.enorm`, `${appended}.hnorm`, `${appended}.eh_proj`, `${appended}.shared_head.norm`],
    one: { ...DEEPSEEK, num_hidden_layers: 1, first_k_dense_replace: 0 },
  },
  "GLM-4.5": {
    raw: GLM,
    names: /^model\.layers\.4\.eh_proj/,
    parts: [appended, `${appended}.enorm`, `${appended}.hnorm`, `${appended}.eh_proj`, `${appended}.shared_head.norm`],
    one: { ...GLM, num_hidden_layers: 1, first_k_dense_replace: 0 },
  },
  "Qwen3-Next": {
    raw: QWEN_NEXT,
    names: /^mtp\.fc/,
    normMean: 0,
    parts: ["mtp.layers.0", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"],
    one: { ...QWEN_NEXT, num_hidden_layers: 1, full_attention_interval: 1 },
  },
  "Qwen3.5": {
    raw: QWEN35,
    names: /^mtp\.fc/,
    normMean: 0,
    parts: ["mtp.layers.0", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"],
    one: { ...QWEN35, num_hidden_layers: 1, full_attention_interval: 1 },
  },
  "ERNIE 4.5": {
    raw: ERNIE,
    names: /^model\.mtp_linear_proj/,
    parts: ["model.mtp_block.0", "model.mtp_emb_norm.0", "model.mtp_hidden_norm.0", "model.mtp_linear_proj.0", null],
    one: { ...ERNIE, architectures: ["Ernie4_5ForCausalLM"], num_hidden_layers: 1 },
  },
};

for (const [name, layout] of Object.entries(LAYOUTS)) {
  test(`${name}: the head's logits are those of its layer as a model, over a plain sum of its inputs`, async () => {
    const device = new ReferenceDevice();
    const source = new HeadSource(7, layout.names, layout.normMean);
    const model = load(layout.raw, device, source, { withHead: true });
    const head = model.predictor!;
    const hidden = await runModel(device, model, TOKENS.subarray(0, LENGTH));
    const logits = await runHead(device, head);

    const [layer, embeddingNorm, hiddenNorm, project, finalNorm] = layout.parts;
    const offset = layout.normMean === 0 ? 1 : 0;
    const norm = (x: Float32Array, part: string) => normed(x, source, `${part}.weight`, offset);
    const table = valuesOf(source, "model.embed_tokens.weight");
    const inputs = new Float32Array(LENGTH * HIDDEN);
    const matrix = valuesOf(source, `${project}.weight`);
    for (let i = 0; i < LENGTH; i++) {
      const embedding = table.subarray(TOKENS[i + 1]! * HIDDEN, (TOKENS[i + 1]! + 1) * HIDDEN);
      const both = [
        ...norm(embedding, embeddingNorm),
        ...norm(hidden.subarray(i * HIDDEN, (i + 1) * HIDDEN), hiddenNorm),
      ];
      inputs.set(product(matrix, Float32Array.from(both)), i * HIDDEN);
    }
    source.get(ONES, [HIDDEN]);
    setTensor(source, ONES, () => 1);
    const other = new ReferenceDevice();
    const renamed = new RenamedSource(source, (asked) => {
      if (asked === "model.norm.weight") return finalNorm === null ? ONES : `${finalNorm}.weight`;
      return asked.replace(/^model\.layers\.0\./, `${layer}.`);
    });
    const one = load(layout.one, other, renamed, {});
    const expected = await runOne(other, one, inputs);
    // Without a norm of its own the head's logits are the same but for their size.
    const vocabSize = logits.length / LENGTH;
    for (let t = 0; t < LENGTH && finalNorm === null; t++) {
      const [a, b] = [logits, expected].map((all) => all.subarray(t * vocabSize, (t + 1) * vocabSize));
      assert.ok(cosine(a!, b!) > 1 - 1e-6, `position ${t}`);
    }
    if (finalNorm !== null) assertClose(logits, expected);
  });
}

for (const [architecture, name] of [
  ["deepseek2", "DeepSeek-V3"],
  ["glm4moe", "GLM-4.5"],
] as const) {
  test(`${name}: the head of a GGUF file is the folder's`, async () => {
    const { raw, names } = LAYOUTS[name]!;
    const folder = writeWithHead(raw, new HeadSource(8, names));
    const file = join(folder, "model.gguf");
    const keys = { [`${architecture}.block_count`]: 5, [`${architecture}.nextn_predict_layers`]: 1 };
    writeFileSync(file, convertToGguf(folder, "f32", false, undefined, [], keys));
    const [ours, theirs] = await Promise.all([folder, file].map(logitsOfCheckpoint));
    assertClose(theirs!, ours!);
  });
}

for (const format of ["SafeAILab", "speculators"] as const) {
  test(`EAGLE-3, ${format}: logits are those of the head written out`, async () => {
    const device = new ReferenceDevice();
    const raw = eagleConfig(format);
    const main = load(MAIN, device, new RandomSource({ seed: 3 }), { taps: tapsOf(readEagle3(raw, ""), 4) });
    const source = eagleSource(format);
    const config = readEagle3(raw, "config.json");
    const capacity = { maxTokens: 64, maxLogitRows: 64 };
    const head = new Eagle3Head(config, { device, source, capacity, quantize: "none" }, main);
    await runModel(device, main, TOKENS.subarray(0, LENGTH));
    const taps = new Float32Array(LENGTH * 3 * HIDDEN);
    await readTensor(device, taps, main.taps!, 0, LENGTH);
    const logits = await runHead(device, head);
    assertClose(logits, eagleReference(source, taps, format));
    assert.deepEqual([...head.vocabulary!.subarray(0, 3)], [1, 2, 3], "ids of the model");
  });
}

test("EAGLE-3's inputs are the streams before the layers it names", async () => {
  const taps = [1, 2, 3];
  const device = new ReferenceDevice();
  const source = new RandomSource({ seed: 3 });
  const main = load(MAIN, device, source, { taps });
  await runModel(device, main, TOKENS.subarray(0, LENGTH));
  const seen = new Float32Array(LENGTH * 3 * HIDDEN);
  await readTensor(device, seen, main.taps!, 0, LENGTH);
  for (const [i, layers] of taps.entries()) {
    const other = new ReferenceDevice();
    const some = new RenamedSource(source, (asked) => asked);
    const cut = load({ ...MAIN, num_hidden_layers: layers }, other, some, {});
    const hidden = await runModel(other, cut, TOKENS.subarray(0, LENGTH));
    for (const t of [0, 9, LENGTH - 1]) {
      const stream = seen.subarray((3 * t + i) * HIDDEN, (3 * t + i + 1) * HIDDEN);
      assertClose(normed(stream, source, "model.norm.weight", 0), hidden.subarray(t * HIDDEN, (t + 1) * HIDDEN));
    }
  }
});

// --- answers ---------------------------------------------------------------------------------------------------------

const BASE: EngineOptions = { worker: false, numPages: 300, threads: 2, targetStepMs: 0, device: "reference" };
const PROMPT = Array.from({ length: 37 }, (_, i) => 60 + ((i * i) % 11));

test("a head that is the model is right every time, at any temperature", async () => {
  // Layers that add nothing: the next token depends on the last one alone, and the head sees that one's embedding.
  const source = new HeadSource(5, LAYOUTS["DeepSeek-V3"]!.names);
  const folder = writeWithHead(DEEPSEEK, source, () => {
    for (const name of source.tensors.keys())
      if (/(o_proj|down_proj)\.weight$/.test(name)) setTensor(source, name, () => 0);
    for (const part of ["enorm", "shared_head.norm"]) setTensor(source, `${appended}.${part}.weight`, () => 1);
    setTensor(source, "model.norm.weight", () => 1);
    setTensor(source, `${appended}.eh_proj.weight`, (row, col) => (row === col ? 1 : 0));
  });
  await using engine = await createEngine({ ...BASE, model: withByteTokenizer(folder, 320), speculative: "mtp" });
  for (const temperature of [0, 0.7, 1.5]) {
    const before = (await engine.stats()).speculation;
    await engine.generate(PROMPT, { maxTokens: 32, temperature, seed: 4, ignoreEos: true }).result();
    const { draftTokens, acceptedTokens, drafts } = (await engine.stats()).speculation;
    assert.ok(draftTokens - before.draftTokens > 16);
    assert.ok(draftTokens - before.draftTokens > drafts - before.drafts, "several tokens a step");
    assert.equal(acceptedTokens - before.acceptedTokens, draftTokens - before.draftTokens);
  }
});

for (const [name, raw, names] of [
  ["DeepSeek-V3", DEEPSEEK, LAYOUTS["DeepSeek-V3"]!.names],
  ["GLM-4.5", GLM, LAYOUTS["GLM-4.5"]!.names],
  ["ERNIE 4.5", ERNIE, LAYOUTS["ERNIE 4.5"]!.names],
  ["Qwen3-Next, which is recurrent", QWEN_NEXT, LAYOUTS["Qwen3-Next"]!.names],
  ["Qwen3.5, which is recurrent", QWEN35, LAYOUTS["Qwen3.5"]!.names],
] as const) {
  test(`${name}: answers with its head are those without`, async () => {
    const normMean = /^Qwen/.test(name) ? 0 : 1;
    const folder = withByteTokenizer(writeWithHead(raw, new HeadSource(6, names, normMean)), 320);
    await using engine = await createEngine({ ...BASE, model: folder, speculative: "mtp" });
    await assertSameAnswers(engine, "mtp");
  });
}

for (const format of ["SafeAILab", "speculators"] as const) {
  test(`EAGLE-3, ${format}: answers with the head are those without`, async () => {
    const model = writeTinyCheckpoint({ hidden: HIDDEN, layers: 4, heads: 4 });
    await using engine = await createEngine({ ...BASE, model, draftModel: writeEagle(format), speculative: "eagle3" });
    await assertSameAnswers(engine, "eagle3");
  });
}

test("heads that are not there, or do not fit, are refused by a code", async () => {
  const tiny = writeTinyCheckpoint();
  await assert.rejects(createEngine({ ...BASE, model: tiny, speculative: "mtp" }), { code: "draft_unsuitable" });
  const other = writeTinyCheckpoint({ hidden: 48, layers: 2 });
  await assert.rejects(createEngine({ ...BASE, model: other, draftModel: writeEagle("SafeAILab") }), {
    code: "draft_unsuitable",
  });
  const ids = withByteTokenizer(writeWithHead(GLM, new HeadSource(6, LAYOUTS["GLM-4.5"]!.names)), 320);
  await assert.rejects(createEngine({ ...BASE, model: ids, draftModel: writeEagle("SafeAILab") }), {
    code: "draft_vocabulary",
  });
});

async function assertSameAnswers(engine: Engine, method: "mtp" | "eagle3"): Promise<void> {
  const base: GenerateOptions = { maxTokens: 20, temperature: 0, ignoreEos: true, logprobs: 1 };
  const asked: GenerateOptions[] = [
    base,
    { ...base, temperature: 0.8, topK: 20 },
    { ...base, temperature: 1.1, n: 2 },
    { ...base, temperature: 0.4, repetitionPenalty: 1.2 },
  ];
  const ask = async (speculative: "off" | typeof method) => {
    const generations = asked.map((options, seed) =>
      engine.generate([...PROMPT, seed, ...PROMPT.slice(seed)], { ...options, seed, speculative }).result(),
    );
    return (await Promise.all(generations)).map(({ samples }) => samples);
  };
  const plain = await ask("off");
  assert.equal((await engine.stats()).speculation.drafts, 0);
  assert.deepEqual(await ask(method), plain);
  assert.ok((await engine.stats()).speculation.draftTokens > 20);
  assert.equal((await engine.stats()).pagesUsed, 0, "pages leak");
}

// --- running things by hand ------------------------------------------------------------------------------------------

function load(
  raw: RawConfig,
  device: Device,
  source: TensorSource,
  extra: { withHead?: boolean; taps?: readonly number[] },
) {
  const family = familyOf(raw, "config.json");
  const capacity = { maxTokens: 64, maxLogitRows: 64 };
  return family.load(family.parseConfig(raw, "config.json"), { device, source, capacity, quantize: "none", ...extra });
}

const PAGE = { pageSize: 16, dtype: "f32" } as const;
const PAGES = Int32Array.from({ length: 8 }, (_, i) => 8 - i);

/** Of the head that a checkpoint on disk carries. */
async function logitsOfCheckpoint(path: string): Promise<Float32Array> {
  const device = new ReferenceDevice();
  const checkpoint = openCheckpoint(path);
  const source = checkpoint.openTensors();
  const model = load(checkpoint.config, device, source, { withHead: true });
  source.close();
  await runModel(device, model, TOKENS.subarray(0, LENGTH));
  return runHead(device, model.predictor!);
}

/** A batch of one row over all tokens, staged with its plans. */
function staged(device: Device, caches: Model["spec"]["caches"], plans: readonly PlanSpec[], tokens: Int32Array) {
  const paged = caches.filter(({ kind }) => kind !== "state").length;
  const batch = new Batch(PAGE.pageSize, 64, paged);
  batch.addRow(tokens, 0, LENGTH, PAGES, 0, 1);
  for (let g = 1; g < paged; g++) batch.addPages(g, PAGES);
  const stagedBatch = device.createStagedBatch(64);
  device.stage(
    stagedBatch,
    batch,
    plans.map((plan) => plannerFor(plan, caches, device, "fixed", PAGE.dtype).plan(batch)),
  );
  return stagedBatch;
}

const poolsOf = (device: Device, caches: Model["spec"]["caches"]): Caches =>
  allocCaches(
    caches,
    device,
    PAGE,
    caches.map(() => 10),
  );

/** The model's normed hidden states. */
async function runModel(device: Device, model: Model, tokens: Int32Array): Promise<Float32Array> {
  const { caches, plans, hiddenSize } = model.spec;
  model.forward(staged(device, caches, plans, tokens), poolsOf(device, caches));
  const hidden = new Float32Array(LENGTH * hiddenSize);
  await readTensor(device, hidden, model.hidden, 0, LENGTH);
  return hidden;
}

/** Logits of a head behind the model's step. */
async function runHead(device: Device, head: Predictor): Promise<Float32Array> {
  const batch = staged(device, head.caches, head.plans, TOKENS.subarray(1));
  head.forward(batch, poolsOf(device, head.caches), "model");
  head.computeLogits(batch, 0, LENGTH);
  const logits = new Float32Array(LENGTH * head.logits.cols);
  await readTensor(device, logits, head.logits, 0, LENGTH);
  return logits;
}

/** Logits of a model whose inputs are given in place of embeddings. */
async function runOne(device: Device, model: Model, values: Float32Array): Promise<Float32Array> {
  const { caches, plans, vocabSize } = model.spec;
  const batch = staged(device, caches, plans, TOKENS);
  const inputs: InputRows[] = [{ first: 0, count: LENGTH, values }];
  model.forward(batch, poolsOf(device, caches), inputs);
  model.computeLogits(batch, 0, LENGTH);
  const logits = new Float32Array(LENGTH * vocabSize);
  await readTensor(device, logits, model.logits, 0, LENGTH);
  return logits;
}

// --- plain arithmetic ------------------------------------------------------------------------------------------------

function valuesOf(source: TensorSource, name: string): Float32Array {
  return toFloat32(source.get(name));
}

function normed(x: Float32Array, source: TensorSource, name: string, offset: number, eps = 1e-5): Float32Array {
  const weight = valuesOf(source, name);
  const mean = x.reduce((sum, v) => sum + v * v, 0) / x.length;
  return x.map((v, i) => (v / Math.sqrt(mean + eps)) * (weight[i]! + offset));
}

/** matrix [rows, x.length] @ x */
function product(matrix: Float32Array, x: Float32Array): Float32Array {
  return Float32Array.from({ length: matrix.length / x.length }, (_, row) =>
    x.reduce((sum, v, i) => sum + v * matrix[row * x.length + i]!, 0),
  );
}

function assertClose(actual: Float32Array, expected: Float32Array): void {
  assert.equal(actual.length, expected.length);
  const size = Math.max(...expected.map(Math.abs));
  actual.forEach((value, i) => {
    assert.ok(Math.abs(value - expected[i]!) < 2e-4 * size, `${i}: ${value} for ${expected[i]}`);
  });
}

function cosine(a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array) => x.reduce((sum, v, i) => sum + v * y[i]!, 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

// --- EAGLE-3 ---------------------------------------------------------------------------------------------------------

const MAIN: RawConfig = {
  ...{ architectures: ["LlamaForCausalLM"], hidden_size: HIDDEN, intermediate_size: 96, num_hidden_layers: 4 },
  ...{ num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, vocab_size: 260, max_position_embeddings: 512 },
  ...{ rms_norm_eps: 1e-5, rope_theta: 10_000, hidden_act: "silu", tie_word_embeddings: false },
};
const DRAFT_VOCAB = 120;

function eagleConfig(format: "SafeAILab" | "speculators"): RawConfig {
  const layer = { ...MAIN, num_hidden_layers: 1 };
  const own = { draft_vocab_size: DRAFT_VOCAB, eagle_aux_hidden_state_layer_ids: [1, 2, 3] };
  if (format === "SafeAILab") return { ...layer, ...own, architectures: ["LlamaForCausalLMEagle3"] };
  const { architectures: _, ...inner } = layer as RawConfig;
  const facts = { architectures: ["Eagle3DraftModel"], speculators_model_type: "eagle3", norm_before_residual: true };
  return { ...facts, ...own, transformer_layer_config: inner };
}

/** d2t: the draft vocabulary is the model's ids from 1 on. */
function eagleSource(format: "SafeAILab" | "speculators"): TensorSource {
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

function writeEagle(format: "SafeAILab" | "speculators"): string {
  const device = new ReferenceDevice();
  const raw = eagleConfig(format);
  const config = readEagle3(raw, "config.json");
  const main = load(MAIN, device, new RandomSource({ seed: 3 }), { taps: [1, 2, 3] });
  const source = eagleSource(format);
  new Eagle3Head(config, { device, source, capacity: { maxTokens: 8, maxLogitRows: 4 }, quantize: "none" }, main);
  const entries = new Map<string, { dtype: string; shape: readonly number[]; data: ArrayBufferView }>();
  for (const name of source.names()) {
    const { shape, bytes } = source.get(name);
    entries.set(name, { dtype: "BF16", shape, data: bytes() });
  }
  entries.set("d2t", { dtype: "I64", shape: [DRAFT_VOCAB], data: new BigInt64Array(DRAFT_VOCAB).fill(1n) });
  entries.set("t2d", { dtype: "BOOL", shape: [260], data: new Uint8Array(260) });
  const folder = mkdtempSync(join(tmpdir(), "pagoda-eagle-"));
  writeFileSync(join(folder, "config.json"), JSON.stringify(raw));
  writeSafetensors(join(folder, "model.safetensors"), entries);
  return folder;
}

/** The head's logits at every position, one by one. */
function eagleReference(source: TensorSource, taps: Float32Array, format: "SafeAILab" | "speculators"): Float32Array {
  const layer = format === "SafeAILab" ? "midlayer" : "layers.0";
  const get = (name: string) => valuesOf(source, name);
  const norm = (x: Float32Array, name: string) => normed(x, source, `${name}.weight`, 0);
  const [heads, kvHeads, dim] = [4, 2, 16];
  const main = new RandomSource({ seed: 3 });
  load(MAIN, new ReferenceDevice(), main, {});
  const table = format === "SafeAILab" ? valuesOf(main, "model.embed_tokens.weight") : get("embed_tokens.weight");
  const keys: Float32Array[] = [];
  const values: Float32Array[] = [];
  const logits: number[] = [];
  for (let i = 0; i < LENGTH; i++) {
    const g = product(get("fc.weight"), taps.subarray(i * 3 * HIDDEN, (i + 1) * 3 * HIDDEN));
    const token = TOKENS[i + 1]!;
    const embedding = norm(table.subarray(token * HIDDEN, (token + 1) * HIDDEN), `${layer}.input_layernorm`);
    const state = norm(g, `${layer}.hidden_norm`);
    const both = Float32Array.from([...embedding, ...state]);
    const project = (part: string) => product(get(`${layer}.self_attn.${part}.weight`), both);
    const q = turned(project("q_proj"), i, dim);
    keys.push(turned(project("k_proj"), i, dim));
    values.push(project("v_proj"));
    const mixed = new Float32Array(heads * dim);
    for (let h = 0; h < heads; h++) {
      const at = Math.floor((h * kvHeads) / heads) * dim;
      const scores = keys.map((k) => {
        let sum = 0;
        for (let d = 0; d < dim; d++) sum += q[h * dim + d]! * k[at + d]!;
        return sum / Math.sqrt(dim);
      });
      const most = Math.max(...scores);
      const weights = scores.map((score) => Math.exp(score - most));
      const total = weights.reduce((sum, w) => sum + w, 0);
      for (let d = 0; d < dim; d++)
        mixed[h * dim + d] = weights.reduce((sum, w, t) => sum + (w / total) * values[t]![at + d]!, 0);
    }
    const stream = format === "speculators" ? state : g;
    const out = product(get(`${layer}.self_attn.o_proj.weight`), mixed);
    let x = stream.map((v, c) => v + out[c]!);
    const inner = norm(x, `${layer}.post_attention_layernorm`);
    const gate = product(get(`${layer}.mlp.gate_proj.weight`), inner);
    const up = product(get(`${layer}.mlp.up_proj.weight`), inner);
    const down = product(
      get(`${layer}.mlp.down_proj.weight`),
      gate.map((v, c) => (v / (1 + Math.exp(-v))) * up[c]!),
    );
    x = x.map((v, c) => v + down[c]!);
    logits.push(...product(get("lm_head.weight"), norm(x, "norm")));
  }
  return Float32Array.from(logits);
}

/** Heads whose first halves are turned against their second ones. */
function turned(x: Float32Array, position: number, dim: number): Float32Array {
  const out = x.slice();
  for (let at = 0; at < x.length; at += dim) {
    for (let i = 0; i < dim / 2; i++) {
      const angle = position / 10_000 ** ((2 * i) / dim);
      const [a, b] = [x[at + i]!, x[at + i + dim / 2]!];
      out[at + i] = a * Math.cos(angle) - b * Math.sin(angle);
      out[at + i + dim / 2] = b * Math.cos(angle) + a * Math.sin(angle);
    }
  }
  return out;
}
