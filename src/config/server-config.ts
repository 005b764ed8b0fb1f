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

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  readonly apiKey: readonly string[];
  readonly adminKey: readonly string[];
  readonly openMetrics: boolean;
  readonly allowedHost: readonly string[];
  readonly servedModelName: readonly string[];
  readonly modelMemoryMb: number | null;
  readonly corsOrigin: readonly string[];
  readonly maxBodyMb: number;
  readonly maxPromptTokens: number | null;
  readonly maxConcurrent: number;
  readonly maxQueued: number;
  readonly requestTimeoutSeconds: number;
  readonly streamKeepAliveSeconds: number;
  readonly slowReaderSeconds: number;
  readonly drainSeconds: number;
  readonly toolParser: (typeof TOOL_PARSERS)[number];
  readonly reasoningParser: (typeof REASONING_PARSERS)[number];
  readonly logLevel: "trace" | "debug" | "info" | "warn" | "error" | "silent";
  readonly logPrompts: boolean;
}

export const SERVER_OPTIONS = {
  host: {
    type: "string",
    default: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 is every interface: set an API key then",
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
    help: "keys that clients must send as a bearer token, separated by commas; each key has its own prefix cache",
  },
  adminKey: {
    type: "list",
    default: [],
    help: "keys that also see every tenant's requests under /api; other keys see their own",
  },
  openMetrics: { type: "boolean", default: true, help: "answer /metrics and /openapi.json without a key" },
  allowedHost: {
    type: "list",
    default: [],
    defaultText: "names of this machine",
    help: "further names under which clients reach a server on a loopback address; * is all",
  },
  servedModelName: {
    type: "list",
    default: [],
    defaultText: "the model's own name",
    help: "names under which clients ask for the model",
  },
  modelMemoryMb: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: "no limit",
    help: "memory for the weights of models after the first; the least recently used are unloaded for others",
  },
  corsOrigin: {
    type: "list",
    default: [],
    help: "web origins that may call the server from a browser; * is all",
  },
  maxBodyMb: { type: "number", min: 0.001, max: 1024, default: 4, help: "largest request body, in MiB" },
  maxPromptTokens: {
    type: "integer",
    min: 1,
    default: null,
    defaultText: "what the context holds",
    help: "longest prompt",
  },
  maxConcurrent: { type: "integer", min: 1, default: 256, help: "requests in the engine at once; more wait" },
  maxQueued: { type: "integer", min: 0, default: 1024, help: "requests that may wait; more are answered with 429" },
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
    help: "silence on a stream after which a comment is sent",
  },
  slowReaderSeconds: {
    type: "number",
    min: 0.1,
    default: 60,
    help: "time a streaming client may take to read what is buffered before it is dropped",
  },
  drainSeconds: {
    type: "number",
    min: 0,
    default: 30,
    help: "time that running requests have to finish after SIGTERM",
  },
  toolParser: {
    type: "choice",
    choices: TOOL_PARSERS,
    default: "auto",
    help: "how the model writes tool calls; auto looks at its chat template",
  },
  reasoningParser: {
    type: "choice",
    choices: REASONING_PARSERS,
    default: "auto",
    help: "which tags enclose reasoning, returned apart as reasoning_content; auto looks at the chat template",
  },
  logLevel: {
    type: "choice",
    choices: ["trace", "debug", "info", "warn", "error", "silent"],
    default: "info",
    help: "least important log lines to write",
  },
  logPrompts: { type: "boolean", default: false, help: "write prompts and answers to the log" },
} as const satisfies OptionTable & Record<keyof ServerConfig, unknown>;

export function serverConfig(...layers: readonly Readonly<Record<string, unknown>>[]): ServerConfig {
  return resolveOptions<ServerConfig>(SERVER_OPTIONS, ...layers);
}
