// A model folder as Hugging Face lays it out: config.json, generation_config.json, tokenizer files, chat templates, safetensors.
// Opening one reads config and generation settings and checks that the weights are all there; big files are read when asked for.

import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { FormatError } from "../../core/errors.js";
import type { SamplingParams } from "../../core/sampling.js";
import type { TensorSource } from "../../core/tensor.js";
import { isRecord, readJsonObject, tryReadJsonObject, tryReadText } from "../json-file.js";
import { readQuantization, type Unpacked } from "./hf-quantized.js";
import { openSafetensors, openShardedSafetensors } from "./safetensors.js";

type SuggestedSampling = Partial<Pick<SamplingParams, "temperature" | "topK" | "topP" | "minP" | "repetitionPenalty">>;

/** What the model's makers suggest for generation. */
export interface GenerationConfig {
  readonly bosId: number | null;
  /** Every id that ends a sequence, without doubles. */
  readonly eosIds: readonly number[];
  /** Only the fields that the file sets. */
  readonly sampling: SuggestedSampling;
}

export interface TokenizerFiles {
  readonly file: string;
  /** tokenizer.json */
  readonly json: Record<string, unknown>;
  /** tokenizer_config.json; empty when the folder has none. */
  readonly config: Record<string, unknown>;
}

export class ModelFolder {
  readonly path: string;
  readonly name: string;
  readonly configFile: string;
  /** config.json, less the quantisation that openTensors undoes; the model family reads and checks it. */
  readonly config: Record<string, unknown>;
  readonly generation: GenerationConfig;
  readonly #unpacked: Unpacked | null;

  constructor(path: string) {
    this.path = resolve(path);
    this.name = basename(this.path);
    requireFolder(path);
    this.configFile = join(this.path, "config.json");
    if (!existsSync(this.configFile)) {
      throw new FormatError("model_not_found", { path, reason: "the folder has no config.json." });
    }
    const config = readJsonObject(this.configFile);
    // Older GPTQ folders describe their packing in a file of its own.
    const older = tryReadJsonObject(join(this.path, "quantize_config.json"));
    const quantization_config = config.quantization_config ?? (older && { quant_method: "gptq", ...older });
    this.#unpacked = readQuantization({ ...config, quantization_config }, this.configFile);
    this.config = this.#unpacked?.config ?? config;
    this.generation = readGeneration(join(this.path, "generation_config.json"), this.config, this.configFile);
  }

  /** The weights. The caller closes them. */
  openTensors(): TensorSource {
    const source = this.#openFiles();
    if (this.#unpacked === null) return source;
    try {
      return this.#unpacked.unpack(source);
    } catch (error) {
      source.close();
      throw error;
    }
  }

  #openFiles(): TensorSource {
    const index = join(this.path, "model.safetensors.index.json");
    if (existsSync(index)) return openShardedSafetensors(index);
    const single = join(this.path, "model.safetensors");
    if (existsSync(single)) return openSafetensors(single);
    throw new FormatError("model_not_found", { path: this.path, reason: whyNoWeights(readdirSync(this.path)) });
  }

  /** tokenizer.json and its settings; null when the folder has no tokenizer.json. */
  readTokenizer(): TokenizerFiles | null {
    const file = join(this.path, "tokenizer.json");
    const json = tryReadJsonObject(file);
    return json === null ? null : { file, json, config: this.#tokenizerConfig() };
  }

  /** How pictures are prepared: preprocessor_config.json, or the part of processor_config.json that newer folders have it in. */
  readProcessor(): { raw: Record<string, unknown>; file: string } | null {
    const whole = join(this.path, "processor_config.json");
    const outer = tryReadJsonObject(whole) ?? {};
    const inner = outer.image_processor;
    if (isRecord(inner)) return { raw: { ...inner, ...pixtralPatches(outer) }, file: whole };
    const file = join(this.path, "preprocessor_config.json");
    const raw = tryReadJsonObject(file);
    return raw === null ? null : { raw: { ...raw, ...pixtralPatches(outer) }, file };
  }

  /** Chat templates by name; the usual one is "default". Empty when the model has none. */
  readChatTemplates(): ReadonlyMap<string, string> {
    const templates = chatTemplatesOf(this.#tokenizerConfig().chat_template);
    // Newer folders keep templates in files of their own, which win over the older field.
    const main = join(this.path, "chat_template.jinja");
    if (existsSync(main)) templates.set("default", readText(main));
    const more = join(this.path, "additional_chat_templates");
    if (existsSync(more)) {
      requireFolder(more);
      for (const file of readdirSync(more).filter((name) => name.endsWith(".jinja"))) {
        templates.set(basename(file, ".jinja"), readText(join(more, file)));
      }
    }
    return templates;
  }

  #tokenizerConfig(): Record<string, unknown> {
    return tryReadJsonObject(join(this.path, "tokenizer_config.json")) ?? {};
  }
}

/** The chat_template field of tokenizer_config.json: one template, or a list of named ones. */
export function chatTemplatesOf(field: unknown): Map<string, string> {
  const templates = new Map<string, string>();
  if (typeof field === "string") templates.set("default", field);
  for (const entry of Array.isArray(field) ? field : []) {
    if (isRecord(entry) && typeof entry.name === "string" && typeof entry.template === "string") {
      templates.set(entry.name, entry.template);
    }
  }
  return templates;
}

/** The file is listed, so that one that is not there is a link to nowhere. */
function readText(path: string): string {
  const text = tryReadText(path);
  if (text !== null) return text;
  throw new FormatError("file_corrupt", { file: path, what: "file", expected: "a text", found: "a link to nowhere" });
}

function requireFolder(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new FormatError("model_not_found", { path, reason: "there is no such folder." });
  if (!stat.isDirectory()) throw new FormatError("model_not_found", { path, reason: "it is not a folder." });
}

function whyNoWeights(files: readonly string[]): string {
  const shard = files.find((file) => /-\d+-of-\d+\.safetensors$/.test(file));
  if (shard !== undefined)
    return `it holds ${shard} but no model.safetensors.index.json; the folder may be half-copied.`;
  const other = files.find((file) => /\.(bin|pt|pth|gguf|onnx)$/.test(file));
  const instead = other === undefined ? "" : ` It holds ${other}, which a folder of safetensors does not need.`;
  return `the folder has neither model.safetensors nor model.safetensors.index.json.${instead}`;
}

function readGeneration(file: string, config: Record<string, unknown>, configFile: string): GenerationConfig {
  const raw = tryReadJsonObject(file) ?? {};
  // Models without a generation_config.json name their ids in config.json.
  const eosIds =
    readIds(file, "eos_token_id", raw.eos_token_id) ?? readIds(configFile, "eos_token_id", config.eos_token_id);
  const bosIds =
    readIds(file, "bos_token_id", raw.bos_token_id) ?? readIds(configFile, "bos_token_id", config.bos_token_id);
  return { bosId: bosIds?.[0] ?? null, eosIds: eosIds ?? [], sampling: readSampling(file, raw) };
}

function readIds(file: string, what: string, value: unknown): number[] | null {
  if (value === undefined || value === null) return null;
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  for (const id of ids) {
    if (!Number.isSafeInteger(id) || (id as number) < 0) {
      throw new FormatError("file_corrupt", { file, what, expected: "a token id", found: JSON.stringify(id) });
    }
  }
  return [...new Set(ids as number[])];
}

const SAMPLING_FIELDS = {
  temperature: "temperature",
  top_k: "topK",
  top_p: "topP",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
} as const;

function readSampling(file: string, raw: Record<string, unknown>): SuggestedSampling {
  // Greedy by the makers' word: the other fields, where present, are leftovers.
  if (raw.do_sample === false) return { temperature: 0 };
  const sampling: { -readonly [K in keyof SuggestedSampling]: number } = {};
  for (const [key, name] of Object.entries(SAMPLING_FIELDS)) {
    const value = raw[key];
    if (value === undefined || value === null) continue;
    if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
      const found = JSON.stringify(value);
      throw new FormatError("file_corrupt", { file, what: key, expected: "a number, 0 or more", found });
    }
    sampling[name] = value;
  }
  return sampling;
}

/** Pixtral's pictures are cut to blocks of patches, whose size its processor_config.json states. */
function pixtralPatches({ processor_class, patch_size: size, spatial_merge_size: merge = 1 }: Record<string, unknown>) {
  if (processor_class !== "PixtralProcessor" || typeof size !== "number" || typeof merge !== "number") return {};
  return { patch_size: { height: size * merge, width: size * merge } };
}
