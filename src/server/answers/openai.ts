// The answers of OpenAI's routes, and of those that others have added to them.

import { z } from "zod";
import {
  type Answers,
  chatLogprobs,
  count,
  finishReason,
  named,
  promptLogprobs,
  text,
  textUsage,
  tokenLogprob,
  trace,
  usage,
} from "./described.js";

const functionCall = z.object({ name: text, arguments: text });
const toolCall = z.object({ id: text, type: z.literal("function"), function: functionCall });
const head = { id: text, created: count, model: text, system_fingerprint: z.null() };
const pagoda_trace = z.union([trace, z.array(trace)]).optional();

const chatCompletion = named(
  "ChatCompletion",
  z.object({
    ...head,
    object: z.literal("chat.completion"),
    choices: z.array(
      z.object({
        index: count,
        message: z.object({
          role: z.literal("assistant"),
          content: text.nullable(),
          reasoning_content: text.optional(),
          tool_calls: z.array(toolCall).optional(),
          function_call: functionCall.optional(),
        }),
        logprobs: chatLogprobs.nullable(),
        finish_reason: finishReason,
      }),
    ),
    usage,
    prompt_logprobs: promptLogprobs.optional(),
    pagoda_trace,
  }),
);
const chatChunk = named(
  "ChatCompletionChunk",
  z.object({
    ...head,
    object: z.literal("chat.completion.chunk"),
    choices: z.array(
      z.object({
        index: count,
        delta: z.object({
          role: z.literal("assistant").optional(),
          content: text.optional(),
          reasoning_content: text.optional(),
          tool_calls: z
            .array(
              z.object({
                index: count,
                id: text.optional(),
                type: z.literal("function").optional(),
                function: z.object({ name: text.optional(), arguments: text }),
              }),
            )
            .optional(),
          function_call: z.object({ name: text.optional(), arguments: text }).optional(),
          pagoda_guessed: z.literal(true).optional(),
        }),
        logprobs: chatLogprobs.nullable(),
        finish_reason: finishReason.nullable(),
      }),
    ),
    usage: usage.optional(),
    pagoda_trace,
  }),
);

const completion = named(
  "Completion",
  z.object({
    ...head,
    object: z.literal("text_completion"),
    choices: z.array(
      z.object({
        index: count,
        text,
        logprobs: z
          .object({
            tokens: z.array(text),
            token_logprobs: z.array(z.number().nullable()),
            top_logprobs: z.array(z.record(text, z.number()).nullable()),
            text_offset: z.array(count),
          })
          .nullable(),
        finish_reason: finishReason.nullable(),
        stop_reason: z.union([text, z.int()]).nullish(),
        prompt_logprobs: promptLogprobs.optional(),
      }),
    ),
    usage: usage.optional(),
    pagoda_trace,
  }),
);

const itemHead = { id: text, status: z.enum(["in_progress", "completed", "incomplete"]) };
const outputText = z.object({
  type: z.literal("output_text"),
  text,
  annotations: z.array(z.unknown()),
  logprobs: z.array(tokenLogprob),
});
const reasoningText = z.object({ type: z.literal("reasoning_text"), text });
const outputItem = named(
  "ResponseItem",
  z.discriminatedUnion("type", [
    z.object({
      ...itemHead,
      type: z.literal("message"),
      role: z.literal("assistant"),
      content: z.array(outputText),
    }),
    z.object({
      ...itemHead,
      type: z.literal("reasoning"),
      summary: z.array(z.unknown()),
      content: z.array(reasoningText),
    }),
    z.object({
      ...itemHead,
      type: z.literal("function_call"),
      call_id: text,
      name: text,
      namespace: text.optional(),
      arguments: text,
    }),
  ]),
);
const response = named(
  "Response",
  z.object({
    id: text,
    object: z.literal("response"),
    created_at: count,
    status: z.enum(["in_progress", "completed", "incomplete", "failed"]),
    incomplete_details: z.object({ reason: z.literal("max_output_tokens") }).nullable(),
    error: z.object({ code: text.nullable(), message: text }).nullable(),
    model: text,
    output: z.array(outputItem),
    instructions: text.nullable(),
    previous_response_id: text.nullable(),
    max_output_tokens: count.nullable(),
    temperature: z.number().nullable(),
    top_p: z.number().nullable(),
    top_logprobs: count,
    text: z.record(text, z.unknown()),
    tools: z.array(z.unknown()),
    tool_choice: z.unknown(),
    parallel_tool_calls: z.boolean(),
    reasoning: z.object({ effort: text.nullable(), summary: text.nullable() }),
    metadata: z.record(text, z.unknown()),
    truncation: z.enum(["auto", "disabled"]),
    background: z.boolean(),
    store: z.boolean(),
    usage: z
      .object({
        input_tokens: count,
        input_tokens_details: z.object({ cached_tokens: count }),
        output_tokens: count,
        output_tokens_details: z.object({ reasoning_tokens: count }),
        total_tokens: count,
      })
      .nullable(),
    pagoda_trace,
  }),
);
const responseEvent = named(
  "ResponseEvent",
  z.object({
    type: text,
    sequence_number: count,
    response: response.optional(),
    item: outputItem.optional(),
    item_id: text.optional(),
    output_index: count.optional(),
    content_index: count.optional(),
    part: z.union([outputText, reasoningText]).optional(),
    delta: text.optional(),
    text: text.optional(),
    logprobs: z.array(tokenLogprob).optional(),
    name: text.optional(),
    arguments: text.optional(),
  }),
);

const model = named(
  "Model",
  z.object({
    id: text,
    object: z.literal("model"),
    created: count,
    owned_by: text,
    root: text.optional(),
    parent: text.optional(),
    is_loaded: z.boolean(),
    max_model_len: count.optional(),
    architecture: text.optional(),
  }),
);

const rerank = named(
  "Rerank",
  z.object({
    id: text,
    object: z.literal("list"),
    model: text,
    results: z.array(z.object({ index: count, relevance_score: z.number(), document: z.object({ text }).optional() })),
    usage: textUsage,
    meta: z.object({
      api_version: z.object({ version: text }),
      billed_units: z.object({ search_units: count }),
      tokens: z.object({ input_tokens: count }),
    }),
  }),
);

const deleted = z.object({ id: text, object: text, deleted: z.boolean() });
const file = named(
  "File",
  z.object({
    id: text,
    object: z.literal("file"),
    filename: text,
    purpose: z.enum(["batch", "batch_output"]),
    bytes: count,
    created_at: count,
    status: z.literal("processed"),
  }),
);
const at = count.nullable();
const batch = named(
  "Batch",
  z.object({
    id: text,
    object: z.literal("batch"),
    endpoint: text,
    errors: z
      .object({
        object: z.literal("list"),
        data: z.array(z.object({ code: text, message: text, param: text.nullable(), line: count.nullable() })),
      })
      .nullable(),
    input_file_id: text,
    completion_window: text,
    status: z.enum(["validating", "failed", "in_progress", "finalizing", "completed", "cancelling", "cancelled"]),
    output_file_id: text.nullable(),
    error_file_id: text.nullable(),
    created_at: count,
    in_progress_at: at,
    expires_at: z.null(),
    finalizing_at: at,
    completed_at: at,
    failed_at: at,
    expired_at: z.null(),
    cancelling_at: at,
    cancelled_at: at,
    request_counts: z.object({ total: count, completed: count, failed: count }),
    metadata: z.record(text, text).nullable(),
  }),
);

function listOf(item: z.ZodType) {
  return z.object({
    object: z.literal("list"),
    data: z.array(item),
    first_id: text.nullable(),
    last_id: text.nullable(),
    has_more: z.boolean(),
  });
}

export const OPENAI_ANSWERS: Answers = {
  "post /v1/chat/completions": { answer: chatCompletion, event: chatChunk },
  "post /v1/completions": { answer: completion, event: completion },
  "post /v1/responses": { answer: response, event: responseEvent },
  "get /v1/responses/:id": { answer: response },
  "delete /v1/responses/:id": { answer: deleted },
  "get /v1/responses/:id/input_items": { answer: listOf(z.looseObject({ id: text, type: text })) },
  "post /v1/embeddings": {
    answer: named(
      "Embeddings",
      z.object({
        object: z.literal("list"),
        model: text,
        data: z.array(
          z.object({
            object: z.literal("embedding"),
            index: count,
            embedding: z.union([z.array(z.number()), text]).meta({ description: "Base64 of floats where asked for." }),
          }),
        ),
        usage: textUsage,
      }),
    ),
  },
  "post /v1/rerank": { answer: rerank },
  "post /v2/rerank": { answer: rerank },
  "post /rerank": { answer: rerank },
  "post /v1/score": {
    answer: named(
      "Scores",
      z.object({
        id: text,
        object: z.literal("list"),
        created: count,
        model: text,
        data: z.array(z.object({ index: count, object: z.literal("score"), score: z.number() })),
        usage: textUsage,
      }),
    ),
  },
  "get /v1/models": { answer: z.object({ object: z.literal("list"), data: z.array(model) }) },
  "get /v1/models/:model{.+}": { answer: model },
  "post /v1/files": { answer: file },
  "get /v1/files": { answer: listOf(file) },
  "get /v1/files/:id": { answer: file },
  "get /v1/files/:id/content": { type: "application/jsonl" },
  "delete /v1/files/:id": { answer: deleted },
  "post /v1/batches": { answer: batch },
  "get /v1/batches": { answer: listOf(batch) },
  "get /v1/batches/:id": { answer: batch },
  "post /v1/batches/:id/cancel": { answer: batch },
  "post /v1/load_lora_adapter": { type: "text/plain" },
  "post /v1/unload_lora_adapter": { type: "text/plain" },
  "get /lora-adapters": {
    answer: z.array(z.object({ id: count, name: text, path: text, scale: z.number() })),
  },
  "post /tokenize": {
    answer: named(
      "Tokens",
      z.object({
        count,
        max_model_len: count,
        tokens: z.array(count),
        token_strs: z.array(text).optional(),
      }),
    ),
  },
  "post /detokenize": { answer: z.object({ prompt: text }) },
};
