// The bodies of the smaller endpoints.

import { z } from "zod";
import { messageSchema, toolSchema } from "./chat.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();
const ids = z.array(z.int().min(0)).min(1);

export const embeddingSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union([z.string(), ids, z.array(z.string()).min(1).max(2048), z.array(ids).min(1).max(2048)]),
  encoding_format: maybe(z.enum(["float", "base64"])),
  dimensions: maybe(z.int().min(1)).meta({ description: "Only the model's own number." }),
  pooling: maybe(z.enum(["last", "mean"])).meta({ description: "Which hidden states make the vector." }),
  normalize: maybe(z.boolean()).meta({ description: "Scale to length 1; on unless false." }),
  user: z.unknown().optional(),
});

export const tokenizeSchema = z.strictObject({
  model: z.string().optional(),
  prompt: z.string().optional(),
  messages: z.array(messageSchema).min(1).optional(),
  tools: maybe(z.array(toolSchema)),
  add_special_tokens: maybe(z.boolean()),
  return_token_strs: maybe(z.boolean()),
});

export const detokenizeSchema = z.strictObject({
  model: z.string().optional(),
  tokens: z.array(z.int().min(0)),
});

export type EmbeddingBody = z.output<typeof embeddingSchema>;
