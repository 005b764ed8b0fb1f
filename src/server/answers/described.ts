// What openapi.json says of an answer: its schema, and those of the events where it can be streamed. Named schemas (`meta({ id })`) become
// components that generated clients have types of.

import { z } from "zod";

export interface Described {
  /** Of the whole answer. Absent: it is text of `type`. */
  readonly answer?: z.ZodType;
  /** Default: application/json. */
  readonly type?: string;
  /** Of one event of a stream. */
  readonly event?: z.ZodType;
  /** One event a line, instead of server-sent ones. */
  readonly isLines?: boolean;
}

/** By method and path, as in `Route`: "post /v1/chat/completions". */
export type Answers = Readonly<Record<string, Described>>;

export const count = z.int().min(0);
export const text = z.string();

export function named<T extends z.ZodType>(id: string, schema: T): T {
  return schema.meta({ id });
}

export const openaiError = named(
  "Error",
  z.object({
    error: z.object({ message: text, type: text, param: text.nullable(), code: text.nullable() }),
  }),
);
export const anthropicError = named(
  "AnthropicError",
  z.object({
    type: z.literal("error"),
    error: z.object({
      type: text,
      message: text,
      details: z.object({ error_code: text, unsupported: z.array(text.nullable()) }).optional(),
    }),
  }),
);
export const ollamaError = named("OllamaError", z.object({ error: text }));

/** With the header x-pagoda-trace: 1. */
export const trace = named(
  "RequestTrace",
  z.object({
    promptTokens: count,
    completionTokens: count,
    cachedTokens: count,
    chunks: count,
    steps: count,
    preemptions: count,
    drafts: count,
    draftTokens: count,
    acceptedTokens: count,
    acceptedMs: z.number(),
    queuedMs: z.number(),
    timeToFirstTokenMs: z.number(),
    totalMs: z.number(),
    tokensPerSecond: z.number(),
  }),
);

export const usage = named(
  "Usage",
  z.object({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: z.object({ cached_tokens: count }),
    completion_tokens_details: z
      .object({
        reasoning_tokens: count.optional(),
        accepted_prediction_tokens: count.optional(),
        rejected_prediction_tokens: count.optional(),
      })
      .optional(),
  }),
);
export const textUsage = named(
  "TextUsage",
  z.object({ prompt_tokens: count, total_tokens: count, completion_tokens: count.optional() }),
);

const tokenFields = { token: text, logprob: z.number(), bytes: z.array(z.int()) };
export const tokenLogprob = named(
  "TokenLogprob",
  z.object({ ...tokenFields, top_logprobs: z.array(z.object(tokenFields)) }),
);
export const chatLogprobs = z.object({ content: z.array(tokenLogprob), refusal: z.null() });
/** Null for the first token. */
export const promptLogprobs = z.array(
  z.record(text, z.object({ logprob: z.number(), decoded_token: text })).nullable(),
);
export const finishReason = z.enum(["stop", "length", "tool_calls", "function_call"]);
