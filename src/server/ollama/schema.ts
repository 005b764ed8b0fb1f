// The bodies of Ollama's /api/chat, /api/generate, /api/embed and /api/show.

import { z } from "zod";
import { ollamaImages } from "../schemas/pictures.js";
import { fieldOf } from "../schemas/sampling.js";
import { MAX_TOOLS, toolName } from "../schemas/tools.js";
import { keepAliveField } from "./keep-alive.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();
const ignored = z.unknown().optional();

/** Those that change an answer; those about memory and threads are set when the server starts. */
const options = z.strictObject({
  temperature: maybe(fieldOf("temperature")),
  top_k: maybe(fieldOf("topK")),
  top_p: maybe(fieldOf("topP")),
  min_p: maybe(fieldOf("minP")),
  seed: maybe(fieldOf("seed")),
  num_predict: maybe(z.int().min(-2)),
  stop: maybe(fieldOf("stop")),
  draft_num_predict: maybe(z.int().min(0)),
  repeat_penalty: maybe(fieldOf("repetitionPenalty")),
  presence_penalty: maybe(fieldOf("presencePenalty")),
  frequency_penalty: maybe(fieldOf("frequencyPenalty")),
  num_ctx: ignored,
  num_batch: ignored,
  num_gpu: ignored,
  main_gpu: ignored,
  num_thread: ignored,
  num_keep: ignored,
  use_mmap: ignored,
  use_mlock: ignored,
  numa: ignored,
  low_vram: ignored,
  repeat_last_n: ignored,
  typical_p: ignored,
  tfs_z: ignored,
  penalize_newline: ignored,
  mirostat: ignored,
  mirostat_tau: ignored,
  mirostat_eta: ignored,
});

const common = {
  model: z.string(),
  stream: maybe(z.boolean()),
  format: maybe(z.union([z.enum(["json", ""]), z.record(z.string(), z.unknown())])),
  options: maybe(options),
  think: maybe(z.union([z.boolean(), z.enum(["low", "medium", "high"])])),
  keep_alive: keepAliveField,
  logprobs: maybe(z.boolean()),
  top_logprobs: maybe(fieldOf("logprobs")),
};

const tool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: toolName,
    description: z.string().optional(),
    parameters: z.record(z.string(), z.unknown()).optional(),
    type: ignored,
  }),
});

export const ollamaChatSchema = z.strictObject({
  ...common,
  messages: z
    .array(
      z.strictObject({
        role: z.enum(["system", "user", "assistant", "tool"]),
        content: z.string().default(""),
        thinking: maybe(z.string()),
        images: ollamaImages,
        tool_name: maybe(z.string()),
        tool_call_id: maybe(z.string()),
        tool_calls: maybe(
          z.array(
            z.strictObject({
              id: z.string().optional(),
              type: ignored,
              function: z.strictObject({
                name: z.string(),
                arguments: z.record(z.string(), z.unknown()),
                index: ignored,
              }),
            }),
          ),
        ),
      }),
    )
    .default([]),
  tools: maybe(z.array(tool).max(MAX_TOOLS)),
});

export const ollamaGenerateSchema = z.strictObject({
  ...common,
  prompt: maybe(z.string()),
  system: maybe(z.string()),
  raw: maybe(z.boolean()),
  images: ollamaImages,
  suffix: maybe(z.literal("", "suffix is not supported by this route; use /v1/completions")),
  template: maybe(z.literal("", "the model's own template is used")),
  context: ignored,
});

export const ollamaEmbedSchema = z.strictObject({
  model: z.string(),
  input: z.union([z.string(), z.array(z.string()).min(1).max(2048)]),
  truncate: maybe(z.boolean()),
  dimensions: maybe(z.int().min(1)),
  options: maybe(options),
  keep_alive: keepAliveField,
});

/** The older form: one text, one vector. */
export const ollamaEmbeddingsSchema = z.strictObject({
  model: z.string(),
  prompt: z.string(),
  options: maybe(options),
  keep_alive: keepAliveField,
});

export const ollamaShowSchema = z.strictObject({
  model: z.string().optional(),
  name: z.string().optional(),
  verbose: ignored,
  system: ignored,
  template: ignored,
  options: ignored,
});

export type OllamaChat = z.output<typeof ollamaChatSchema>;
export type OllamaGenerate = z.output<typeof ollamaGenerateSchema>;
