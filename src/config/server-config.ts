// The options of the server: their types, defaults and checks. The engine's own are in engine-config.ts.

import { type OptionTable, resolveOptions } from "./options.js";

const TOOL_PARSERS = [
  "auto",
  "hermes",
  "llama3",
  "llama4",
  "mistral",
  "qwen3-coder",
  "glm",
  "deepseek",
  "deepseek-v3.2",
  "deepseek-v4",
  "kimi",
  "harmony",
  "gemma4",
  "granite",
  "lfm2",
  "minimax",
  "seed",
  "none",
] as const;
const REASONING_PARSERS = ["auto", "think", "seed", "mistral", "gemma4", "cohere", "none"] as const;

/** The options of a server, all of them set. */
export interface ServerConfig {
  /** Address to listen on; 0.0.0.0 is every interface, and then an API key should be set. Default: 127.0.0.1. */
  readonly host: string;
  /** Port to listen on; 0 takes a free one. Default: 8000. */
  readonly port: number;
  /**
   * API keys that clients must send as a bearer token, separated by commas; each key has its own prefix cache. Default: none.
   */
  readonly apiKey: readonly string[];
  /** Keys that also see every tenant's requests under /api and may unload models; other keys see their own. Default: none. */
  readonly adminKey: readonly string[];
  /** Serve /metrics and /openapi.json without a key. Default: true. */
  readonly openMetrics: boolean;
  /**
   * Folder from which POST /v1/load_lora_adapter may load adapters; with API keys that takes one of adminKey. Default: none:
   * adapters are not loaded by request.
   */
  readonly adapterDir: string | null;
  /**
   * Serve every model of the hub's cache by its name, loaded on first use; POST /api/pull and DELETE /api/delete fetch and
   * delete models, with API keys by one of adminKey. Default: false.
   */
  readonly hubModels: boolean;
  /** Names of the metrics; vllm is for gateways and dashboards made for vLLM. Default: pagoda. */
  readonly metricsNames: "pagoda" | "vllm";
  /**
   * Further host names that the server answers to; * is all. Without API keys, a server on any address checks them. Default:
   * names of this machine.
   */
  readonly allowedHost: readonly string[];
  /** Names that clients may give for the model. Default: the model's own name. */
  readonly servedModelName: readonly string[];
  /**
   * Memory in MiB for the weights of all models but the first; the least recently used are unloaded to make room. Default: no
   * limit.
   */
  readonly modelMemoryMb: number | null;
  /** Web origins that may call the server from a browser; * is all. Default: none. */
  readonly corsOrigin: readonly string[];
  /**
   * Let pages and apps of this machine call the server from a browser: http://localhost on any port, vscode-webview:, app:,
   * tauri:. Default: false.
   */
  readonly devOrigins: boolean;
  /** Refuse fields that are not known, which are otherwise ignored and named in the log once. Default: false. */
  readonly strictFields: boolean;
  /**
   * Folder that keeps the files and results of /v1/files and /v1/batches, prompts in plain text; unfinished batches continue
   * after a restart. Default: none: no batches.
   */
  readonly batchDir: string | null;
  /** Largest file of a batch, in MiB. Default: 200. */
  readonly batchFileMb: number;
  /** Disk space in batchDir for all files together, in MiB. Default: 10240. */
  readonly batchDiskMb: number;
  /** Largest request body, in MiB. Default: 4. */
  readonly maxBodyMb: number;
  /** Largest body of a request that may have pictures, in MiB, where the model sees. Default: 64. */
  readonly maxImageBodyMb: number;
  /** Longest prompt. Default: what the context holds. */
  readonly maxPromptTokens: number | null;
  /** Requests in the engine at once; further ones wait. Default: 256. */
  readonly maxConcurrent: number;
  /** Requests that may wait; further ones are answered with 429. Default: 1024. */
  readonly maxQueued: number;
  /** Time a client has to send its whole request. Default: 30. */
  readonly requestTimeoutSeconds: number;
  /** Silence on a stream after which a keep-alive comment is sent. Default: 10. */
  readonly streamKeepAliveSeconds: number;
  /** Time a streaming client may take to read what is buffered before it is disconnected. Default: 60. */
  readonly slowReaderSeconds: number;
  /** Time running requests have to finish after SIGTERM. Default: 30. */
  readonly drainSeconds: number;
  /** Format of the model's tool calls; auto detects it from the chat template. Default: auto. */
  readonly toolParser: (typeof TOOL_PARSERS)[number];
  /**
   * Tags around reasoning, which is returned separately as reasoning_content; auto detects them from the chat template.
   * Default: auto.
   */
  readonly reasoningParser: (typeof REASONING_PARSERS)[number];
  /** Lowest level of log lines to write. Default: info. */
  readonly logLevel: "trace" | "debug" | "info" | "warn" | "error" | "silent";
  /**
   * OpenTelemetry collector that receives a trace of each request over OTLP/HTTP, such as http://127.0.0.1:4318. Default: none.
   */
  readonly otlpEndpoint: string | null;
  /** Write prompts and answers to the log. Default: false. */
  readonly logPrompts: boolean;
}

export const SERVER_OPTIONS = {
  host: {
    type: "string",
    default: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 is every interface, and then an API key should be set",
  },
  port: {
    type: "integer",
    short: "p",
    min: 0,
    max: 65535,
    default: 8000,
    help: "port to listen on; 0 takes a free one",
  },
  apiKey: {
    type: "list",
    default: [],
    help: "API keys that clients must send as a bearer token, separated by commas; each key has its own prefix cache",
  },
  adminKey: {
    type: "list",
    default: [],
    help: "keys that also see every tenant's requests under /api and may unload models; other keys see their own",
  },
  adapterDir: {
    type: "string",
    default: null,
    defaultText: "none: adapters are not loaded by request",
    help: "folder from which POST /v1/load_lora_adapter may load adapters; with API keys that takes one of adminKey",
  },
  hubModels: {
    type: "boolean",
    default: false,
    help: "serve every model of the hub's cache by its name, loaded on first use; POST /api/pull and DELETE /api/delete fetch and delete models, with API keys by one of adminKey",
  },
  openMetrics: { type: "boolean", default: true, help: "serve /metrics and /openapi.json without a key" },
  metricsNames: {
    type: "choice",
    choices: ["pagoda", "vllm"],
    default: "pagoda",
    help: "names of the metrics; vllm is for gateways and dashboards made for vLLM",
  },
  allowedHost: {
    type: "list",
    default: [],
    defaultText: "names of this machine",
    help: "further host names that the server answers to; * is all. Without API keys, a server on any address checks them",
  },
  servedModelName: {
    type: "list",
    default: [],
    defaultText: "the model's own name",
    help: "names that clients may give for the model",
  },
  modelMemoryMb: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: "no limit",
    help: "memory in MiB for the weights of all models but the first; the least recently used are unloaded to make room",
  },
  corsOrigin: {
    type: "list",
    default: [],
    help: "web origins that may call the server from a browser; * is all",
  },
  devOrigins: {
    type: "boolean",
    default: false,
    help: "let pages and apps of this machine call the server from a browser: http://localhost on any port, vscode-webview:, app:, tauri:",
  },
  strictFields: {
    type: "boolean",
    default: false,
    help: "refuse fields that are not known, which are otherwise ignored and named in the log once",
  },
  batchDir: {
    type: "string",
    default: null,
    defaultText: "none: no batches",
    help: "folder that keeps the files and results of /v1/files and /v1/batches, prompts in plain text; unfinished batches continue after a restart",
  },
  batchFileMb: { type: "integer", min: 1, max: 65536, default: 200, help: "largest file of a batch, in MiB" },
  batchDiskMb: {
    type: "integer",
    min: 1,
    default: 10240,
    help: "disk space in batchDir for all files together, in MiB",
  },
  maxBodyMb: { type: "number", min: 0.001, max: 1024, default: 4, help: "largest request body, in MiB" },
  maxImageBodyMb: {
    type: "integer",
    min: 1,
    max: 1024,
    default: 64,
    help: "largest body of a request that may have pictures, in MiB, where the model sees",
  },
  maxPromptTokens: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: "what the context holds",
    help: "longest prompt",
  },
  maxConcurrent: { type: "integer", min: 1, default: 256, help: "requests in the engine at once; further ones wait" },
  maxQueued: {
    type: "integer",
    min: 0,
    default: 1024,
    help: "requests that may wait; further ones are answered with 429",
  },
  requestTimeoutSeconds: {
    type: "number",
    min: 0.1,
    default: 30,
    help: "time a client has to send its whole request",
  },
  streamKeepAliveSeconds: {
    type: "number",
    min: 0.05,
    default: 10,
    help: "silence on a stream after which a keep-alive comment is sent",
  },
  slowReaderSeconds: {
    type: "number",
    min: 0.1,
    default: 60,
    help: "time a streaming client may take to read what is buffered before it is disconnected",
  },
  drainSeconds: {
    type: "number",
    min: 0,
    default: 30,
    help: "time running requests have to finish after SIGTERM",
  },
  toolParser: {
    type: "choice",
    choices: TOOL_PARSERS,
    default: "auto",
    help: "format of the model's tool calls; auto detects it from the chat template",
  },
  reasoningParser: {
    type: "choice",
    choices: REASONING_PARSERS,
    default: "auto",
    help: "tags around reasoning, which is returned separately as reasoning_content; auto detects them from the chat template",
  },
  logLevel: {
    type: "choice",
    choices: ["trace", "debug", "info", "warn", "error", "silent"],
    default: "info",
    help: "lowest level of log lines to write",
  },
  otlpEndpoint: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "OpenTelemetry collector that receives a trace of each request over OTLP/HTTP, such as http://127.0.0.1:4318",
  },
  logPrompts: { type: "boolean", default: false, help: "write prompts and answers to the log" },
} as const satisfies OptionTable & Record<keyof ServerConfig, unknown>;

export function serverConfig(...layers: readonly Readonly<Record<string, unknown>>[]): ServerConfig {
  return resolveOptions<ServerConfig>(SERVER_OPTIONS, ...layers);
}
