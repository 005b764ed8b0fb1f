// The bodies of Anthropic's /v1/messages and /v1/messages/count_tokens.

import { z } from "zod";
import { imageBlock } from "../schemas/pictures.js";
import { answerTokens, fieldOf } from "../schemas/sampling.js";
import { hostedTool, MAX_TOOLS, toolName } from "../schemas/tools.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();
const ignored = z.unknown().optional();

const textBlock = z.strictObject({
  type: z.literal("text"),
  text: z.string(),
  cache_control: ignored,
  citations: ignored,
});
/** What a search for tools found; all of them are shown to the model anyway. */
const toolReference = z.strictObject({
  type: z.literal("tool_reference"),
  tool_name: z.string(),
  cache_control: ignored,
});
const block = z.discriminatedUnion(
  "type",
  [
    textBlock,
    imageBlock,
    z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: z.string().optional() }),
    z.strictObject({ type: z.literal("redacted_thinking"), data: z.string() }),
    z.strictObject({
      type: z.literal("tool_use"),
      id: z.string(),
      name: z.string(),
      input: z.record(z.string(), z.unknown()),
      cache_control: ignored,
      caller: ignored,
    }),
    z.strictObject({
      type: z.literal("tool_result"),
      tool_use_id: z.string(),
      content: z
        .union([z.string(), z.array(z.discriminatedUnion("type", [textBlock, toolReference, imageBlock]))])
        .optional(),
      is_error: z.boolean().optional(),
      cache_control: ignored,
    }),
  ],
  { error: "only text, image, thinking, tool_use and tool_result blocks are supported" },
);

const tool = z.strictObject({
  type: z.literal("custom").nullish(),
  name: toolName,
  description: z.string().optional(),
  input_schema: z.record(z.string(), z.unknown()),
  strict: z.boolean().optional(),
  cache_control: ignored,
  eager_input_streaming: ignored,
  input_examples: ignored,
  defer_loading: ignored,
  allowed_callers: ignored,
});

const parallel = { disable_parallel_tool_use: z.boolean().optional() };

const format = maybe(
  z.strictObject({ type: z.literal("json_schema"), schema: z.record(z.string(), z.unknown()), name: ignored }),
);

const conversation = {
  model: z.string(),
  messages: z
    .array(
      z.strictObject({ role: z.enum(["user", "assistant", "system"]), content: z.union([z.string(), z.array(block)]) }),
    )
    .min(1),
  system: maybe(z.union([z.string(), z.array(textBlock)])),
  tools: maybe(z.array(z.union([tool, hostedTool(["custom"])])).max(MAX_TOOLS)),
  tool_choice: maybe(
    z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("auto"), ...parallel }),
      z.strictObject({ type: z.literal("any"), ...parallel }),
      z.strictObject({ type: z.literal("none") }),
      z.strictObject({ type: z.literal("tool"), name: z.string(), ...parallel }),
    ]),
  ),
  thinking: maybe(
    z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("enabled"), budget_tokens: z.int().min(1), display: ignored }),
      z.strictObject({ type: z.literal("adaptive"), display: ignored }),
      z.strictObject({ type: z.literal("disabled") }),
    ]),
  ),
  output_config: maybe(z.strictObject({ format, effort: maybe(z.string()), task_budget: ignored })).meta({
    description: "format constrains the answer; effort is reasoning_effort of /v1/chat/completions.",
  }),
  output_format: format.meta({ description: "As output_config.format was called before." }),
  // A client that knows threads sends only what is new: an answer to that alone would be wrong.
  thread: z
    .custom<null>((value) => value == null, {
      message: "Conversations are not kept here; send the whole of it with every request.",
      params: { code: "thread_unsupported_request" },
    })
    .optional(),
  context_management: ignored,
  mcp_servers: z.array(z.unknown()).max(0, "servers of tools are asked by clients, not here").nullish(),
  speed: ignored,
};

export const countTokensSchema = z.strictObject(conversation);

export const messagesSchema = z.strictObject({
  ...conversation,
  max_tokens: answerTokens,
  stream: maybe(z.boolean()),
  stop_sequences: maybe(z.array(z.string().min(1)).max(64)),
  temperature: maybe(fieldOf("temperature")),
  top_k: maybe(fieldOf("topK")),
  top_p: maybe(fieldOf("topP")),
  // Accepted because clients send them; they change nothing here.
  metadata: ignored,
  service_tier: ignored,
  container: ignored,
  inference_geo: ignored,
  cache_control: ignored,
});

export type MessagesBody = z.output<typeof messagesSchema>;
export type AnthropicConversation = z.output<typeof countTokensSchema>;
