// Weights that are NaN, infinite, huge or tiny, in models of every family, in blocks of every packed type, in towers and in heads that
// guess: answers end, or in an error of ours, their tokens are of the vocabulary, and every page comes back. An index that is made of such
// numbers shows where the native library is built with sanitizers: scripts/fuzz-sanitized.mjs.

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PagodaError } from "../../src/core/errors.js";
import { BLOCK_OF, bytesOf, type TensorDtype } from "../../src/core/tensor.js";
import { createEngine, type EngineOptions } from "../../src/engine/client/engine.js";
import type { Engine, GenerateOptions } from "../../src/engine/types.js";
import { openGguf } from "../../src/formats/gguf/gguf.js";
import { seeded } from "../support/byte-matcher.js";
import { changeWeights, type WeightChange } from "../support/change-weights.js";
import { convertToGguf } from "../support/gguf-converter.js";
import { GGML_TYPE, type GgufValue, writeGguf } from "../support/gguf-writer.js";
import { DEEPSEEK, HeadSource, QWEN35, writeWithHead } from "../support/head-source.js";
import { seeingCheckpoint } from "../support/seeing-checkpoint.js";
import { withByteTokenizer, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { pick, type Random } from "./mutate.js";

const GOLDENS = [join("test", "goldens"), join("test", "goldens", "variants")];
const SEEING = join("test", "goldens-vision", "qwen3vl");
const MOST_MS = 60_000;
const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
const EXTREMES = [nan, inf, -inf, 3e38, -3e38, 65504, -1e30, 1e-45, -0, 0];
/** Parts whose numbers choose: experts, states, what is kept of them. */
const CHOOSING = /gate\.|router|gating|A_log|dt_|conv|norm/;
const OPTIONS: Readonly<Record<string, readonly unknown[]>> = {
  kvDtype: ["auto", "f32", "f16", "bf16", "i8", "fp8"],
  quantize: ["none", "none", "q8", "q4"],
  pageSize: [1, 4, 16],
  threads: [1, 2],
  prefixCaching: [false, true],
  mode: ["chunked", "extend"],
  fixedChunk: [3, 32],
};
const WAYS: readonly GenerateOptions[] = [
  { temperature: 0, logprobs: 3, repetitionPenalty: 1.3 },
  { temperature: 1, seed: 1, topK: 5 },
  { temperature: 0.7, seed: 2, topP: 0.8, minP: 0.1, logprobs: 2, frequencyPenalty: 1 },
  { temperature: 2, seed: 3, n: 2 },
  { temperature: 1e-6, seed: 4, presencePenalty: -2, logitBias: [[7, 100]] },
  { temperature: 1, seed: 5, promptLogprobs: 2, stopTokenIds: [3], minTokens: 3 },
];

/** A model to be broken: laid in a folder of its own each time. */
interface Subject {
  readonly name: string;
  readonly needs?: EngineOptions;
  /** It is broken already. */
  readonly isBroken?: boolean;
  lay(random: Random): string;
}

export class WeightFuzzer {
  readonly #isas: readonly string[];
  readonly #subjects: readonly Subject[];

  /** isas: instruction sets to run on; none: the best one. goldens: folders of further models. */
  constructor({ isas = [], goldens = [] }: { isas?: readonly string[]; goldens?: readonly string[] } = {}) {
    this.#isas = isas;
    this.#subjects = subjectsIn([...GOLDENS, ...goldens]);
  }

  /** What is wrong with how the broken model was run; null when nothing is. */
  async try(seed: number): Promise<string | null> {
    const random = seeded(seed);
    const { name, needs, isBroken, lay } = pick(random, this.#subjects);
    const folder = lay(random);
    if (isBroken !== true) changeWeights(join(folder, "model.safetensors"), changeOf(random));
    if (this.#isas.length > 0) process.env.PAGODA_CPU_ISA = pick(random, this.#isas);
    const chosen = Object.entries(OPTIONS).map(([option, values]) => [option, pick(random, values)]);
    const options = { device: "cpu", worker: false, numPages: 300, ...Object.fromEntries(chosen), ...needs };
    const startMs = performance.now();
    const wrong = await run({ model: folder, ...options }, random);
    rmSync(folder, { recursive: true });
    const tookMs = performance.now() - startMs;
    const found = wrong ?? (tookMs < MOST_MS ? null : `it took ${tookMs} ms`);
    return found === null ? null : `${name} on ${process.env.PAGODA_CPU_ISA}, ${JSON.stringify(options)}: ${found}`;
  }
}

async function run(options: EngineOptions, random: Random): Promise<string | null> {
  try {
    await using engine = await createEngine(options);
    const wrong = (await Promise.all(Array.from({ length: 5 }, () => ask(engine, random)))).find((w) => w !== null);
    if (wrong !== undefined) return wrong;
    const { pagesUsed, running } = await engine.stats();
    return pagesUsed + running === 0 ? null : `${pagesUsed} pages and ${running} requests are left`;
  } catch (error) {
    return isOurs(error);
  }
}

async function ask(engine: Engine, random: Random): Promise<string | null> {
  const prompt = Array.from({ length: 1 + Math.floor(random() * 45) }, () => 1 + Math.floor(random() * 30));
  const options = { maxTokens: 1 + Math.floor(random() * 12), ...pick(random, WAYS) };
  const { task, hasEyes, vocabSize } = engine.model;
  try {
    if (task === "embed") await engine.embed([prompt, prompt.slice(3)]);
    else if (task === "score")
      await engine.score([["!#$", "%&"]]); // bytes that are tokens of every golden
    else if (hasEyes && random() < 0.7) await engine.chat(PICTURED, options).result();
    else {
      const { samples } = await engine.generate(prompt, options).result();
      const stray = samples.flatMap(({ tokenIds }) => [...tokenIds]).find((id) => !(id >= 0 && id < vocabSize));
      if (stray !== undefined) return `token ${stray}`;
    }
    return null;
  } catch (error) {
    return isOurs(error);
  }
}

function isOurs(error: unknown): string | null {
  return error instanceof PagodaError ? null : ((error as Error).stack ?? String(error));
}

/** Of few weights or of many, of all tensors or of those that choose. */
function changeOf(random: Random): WeightChange {
  const share = pick(random, [0.0005, 0.02, 0.3, 1]);
  const values = random() < 0.3 ? [pick(random, EXTREMES)] : EXTREMES;
  const taken = new Map<string, boolean>();
  const only = random() < 0.4 ? CHOOSING : /./;
  const tensors = pick(random, [1, 0.2]);
  return (tensor) => {
    if (!taken.has(tensor)) taken.set(tensor, only.test(tensor) && random() < tensors);
    return taken.get(tensor) === true && random() < share ? pick(random, values) : null;
  };
}

const PICTURED = [
  {
    role: "user" as const,
    content: [
      { type: "image" as const, image: new Uint8Array(readFileSync(join(SEEING, "image-2-0.png"))) },
      { type: "text" as const, text: "see" },
    ],
  },
];

function subjectsIn(goldens: readonly string[]): Subject[] {
  const folders = goldens.flatMap((from) => readdirSync(from).map((name) => join(from, name)));
  const families = folders
    .filter((path) => existsSync(join(path, "model.safetensors")))
    .map((path): Subject => ({ name: path, lay: () => withByteTokenizer(path, 256) }));
  const packed = Object.keys(GGML_TYPE)
    .filter((dtype) => !/^(f|bf|i)\d+$/.test(dtype))
    .map((dtype): Subject => {
      return { name: dtype, isBroken: true, lay: (random) => packedModel(dtype as TensorDtype, random) };
    });
  const heads = [
    { raw: DEEPSEEK, names: /^model\.layers\.4\.eh_proj/ },
    { raw: QWEN35, names: /^mtp\.fc/ },
  ].map(({ raw, names }): Subject => {
    const folder = withByteTokenizer(writeWithHead(raw, new HeadSource(8, names)), 320);
    return { name: String(raw.architectures), needs: { speculative: "mtp" }, lay: () => copyOf(folder) };
  });
  const sees: Subject = { name: SEEING, lay: () => seeingCheckpoint(SEEING, "qwen3vl") };
  return [...families, ...packed, ...heads, ...heads, sees, sees];
}

function copyOf(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), "pagoda-weights-"));
  cpSync(folder, copy, { recursive: true });
  return copy;
}

/** A Llama whose matrices are blocks of the type with any bits at all. */
function packedModel(dtype: TensorDtype, random: Random): string {
  const folder = writeTinyCheckpoint({ layers: 1, hidden: 256, heads: 4, ffn: 256 });
  const path = join(folder, "model.gguf");
  writeFileSync(path, convertToGguf(folder, "f32"));
  rmSync(join(folder, "model.safetensors"));
  const { metadata, source } = openGguf(path);
  const tensors = [...source.names()].map((name) => {
    const tensor = source.get(name);
    const size = tensor.shape.reduce((a, b) => a * b, 1);
    if (tensor.shape.length < 2 || size % BLOCK_OF[dtype][0] !== 0)
      return { name, dtype: tensor.dtype, shape: tensor.shape, bytes: Uint8Array.from(tensor.bytes()) };
    const bytes = Uint8Array.from({ length: bytesOf(dtype, size) }, () => random() * 256);
    return { name, dtype, shape: tensor.shape, bytes };
  });
  source.close();
  writeFileSync(path, writeGguf(Object.fromEntries(metadata) as Record<string, GgufValue>, tensors));
  return folder;
}
