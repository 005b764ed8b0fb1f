// The body of /v1/chat/completions.

import { z } from "zod";
import { ROLES } from "../../tokenizer/chat-template.js";
import { imagePart } from "../schemas/pictures.js";
import { answerTokens, fieldOf, samplingFields } from "../schemas/sampling.js";
import { hostedTool, MAX_TOOLS, toolName } from "../schemas/tools.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();

const textPart = z.strictObject({
  type: z.enum(["text", "input_text", "output_text", "refusal"]),
  text: z.string().optional(),
  refusal: z.string().optional(),
  cache_control: z.unknown().optional(), // changes nothing here: every prefix is cached
});

const part = z.discriminatedUnion("type", [textPart, imagePart], {
  error: ({ input }) =>
    `${JSON.stringify((input as { type?: unknown } | null)?.type)} parts are not supported; text and image_url are`,
});

/** What a message may carry beside its text reaches the chat template as it is. */
export const messageSchema = z.strictObject({
  role: z.enum(ROLES),
  content: z.union([z.string(), z.array(part)]).nullish(),
  name: maybe(z.string()),
  tool_calls: maybe(
    z.array(
      z.strictObject({
        id: z.string().optional(),
        type: z.literal("function").optional(),
        index: z.int().optional(),
        function: z.strictObject({ name: z.string(), arguments: z.string() }),
      }),
    ),
  ),
  tool_call_id: z.string().optional(),
  reasoning_content: maybe(z.string()),
  reasoning: maybe(z.string()),
  refusal: maybe(z.string()),
  annotations: z.unknown().optional(),
  audio: z.null().optional(),
  function_call: maybe(z.strictObject({ name: z.string(), arguments: z.string() })),
});

export const toolSchema = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: toolName,
    description: z.string().optional(),
    parameters: z.record(z.string(), z.unknown()).optional(),
    strict: maybe(z.boolean()),
  }),
});

/** -1: as many as there is room for, as llama.cpp and LM Studio have it. */
const chatTokens = z.union([answerTokens, z.literal(-1)], {
  error: "must be a whole number of at least 1, or -1 for no limit",
});

/** Of tokens that may be thought. */
const budget = z
  .int()
  .min(-1)
  .max(2 ** 24);

const named = z.strictObject({ name: z.string() });
const namedTool = z.strictObject({ type: z.literal("function"), function: named });

export const chatSchema = z.strictObject({
  messages: z.array(messageSchema).min(1),
  ...samplingFields,
  max_tokens: maybe(chatTokens),
  max_completion_tokens: maybe(chatTokens),
  logprobs: maybe(z.boolean()),
  top_logprobs: maybe(fieldOf("logprobs")),
  tools: maybe(z.array(z.union([toolSchema, hostedTool(["function"])])).max(MAX_TOOLS)),
  tool_choice: maybe(
    z.union([
      z.enum(["auto", "none", "required"]),
      namedTool,
      z.strictObject({
        type: z.literal("allowed_tools"),
        allowed_tools: z.strictObject({ mode: z.enum(["auto", "required"]), tools: z.array(namedTool).min(1) }),
      }),
    ]),
  ),
  parallel_tool_calls: maybe(z.boolean()),
  functions: maybe(z.array(toolSchema.shape.function).max(MAX_TOOLS)).meta({
    description: "As tools were called before.",
  }),
  function_call: maybe(z.union([z.enum(["auto", "none"]), named])),
  continue_final_message: maybe(z.boolean()).meta({
    description: "The answer continues the last message instead of beginning one.",
  }),
  add_generation_prompt: maybe(z.boolean()).meta({ description: "Only as the opposite of continue_final_message." }),
  chat_template_kwargs: maybe(z.record(z.string(), z.unknown())),
  reasoning_effort: maybe(z.string()).meta({
    description:
      "Given to the chat template as reasoning_effort. Where the template knows none: none, minimal, low and medium end thoughts after 0, 512, 2048 and 8192 tokens.",
  }),
  thinking_token_budget: maybe(budget).meta({ description: "Thoughts end after this number of tokens; -1: never." }),
  thinking_budget: maybe(budget).meta({ description: "As thinking_token_budget." }),
  enable_thinking: maybe(z.boolean()).meta({ description: "As chat_template_kwargs.enable_thinking." }),
  reasoning: maybe(
    z.looseObject({ effort: maybe(z.string()), enabled: maybe(z.boolean()), max_tokens: maybe(budget) }),
  ).meta({
    description: "As OpenRouter writes reasoning_effort and enable_thinking.",
  }),
  thinking: maybe(z.looseObject({ type: maybe(z.string()), budget_tokens: maybe(budget) })).meta({
    description: "As DeepSeek and Anthropic write enable_thinking and thinking_token_budget: disabled or enabled.",
  }),
  prediction: maybe(
    z.strictObject({ type: z.literal("content"), content: z.union([z.string(), z.array(textPart)]) }),
  ).meta({
    description: "What the answer will be like in large part: tokens are guessed from it.",
  }),
  modalities: z.unknown().optional(),
  verbosity: z.unknown().optional(),
});

export type ChatBody = z.output<typeof chatSchema>;
export type ChatTool = z.output<typeof toolSchema>;
