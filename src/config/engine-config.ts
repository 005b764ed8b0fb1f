// The options of an engine: their types, defaults and checks.

import { fileURLToPath } from "node:url";
import { ConfigError } from "../core/errors.js";
import { SPECULATION_METHODS, type SpeculationMethod } from "../core/speculation.js";
import { type OptionTable, resolveOptions } from "./options.js";
import { withSpeculation } from "./speculation.js";

/** The options of an engine, all of them set. docs/guide/library.md has them in a table. */
export interface EngineConfig {
  /** Model folder, .gguf file or hub id ORG/NAME. Default: the bundled pagoda-stories-16m. */
  readonly model: string;
  /**
   * Device to run on; auto is cuda if there is a usable NVIDIA GPU, else webgpu if its package and a GPU are there, else cpu if
   * there is a native library, else wasm. Default: auto.
   */
  readonly device: "auto" | "cuda" | `cuda:${number}` | "webgpu" | "cpu" | "wasm" | "reference" | "null";
  /** Fraction of the GPU's memory that the engine may use; several engines may share a GPU. Default: 0.9. */
  readonly gpuMemory: number;
  /** Threads of the cpu device. Default: all cores. */
  readonly threads: number;
  /** Quantise the weights at load time. Default: none. */
  readonly quantize: "none" | "q8" | "q4";
  /** Element type of the KV cache; auto is f32 on the reference device, f16 elsewhere. Default: auto. */
  readonly kvDtype: "auto" | "f32" | "f16" | "bf16" | "i8" | "fp8";
  /** Tokens per page of the KV cache. Default: 16. */
  readonly pageSize: number;
  /** Pages in the pool, including the null page. Default: from memory. */
  readonly numPages: number | null;
  /** Memory for the KV cache in MiB, if numPages is not given. Default: at most a quarter of free memory. */
  readonly kvMemoryMb: number | null;
  /** Token budget per step, in pages: a step computes at most pageSize x maxPagesPerBatch tokens. Default: 32. */
  readonly maxPagesPerBatch: number;
  /**
   * Prefill chunk: tokens of one prompt computed per step, within its token budget. Default: by device: 32 for each thread, 64
   * with AMX, at least 128; 512 on a GPU.
   */
  readonly idealChunk: number | null;
  /**
   * Milliseconds that a step should take at most while several clients are served; prompts' chunks are cut to it; 0: no target.
   * Default: 20.
   */
  readonly targetStepMs: number;
  /** Extend mixes prefill and decode in ragged batches; chunked uses fixed-size chunks, for comparison. Default: extend. */
  readonly mode: "extend" | "chunked";
  /** Chunk size in chunked mode. Default: 32. */
  readonly fixedChunk: number;
  /** How attention is split along KV; fixed gives the same bits whatever the batch. Default: fixed. */
  readonly split: "fixed" | "balanced";
  /** Share cached prefixes between requests. Default: true. */
  readonly prefixCaching: boolean;
  /**
   * Directory that keeps cached prefixes across restarts: written on close, read on start; contains prompts in plain text.
   * Default: none.
   */
  readonly cacheDir: string | null;
  /** Disk space in cacheDir per model and configuration, in MiB. Default: 1024. */
  readonly cacheDiskMb: number;
  /**
   * Host memory in MiB for evicted pages; 0 is off. Default: on a GPU a quarter of the free host memory, at most the pools'
   * size; else 0.
   */
  readonly hostCacheMb: number | null;
  /** LoRA adapters to load at start, NAME=PATH each. Default: none. */
  readonly adapter: readonly string[];
  /**
   * Memory for adapters in MiB; the least recently used one that is idle leaves when there is no room. On a GPU it is set aside
   * where it is given, and where adapters are. Default: 1024.
   */
  readonly adapterMemory: number | null;
  /** Load the eyes of a model that sees; off saves their memory, and pictures are refused. Default: true. */
  readonly images: boolean;
  /** The file with the model's eyes (mmproj-*.gguf). Default: the one beside a .gguf file. */
  readonly mmproj: string | null;
  /** Tokens of one picture at most, where the model takes any size; larger pictures are made smaller. Default: 2048. */
  readonly maxImageTokens: number;
  /** Memory in MiB for what pictures were encoded to; 0 keeps nothing for later questions. Default: 256. */
  readonly imageMemory: number;
  /** Pictures of one request. Default: 32. */
  readonly maxImages: number;
  /** Bytes of one picture's file, in MiB. Default: 20. */
  readonly maxImageMb: number;
  /** Pixels of one picture, in millions. Default: 50. */
  readonly maxImageMegapixels: number;
  /**
   * Hosts that pictures may be fetched from: NAME, .SUFFIX or an address, with :PORT where it is not 80 or 443. Default: none.
   */
  readonly allowedMediaDomains: readonly string[];
  /** Folder that file: URLs of pictures may name files in. Default: none. */
  readonly allowedMediaPath: string | null;
  /** Longest sequence, prompt and answer together. Default: the model's. */
  readonly maxContext: number | null;
  /** Requests that may wait; further ones are refused. Default: 4096. */
  readonly maxQueue: number;
  /** Longest time that compiling one grammar or schema may take, in seconds of a thread's own time. Default: 5. */
  readonly grammarSeconds: number;
  /** Free the memory of the model after this long without a request; the next request loads it again. Default: never. */
  readonly sleepIdleSeconds: number | null;
  /**
   * Guess tokens ahead, which changes no answer: ngram from the request's own tokens, suffix also from earlier answers of the
   * same client, mtp from a head of the checkpoint, eagle3 or draft from draftModel; auto is what draftModel is, else suffix on
   * the cpu device, off elsewhere. Default: auto.
   */
  readonly speculative: SpeculationMethod;
  /**
   * Guesses that a step may try for one answer, at most; fewer where they are often wrong or the batch is full. Default: 15.
   */
  readonly speculativeTokens: number;
  /**
   * Smaller model of the same vocabulary, or EAGLE-3 head, that guesses tokens ahead: folder, .gguf file, or model of the hub.
   * Default: none.
   */
  readonly draftModel: string | null;
  /** Tokens that must agree with earlier ones before anything is guessed. Default: 2. */
  readonly speculativeMinMatch: number;
  /** Tokens that are compared with earlier ones, at most. Default: 24. */
  readonly speculativeMaxMatch: number;
  /** Suffix: tokens of earlier answers kept for each client and salt, 12 bytes each; 0 keeps none. Default: 32768. */
  readonly speculativeHistory: number;
  /** The same as JSON, by vLLM's names (--speculative-config). Default: none. */
  readonly speculativeConfig: string | null;
  /** Requests without a seed draw theirs from this one, in order of arrival. Default: random. */
  readonly seed: number | null;
  /**
   * Take prompts and decode steps of usual sizes before the engine is ready: kernels loaded, CUDA graphs captured. Default:
   * where first steps are slow: true on cuda, but for commands that end soon.
   */
  readonly warmup: boolean | null;
  /** Run the engine in a worker thread. Default: true. */
  readonly worker: boolean;
  /**
   * Treat control tokens spelled out in messages and tools as control tokens; otherwise they are plain text. Default: false.
   */
  readonly controlTokensInContent: boolean;
}

/** The model every command uses when none is named. */
export const BUNDLED_MODEL = fileURLToPath(new URL("../../../models/pagoda-stories-16m", import.meta.url));

/** MiB of adapters, where nobody says more. */
export const ADAPTER_MEMORY = 1024;

/** Every option of an engine: type, range, default and what it is for. */
export const ENGINE_OPTIONS = {
  model: {
    type: "string",
    short: "m",
    default: BUNDLED_MODEL,
    defaultText: "the bundled pagoda-stories-16m",
    help: "model folder, .gguf file or hub id ORG/NAME",
  },
  device: {
    type: "choice",
    choices: ["auto", "cuda", "cuda:N", "webgpu", "cpu", "wasm", "reference", "null"],
    pattern: /^(auto|cuda|cuda:\d{1,2}|webgpu|cpu|wasm|reference|null)$/,
    default: "auto",
    help: "device to run on; auto is cuda if there is a usable NVIDIA GPU, else webgpu if its package and a GPU are there, else cpu if there is a native library, else wasm",
  },
  gpuMemory: {
    type: "number",
    min: 0.01,
    max: 1,
    default: 0.9,
    help: "fraction of the GPU's memory that the engine may use; several engines may share a GPU",
  },
  threads: {
    type: "integer",
    min: 0,
    max: 1024,
    default: 0,
    defaultText: "all cores",
    help: "threads of the cpu device",
  },
  quantize: {
    type: "choice",
    choices: ["none", "q8", "q4"],
    default: "none",
    help: "quantise the weights at load time",
  },
  kvDtype: {
    type: "choice",
    choices: ["auto", "f32", "f16", "bf16", "i8", "fp8"],
    default: "auto",
    help: "element type of the KV cache; auto is f32 on the reference device, f16 elsewhere",
  },
  pageSize: { type: "integer", min: 1, max: 1024, default: 16, help: "tokens per page of the KV cache" },
  numPages: {
    type: "integer",
    min: 2,
    max: 2 ** 26,
    default: null,
    defaultText: "from memory",
    help: "pages in the pool, including the null page",
  },
  kvMemoryMb: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: "at most a quarter of free memory",
    help: "memory for the KV cache in MiB, if numPages is not given",
  },
  maxPagesPerBatch: {
    type: "integer",
    min: 1,
    max: 65536,
    default: 32,
    help: "token budget per step, in pages: a step computes at most pageSize x maxPagesPerBatch tokens",
  },
  idealChunk: {
    type: "integer",
    min: 1,
    max: 2 ** 20,
    default: null,
    defaultText: "by device: 32 for each thread, 64 with AMX, at least 128; 512 on a GPU",
    help: "prefill chunk: tokens of one prompt computed per step, within its token budget",
  },
  targetStepMs: {
    type: "integer",
    min: 0,
    max: 60_000,
    default: 20,
    help: "milliseconds that a step should take at most while several clients are served; prompts' chunks are cut to it; 0: no target",
  },
  mode: {
    type: "choice",
    choices: ["extend", "chunked"],
    default: "extend",
    help: "extend mixes prefill and decode in ragged batches; chunked uses fixed-size chunks, for comparison",
  },
  fixedChunk: { type: "integer", min: 1, max: 2 ** 20, default: 32, help: "chunk size in chunked mode" },
  split: {
    type: "choice",
    choices: ["fixed", "balanced"],
    default: "fixed",
    help: "how attention is split along KV; fixed gives the same bits whatever the batch",
  },
  prefixCaching: { type: "boolean", default: true, help: "share cached prefixes between requests" },
  cacheDir: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "directory that keeps cached prefixes across restarts: written on close, read on start; contains prompts in plain text",
  },
  cacheDiskMb: {
    type: "integer",
    min: 1,
    default: 1024,
    help: "disk space in cacheDir per model and configuration, in MiB",
  },
  hostCacheMb: {
    type: "integer",
    min: 0,
    default: null,
    defaultText: "on a GPU a quarter of the free host memory, at most the pools' size; else 0",
    help: "host memory in MiB for evicted pages; 0 is off",
  },
  adapter: {
    type: "list",
    default: [],
    defaultText: "none",
    help: "LoRA adapters to load at start, NAME=PATH each",
  },
  adapterMemory: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: `${ADAPTER_MEMORY}`,
    help: "memory for adapters in MiB; the least recently used one that is idle leaves when there is no room. On a GPU it is set aside where it is given, and where adapters are",
  },
  images: {
    type: "boolean",
    default: true,
    help: "load the eyes of a model that sees; off saves their memory, and pictures are refused",
  },
  mmproj: {
    type: "string",
    default: null,
    defaultText: "the one beside a .gguf file",
    help: "the file with the model's eyes (mmproj-*.gguf)",
  },
  maxImageTokens: {
    type: "integer",
    min: 1,
    max: 2 ** 16,
    default: 2048,
    help: "tokens of one picture at most, where the model takes any size; larger pictures are made smaller",
  },
  imageMemory: {
    type: "integer",
    min: 0,
    default: 256,
    help: "memory in MiB for what pictures were encoded to; 0 keeps nothing for later questions",
  },
  maxImages: { type: "integer", min: 1, max: 4096, default: 32, help: "pictures of one request" },
  maxImageMb: { type: "integer", min: 1, max: 1024, default: 20, help: "bytes of one picture's file, in MiB" },
  maxImageMegapixels: { type: "integer", min: 1, max: 1024, default: 50, help: "pixels of one picture, in millions" },
  allowedMediaDomains: {
    type: "list",
    default: [],
    defaultText: "none",
    help: "hosts that pictures may be fetched from: NAME, .SUFFIX or an address, with :PORT where it is not 80 or 443",
  },
  allowedMediaPath: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "folder that file: URLs of pictures may name files in",
  },
  maxContext: {
    type: "integer",
    min: 2,
    default: null,
    defaultText: "the model's",
    help: "longest sequence, prompt and answer together",
  },
  maxQueue: { type: "integer", min: 1, default: 4096, help: "requests that may wait; further ones are refused" },
  grammarSeconds: {
    type: "number",
    min: 0.1,
    max: 3600,
    default: 5,
    help: "longest time that compiling one grammar or schema may take, in seconds of a thread's own time",
  },
  sleepIdleSeconds: {
    type: "number",
    min: 0,
    max: 2 ** 31,
    default: null,
    defaultText: "never",
    help: "free the memory of the model after this long without a request; the next request loads it again",
  },
  speculative: {
    type: "choice",
    choices: SPECULATION_METHODS,
    default: "auto",
    help: "guess tokens ahead, which changes no answer: ngram from the request's own tokens, suffix also from earlier answers of the same client, mtp from a head of the checkpoint, eagle3 or draft from draftModel; auto is what draftModel is, else suffix on the cpu device, off elsewhere",
  },
  speculativeTokens: {
    type: "integer",
    min: 1,
    max: 15,
    default: 15,
    help: "guesses that a step may try for one answer, at most; fewer where they are often wrong or the batch is full",
  },
  draftModel: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "smaller model of the same vocabulary, or EAGLE-3 head, that guesses tokens ahead: folder, .gguf file, or model of the hub",
  },
  speculativeMinMatch: {
    type: "integer",
    min: 1,
    max: 64,
    default: 2,
    help: "tokens that must agree with earlier ones before anything is guessed",
  },
  speculativeMaxMatch: {
    type: "integer",
    min: 1,
    max: 256,
    default: 24,
    help: "tokens that are compared with earlier ones, at most",
  },
  speculativeHistory: {
    type: "integer",
    min: 0,
    max: 2 ** 20,
    default: 2 ** 15,
    help: "suffix: tokens of earlier answers kept for each client and salt, 12 bytes each; 0 keeps none",
  },
  speculativeConfig: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "the same as JSON, by vLLM's names (--speculative-config)",
  },
  seed: {
    type: "integer",
    min: 0,
    default: null,
    defaultText: "random",
    help: "requests without a seed draw theirs from this one, in order of arrival",
  },
  warmup: {
    type: "boolean",
    default: null,
    defaultText: "where first steps are slow: true on cuda, but for commands that end soon",
    help: "take prompts and decode steps of usual sizes before the engine is ready: kernels loaded, CUDA graphs captured",
  },
  worker: { type: "boolean", default: true, help: "run the engine in a worker thread" },
  controlTokensInContent: {
    type: "boolean",
    default: false,
    help: "treat control tokens spelled out in messages and tools as control tokens; otherwise they are plain text",
  },
} as const satisfies OptionTable & Record<keyof EngineConfig, unknown>;

export function engineConfig(...layers: readonly Readonly<Record<string, unknown>>[]): EngineConfig {
  return resolveOptions<EngineConfig>(ENGINE_OPTIONS, ...layers.map(withSpeculation));
}

/** An adapter as `--adapter` names it: NAME=PATH, or PATH alone, whose last part is its name. */
export function namedPath(text: string): { name: string; path: string } {
  const equals = text.indexOf("=");
  const name = equals < 0 ? (/([^/\\]+?)(\.gguf)?[/\\]*$/.exec(text)?.[1] ?? "") : text.slice(0, equals);
  const path = text.slice(equals + 1);
  if (name === "" || path === "")
    throw new ConfigError("invalid_option", { param: "adapter", value: text, expected: "NAME=PATH" });
  return { name, path };
}
