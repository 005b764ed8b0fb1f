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

const responseContent = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.enum(["input_text", "output_text", "text"]), text: z.string() })),
]);

export const responseSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union([
    z.string(),
    z
      .array(
        z.looseObject({
          type: z.literal("message").optional(),
          role: z.enum(["user", "assistant", "system", "developer"]),
          content: responseContent,
        }),
      )
      .min(1),
  ]),
  instructions: maybe(z.string()),
  max_output_tokens: maybe(z.int().min(1)),
  temperature: maybe(z.number().min(0).max(100)),
  top_p: maybe(z.number().min(0).max(1)),
  stream: maybe(z.boolean()),
  text: maybe(
    z.looseObject({
      format: maybe(
        z.discriminatedUnion("type", [
          z.object({ type: z.literal("text") }),
          z.object({ type: z.literal("json_object") }),
          z.looseObject({ type: z.literal("json_schema"), schema: z.record(z.string(), z.unknown()) }),
        ]),
      ),
    }),
  ),
  seed: maybe(z.int()),
  cache_salt: maybe(z.string().max(1000)),
  previous_response_id: maybe(z.literal("")).meta({ description: "Not supported: responses are not stored." }),
  tools: maybe(z.array(z.unknown()).max(0)).meta({ description: "Not supported here; use /v1/chat/completions." }),
  tool_choice: z.unknown().optional(),
  truncation: z.unknown().optional(),
  store: z.unknown().optional(),
  include: z.unknown().optional(),
  reasoning: z.unknown().optional(),
  metadata: z.unknown().optional(),
  parallel_tool_calls: z.unknown().optional(),
  user: z.unknown().optional(),
  service_tier: z.unknown().optional(),
  safety_identifier: z.unknown().optional(),
  prompt_cache_key: z.unknown().optional(),
});

export type EmbeddingBody = z.output<typeof embeddingSchema>;
export type ResponseBody = z.output<typeof responseSchema>;
