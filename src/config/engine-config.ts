// The options of an engine: their types, defaults and checks.

import { fileURLToPath } from "node:url";
import { type OptionTable, resolveOptions } from "./options.js";

/** The options of an engine, all of them set. docs/library.md has them in a table. */
export interface EngineConfig {
  /** Model folder, .gguf file or hub id ORG/NAME. Default: the bundled pagoda-stories-16m. */
  readonly model: string;
  /**
   * Where the arithmetic runs; auto is cuda where a GPU serves, else cpu where the native library can be built, else reference.
   * Default: auto.
   */
  readonly device: "auto" | "cuda" | `cuda:${number}` | "cpu" | "reference" | "null";
  /** Share of the GPU's memory that the engine takes at most; several engines may share a GPU. Default: 0.9. */
  readonly gpuMemory: number;
  /** Threads of the cpu device. Default: all cores. */
  readonly threads: number;
  /** Quantise the weights at load. Default: none. */
  readonly quantize: "none" | "q8" | "q4";
  /** Element type of the KV cache; auto is f32 on reference and f16 elsewhere. Default: auto. */
  readonly kvDtype: "auto" | "f32" | "f16" | "bf16" | "i8";
  /** Tokens in a page of the KV cache. Default: 16. */
  readonly pageSize: number;
  /** Pages in the pool, the null page included. Default: from memory. */
  readonly numPages: number | null;
  /** Memory for the KV cache, when numPages is not given. Default: a quarter of free memory at most. */
  readonly kvMemoryMb: number | null;
  /** Token budget of a step, in pages: a step computes at most pageSize x maxPagesPerBatch tokens. Default: 32. */
  readonly maxPagesPerBatch: number;
  /** Tokens of one prompt computed per step when others wait. Default: 128. */
  readonly idealChunk: number;
  /** Extend mixes prefill and decode in ragged batches; chunked is the fixed-chunk mode it is compared with. Default: extend. */
  readonly mode: "extend" | "chunked";
  /** Chunk size of the chunked mode. Default: 32. */
  readonly fixedChunk: number;
  /** How attention is split along KV; fixed gives the same bits whatever the batch. Default: fixed. */
  readonly split: "fixed" | "balanced";
  /** Share cached prefixes between requests. Default: true. */
  readonly prefixCaching: boolean;
  /**
   * Folder that keeps hot prefixes across restarts: saved on closing, taken up on starting; holds prompts in the clear. Default:
   * none.
   */
  readonly cacheDir: string | null;
  /** Most space in cacheDir for one model and setting. Default: 1024. */
  readonly cacheDiskMb: number;
  /** Host memory that keeps pages evicted from the pool; for devices with memory of their own; 0 is none. Default: 0. */
  readonly hostCacheMb: number;
  /** Longest sequence, prompt and answer together. Default: the model's. */
  readonly maxContext: number | null;
  /** Requests that may wait; more are refused. Default: 4096. */
  readonly maxQueue: number;
  /** Requests that bring no seed draw theirs from this one, in order of arrival. Default: random. */
  readonly seed: number | null;
  /** Run the engine in a worker thread. Default: true. */
  readonly worker: boolean;
  /** Let control tokens written out in messages and tools act as such; off, they are plain text. Default: false. */
  readonly controlTokensInContent: boolean;
}

/** The model every command uses when none is named. */
export const BUNDLED_MODEL = fileURLToPath(new URL("../../../models/pagoda-stories-16m", import.meta.url));

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
    choices: ["auto", "cuda", "cuda:N", "cpu", "reference", "null"],
    pattern: /^(auto|cuda|cuda:\d{1,2}|cpu|reference|null)$/,
    default: "auto",
    help: "where the arithmetic runs; auto is cuda where a GPU serves, else cpu where the native library can be built, else reference",
  },
  gpuMemory: {
    type: "number",
    min: 0.01,
    max: 1,
    default: 0.9,
    help: "share of the GPU's memory that the engine takes at most; several engines may share a GPU",
  },
  threads: {
    type: "integer",
    min: 0,
    max: 1024,
    default: 0,
    defaultText: "all cores",
    help: "threads of the cpu device",
  },
  quantize: { type: "choice", choices: ["none", "q8", "q4"], default: "none", help: "quantise the weights at load" },
  kvDtype: {
    type: "choice",
    choices: ["auto", "f32", "f16", "bf16", "i8"],
    default: "auto",
    help: "element type of the KV cache; auto is f32 on reference and f16 elsewhere",
  },
  pageSize: { type: "integer", min: 1, max: 1024, default: 16, help: "tokens in a page of the KV cache" },
  numPages: {
    type: "integer",
    min: 2,
    max: 2 ** 26,
    default: null,
    defaultText: "from memory",
    help: "pages in the pool, the null page included",
  },
  kvMemoryMb: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: "a quarter of free memory at most",
    help: "memory for the KV cache, when numPages is not given",
  },
  maxPagesPerBatch: {
    type: "integer",
    min: 1,
    max: 65536,
    default: 32,
    help: "token budget of a step, in pages: a step computes at most pageSize x maxPagesPerBatch tokens",
  },
  idealChunk: {
    type: "integer",
    min: 1,
    max: 2 ** 20,
    default: 128,
    help: "tokens of one prompt computed per step when others wait",
  },
  mode: {
    type: "choice",
    choices: ["extend", "chunked"],
    default: "extend",
    help: "extend mixes prefill and decode in ragged batches; chunked is the fixed-chunk mode it is compared with",
  },
  fixedChunk: { type: "integer", min: 1, max: 2 ** 20, default: 32, help: "chunk size of the chunked mode" },
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
    help: "folder that keeps hot prefixes across restarts: saved on closing, taken up on starting; holds prompts in the clear",
  },
  cacheDiskMb: {
    type: "integer",
    min: 1,
    default: 1024,
    help: "most space in cacheDir for one model and setting",
  },
  hostCacheMb: {
    type: "integer",
    min: 0,
    default: 0,
    help: "host memory that keeps pages evicted from the pool; for devices with memory of their own; 0 is none",
  },
  maxContext: {
    type: "integer",
    min: 2,
    default: null,
    defaultText: "the model's",
    help: "longest sequence, prompt and answer together",
  },
  maxQueue: { type: "integer", min: 1, default: 4096, help: "requests that may wait; more are refused" },
  seed: {
    type: "integer",
    min: 0,
    default: null,
    defaultText: "random",
    help: "requests that bring no seed draw theirs from this one, in order of arrival",
  },
  worker: { type: "boolean", default: true, help: "run the engine in a worker thread" },
  controlTokensInContent: {
    type: "boolean",
    default: false,
    help: "let control tokens written out in messages and tools act as such; off, they are plain text",
  },
} as const satisfies OptionTable & Record<keyof EngineConfig, unknown>;

export function engineConfig(...layers: readonly Readonly<Record<string, unknown>>[]): EngineConfig {
  return resolveOptions<EngineConfig>(ENGINE_OPTIONS, ...layers);
}
