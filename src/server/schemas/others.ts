// The bodies of the smaller endpoints.

import { z } from "zod";
import { messageSchema, toolSchema } from "../openai/chat-schema.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();

export const tokenizeSchema = z.strictObject({
  model: z.string().optional(),
  prompt: z.string().optional(),
  messages: z.array(messageSchema).min(1).optional(),
  tools: maybe(z.array(toolSchema)),
  chat_template_kwargs: maybe(z.record(z.string(), z.unknown())),
  add_special_tokens: maybe(z.boolean()),
  return_token_strs: maybe(z.boolean()),
});

export const detokenizeSchema = z.strictObject({
  model: z.string().optional(),
  tokens: z.array(z.int().min(0)),
});
