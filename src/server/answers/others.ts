// The answers of Anthropic's and Ollama's routes, of those for machines, and of what the page watches.

import { z } from "zod";
import { type Answers, count, named, text, tokenLogprob } from "./described.js";

const blocks = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text }),
  z.object({ type: z.literal("thinking"), thinking: text, signature: text }),
  z.object({ type: z.literal("tool_use"), id: text, name: text, input: z.unknown() }),
]);
const anthropicUsage = z.object({
  input_tokens: count,
  cache_read_input_tokens: count.optional(),
  cache_creation_input_tokens: count.optional(),
  output_tokens: count,
});
const stop_reason = z.enum(["end_turn", "max_tokens", "stop_sequence", "tool_use"]).nullable();
const stop_sequence = text.nullable();
const message = named(
  "Message",
  z.object({
    id: text,
    type: z.literal("message"),
    role: z.literal("assistant"),
    model: text,
    content: z.array(named("ContentBlock", blocks)),
    stop_reason,
    stop_sequence,
    usage: named("MessageUsage", anthropicUsage),
  }),
);
const index = count;
const messageEvent = named(
  "MessageEvent",
  z.discriminatedUnion("type", [
    z.object({ type: z.literal("message_start"), message }),
    z.object({ type: z.literal("content_block_start"), index, content_block: blocks }),
    z.object({
      type: z.literal("content_block_delta"),
      index,
      delta: z.discriminatedUnion("type", [
        z.object({ type: z.literal("text_delta"), text }),
        z.object({ type: z.literal("thinking_delta"), thinking: text }),
        z.object({ type: z.literal("input_json_delta"), partial_json: text }),
      ]),
    }),
    z.object({ type: z.literal("content_block_stop"), index }),
    z.object({
      type: z.literal("message_delta"),
      delta: z.object({ stop_reason, stop_sequence }),
      usage: anthropicUsage,
    }),
    z.object({ type: z.literal("message_stop") }),
    z.object({ type: z.literal("error"), error: z.object({ type: text, message: text }) }),
  ]),
);

const times = {
  total_duration: count.optional(),
  load_duration: count.optional(),
  prompt_eval_count: count.optional(),
  prompt_eval_duration: count.optional(),
  eval_count: count.optional(),
  eval_duration: count.optional(),
};
const ollamaEnd = {
  model: text,
  created_at: text,
  done: z.boolean(),
  done_reason: z.enum(["stop", "length", "load", "unload"]).optional(),
  logprobs: z.array(tokenLogprob).optional(),
  ...times,
};
const ollamaChat = named(
  "OllamaChat",
  z.object({
    ...ollamaEnd,
    message: z.object({
      role: z.literal("assistant"),
      content: text,
      thinking: text.optional(),
      tool_calls: z
        .array(z.object({ id: text, function: z.object({ name: text, arguments: z.unknown() }) }))
        .optional(),
    }),
  }),
);
const ollamaGenerate = named("OllamaGenerate", z.object({ ...ollamaEnd, response: text, thinking: text.optional() }));
const details = z.object({
  parent_model: text,
  format: text,
  family: text,
  families: z.array(text),
  parameter_size: text,
  quantization_level: text,
});
const ollamaModel = z.object({ name: text, model: text, modified_at: text, size: count, digest: text, details });

const step = named(
  "Step",
  z.looseObject({
    step: count,
    startMs: z.number(),
    durationMs: z.number(),
    rows: z.array(z.looseObject({ id: text })),
  }),
);

export const OTHER_ANSWERS: Answers = {
  "post /v1/messages": { answer: message, event: messageEvent },
  "post /v1/messages/count_tokens": { answer: z.object({ input_tokens: count }) },
  "post /api/chat": { answer: ollamaChat, event: ollamaChat, isLines: true },
  "post /api/generate": { answer: ollamaGenerate, event: ollamaGenerate, isLines: true },
  "post /api/embed": {
    answer: named(
      "OllamaEmbed",
      z.object({
        model: text,
        embeddings: z.array(z.array(z.number())),
        total_duration: count,
        load_duration: count,
        prompt_eval_count: count,
      }),
    ),
  },
  "post /api/embeddings": { answer: z.object({ embedding: z.array(z.number()) }) },
  "get /api/tags": { answer: z.object({ models: z.array(named("OllamaModel", ollamaModel)) }) },
  "get /api/ps": {
    answer: z.object({
      models: z.array(ollamaModel.extend({ expires_at: text, size_vram: count, context_length: count, active: count })),
    }),
  },
  "post /api/show": {
    answer: named(
      "OllamaShow",
      z.object({
        modelfile: text,
        parameters: text,
        template: text,
        license: text,
        modified_at: text,
        details,
        model_info: z.record(text, z.unknown()),
        capabilities: z.array(z.enum(["completion", "tools", "vision", "embedding"])),
      }),
    ),
  },
  "post /api/pull": {
    answer: z.object({ status: z.literal("success") }),
    event: named(
      "OllamaPull",
      z.object({ status: text, digest: text.optional(), total: count.optional(), completed: count.optional() }),
    ),
    isLines: true,
  },
  "get /api/version": { answer: z.object({ version: text }) },
  "get /version": { answer: z.object({ version: text }) },
  "get /health": { answer: named("Health", z.object({ status: text, restarts: count })) },
  "get /ready": { answer: z.object({ status: text }) },
  "get /metrics": { type: "text/plain" },
  // Of the page: for people to look at, and for no program to rely on.
  "get /api/stats": { answer: z.looseObject({ model: z.looseObject({ name: text }) }) },
  "get /api/steps": { answer: z.array(step), event: z.union([step, z.array(step)]) },
  "get /api/cache": { answer: z.looseObject({ nodes: z.array(z.looseObject({ id: count })) }) },
  "get /api/plan/:step": { answer: z.array(z.looseObject({ window: count })) },
};
