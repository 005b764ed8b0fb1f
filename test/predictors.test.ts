// Heads that guess: their logits are those of a plain reference, and a head rigged to be the model is always right. That none changes an answer is for
// speculation.test.ts.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Batch } from "../src/core/batch.js";
import { toFloat32 } from "../src/core/dequantize/dequantize.js";
import type { TensorSource } from "../src/core/tensor.js";
import type { Device } from "../src/device/device.js";
import { readTensor } from "../src/device/read-tensor.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { createEngine } from "../src/engine/client/engine.js";
import { allocCaches, plannerFor } from "../src/engine/core/load/cache-pools.js";
import type { Caches, InputRows, Model, PlanSpec } from "../src/models/model.js";
import { Eagle3Head, readEagle3, tapsOf } from "../src/models/predictors/eagle3.js";
import type { Predictor } from "../src/models/predictors/predictor.js";
import { familyOf } from "../src/models/registry.js";
import { ANSWERING, GUESSING } from "./support/asked.js";
import { EAGLE_FORMATS, EAGLE_MAIN, type EagleFormat, eagleConfig, eagleSource, writeEagle } from "./support/eagle.js";
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
import { modelOf } from "./support/kinds.js";
import { RandomSource } from "./support/random-source.js";
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

for (const format of EAGLE_FORMATS) {
  test(`EAGLE-3, ${format}: logits are those of the head written out`, async () => {
    const device = new ReferenceDevice();
    const raw = eagleConfig(format);
    const main = load(EAGLE_MAIN, device, new RandomSource({ seed: 3 }), { taps: tapsOf(readEagle3(raw, ""), 4) });
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
  const main = load(EAGLE_MAIN, device, source, { taps });
  await runModel(device, main, TOKENS.subarray(0, LENGTH));
  const seen = new Float32Array(LENGTH * 3 * HIDDEN);
  await readTensor(device, seen, main.taps!, 0, LENGTH);
  for (const [i, layers] of taps.entries()) {
    const other = new ReferenceDevice();
    const some = new RenamedSource(source, (asked) => asked);
    const cut = load({ ...EAGLE_MAIN, num_hidden_layers: layers }, other, some, {});
    const hidden = await runModel(other, cut, TOKENS.subarray(0, LENGTH));
    for (const t of [0, 9, LENGTH - 1]) {
      const stream = seen.subarray((3 * t + i) * HIDDEN, (3 * t + i + 1) * HIDDEN);
      assertClose(normed(stream, source, "model.norm.weight", 0), hidden.subarray(t * HIDDEN, (t + 1) * HIDDEN));
    }
  }
});

// --- answers ---------------------------------------------------------------------------------------------------------

const PROMPT = Array.from({ length: 37 }, (_, i) => 60 + ((i * i) % 11));

/** Layers that add nothing: the next token depends on the last one alone, and the head sees that one's embedding. */
function writeRigged(): string {
  const source = new HeadSource(5, LAYOUTS["DeepSeek-V3"]!.names);
  const folder = writeWithHead(DEEPSEEK, source, () => {
    for (const name of source.tensors.keys())
      if (/(o_proj|down_proj)\.weight$/.test(name)) setTensor(source, name, () => 0);
    for (const part of ["enorm", "shared_head.norm"]) setTensor(source, `${appended}.${part}.weight`, () => 1);
    setTensor(source, "model.norm.weight", () => 1);
    setTensor(source, `${appended}.eh_proj.weight`, (row, col) => (row === col ? 1 : 0));
  });
  return withByteTokenizer(folder, 320);
}

for (const [device, reason] of ANSWERING) {
  test(`a head that is the model is right every time on ${device}, at any temperature`, { skip: reason }, async () => {
    await using engine = await createEngine({ ...GUESSING, model: writeRigged(), device, speculative: "mtp" });
    for (const temperature of [0, 0.7, 1.5]) {
      const before = (await engine.stats()).speculation;
      await engine.generate(PROMPT, { maxTokens: 32, temperature, seed: 4, ignoreEos: true }).result();
      const { draftTokens, acceptedTokens, drafts } = (await engine.stats()).speculation;
      assert.ok(draftTokens - before.draftTokens > 16);
      assert.ok(draftTokens - before.draftTokens > drafts - before.drafts, "several tokens a step");
      assert.equal(acceptedTokens - before.acceptedTokens, draftTokens - before.draftTokens);
    }
  });
}

test("heads that are not there, or do not fit, are refused by a code", async () => {
  const tiny = writeTinyCheckpoint();
  const draftModel = writeEagle("SafeAILab");
  await assert.rejects(createEngine({ ...GUESSING, model: tiny, speculative: "mtp" }), { code: "draft_unsuitable" });
  await assert.rejects(createEngine({ ...GUESSING, model: tiny, draftModel }), { code: "draft_vocabulary" });
  const shallow = modelOf("windows alone");
  await assert.rejects(createEngine({ ...GUESSING, model: shallow, draftModel }), { code: "draft_unsuitable" });
});

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

/** The head's logits at every position, one by one. */
function eagleReference(source: TensorSource, taps: Float32Array, format: EagleFormat): Float32Array {
  const layer = format === "SafeAILab" ? "midlayer" : "layers.0";
  const get = (name: string) => valuesOf(source, name);
  const norm = (x: Float32Array, name: string) => normed(x, source, `${name}.weight`, 0);
  const [heads, kvHeads, dim] = [4, 2, 16];
  const main = new RandomSource({ seed: 3 });
  load(EAGLE_MAIN, new ReferenceDevice(), main, {});
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
