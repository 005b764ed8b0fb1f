// The body of /v1/responses.

import { z } from "zod";
import { inputImage } from "../schemas/pictures.js";
import { answerTokens, fieldOf } from "../schemas/sampling.js";
import { hostedTool, MAX_TOOLS, toolName } from "../schemas/tools.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();
const ignored = z.unknown().optional();

const textPart = z.strictObject({
  type: z.enum(["input_text", "output_text", "text", "refusal"]),
  text: z.string().optional(),
  refusal: z.string().optional(),
  annotations: ignored,
  logprobs: ignored,
});
const part = z.discriminatedUnion("type", [textPart, inputImage], {
  error: ({ input }) =>
    `${JSON.stringify((input as { type?: unknown } | null)?.type)} parts are not supported; text and input_image are`,
});
const content = z.union([z.string(), z.array(part)]);

const messageItem = z.strictObject({
  type: z.literal("message").optional(),
  id: maybe(z.string()),
  role: z.enum(["user", "assistant", "system", "developer"]),
  content,
  status: ignored,
  phase: ignored,
});
const callItem = z.strictObject({
  type: z.literal("function_call"),
  id: maybe(z.string()),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
  status: ignored,
  namespace: maybe(z.string()),
});
const outputItem = z.strictObject({
  type: z.literal("function_call_output"),
  id: maybe(z.string()),
  call_id: z.string(),
  output: content,
  status: ignored,
  name: ignored,
});
const reasoningItem = z.strictObject({
  type: z.literal("reasoning"),
  id: maybe(z.string()),
  summary: ignored,
  content: maybe(z.array(z.strictObject({ type: z.literal("reasoning_text"), text: z.string() }))),
  encrypted_content: ignored,
  status: ignored,
});
const referenceItem = z.strictObject({ type: z.literal("item_reference").optional(), id: z.string() });

export const inputItem = z.union([messageItem, callItem, outputItem, reasoningItem, referenceItem]);

const functionTool = z.strictObject({
  type: z.literal("function"),
  name: toolName,
  description: maybe(z.string()),
  parameters: maybe(z.record(z.string(), z.unknown())),
  strict: maybe(z.boolean()),
  defer_loading: ignored,
});
/** Tools that belong together: calls name both. */
const namespace = z.strictObject({
  type: z.literal("namespace"),
  name: toolName,
  description: ignored,
  tools: z.array(z.union([functionTool, hostedTool(["function"])])).max(MAX_TOOLS),
});
const named = z.strictObject({ type: z.literal("function"), name: z.string() });

export const responseSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union([z.string(), z.array(inputItem).min(1)]),
  instructions: maybe(z.string()),
  previous_response_id: maybe(z.string()),
  store: maybe(z.boolean()).meta({ description: "Kept for retrieval and previous_response_id unless false." }),
  truncation: maybe(z.enum(["auto", "disabled"])).meta({
    description: "auto: the oldest items of a conversation that is too long leave until it fits; else it is refused.",
  }),
  max_output_tokens: maybe(answerTokens),
  temperature: maybe(fieldOf("temperature")),
  top_p: maybe(fieldOf("topP")),
  top_logprobs: maybe(fieldOf("logprobs")),
  include: maybe(z.array(z.string())),
  stream: maybe(z.boolean()),
  stream_options: ignored,
  text: maybe(
    z.strictObject({
      format: maybe(
        z.discriminatedUnion("type", [
          z.strictObject({ type: z.literal("text") }),
          z.strictObject({ type: z.literal("json_object") }),
          z.strictObject({
            type: z.literal("json_schema"),
            name: z.string().optional(),
            description: z.string().optional(),
            schema: z.record(z.string(), z.unknown()),
            strict: maybe(z.boolean()),
          }),
        ]),
      ),
      verbosity: ignored,
    }),
  ),
  tools: maybe(z.array(z.union([functionTool, namespace, hostedTool(["function", "namespace"])])).max(MAX_TOOLS)),
  tool_choice: maybe(
    z.union([
      z.enum(["auto", "none", "required"]),
      named,
      z.strictObject({
        type: z.literal("allowed_tools"),
        mode: z.enum(["auto", "required"]),
        tools: z.array(named).min(1),
      }),
    ]),
  ),
  parallel_tool_calls: maybe(z.boolean()),
  reasoning: maybe(z.looseObject({ effort: maybe(z.string()) })),
  metadata: maybe(z.record(z.string(), z.unknown())),
  seed: maybe(z.int()),
  cache_salt: maybe(z.string().max(1000)),
  // Accepted because clients send them; they change nothing here.
  background: z.literal(false, "background responses are not supported").nullish(),
  // A client that sends one leaves out what the server is to know already.
  conversation: z.null("conversations are not kept here; use previous_response_id").optional(),
  prompt: z.null("prompts are not kept here; send instructions and input").optional(),
  user: ignored,
  service_tier: ignored,
  safety_identifier: ignored,
  prompt_cache_key: ignored,
  prompt_cache_retention: ignored,
  client_metadata: ignored,
  max_tool_calls: ignored,
});

export type ResponseBody = z.output<typeof responseSchema>;
export type FunctionTool = z.output<typeof functionTool>;
export type Namespace = z.output<typeof namespace>;
export type InputItem = z.output<typeof inputItem>;
