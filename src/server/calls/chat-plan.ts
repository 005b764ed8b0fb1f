// A conversation as the engine takes it: everything that can be decided, and refused, before the engine is asked. Every chat API is
// turned into OpenAI's body first and planned here.

import type { Context } from "hono";
import type { AnswerOptions } from "../../chat/answer.js";
import { planAnswer } from "../../chat/answer-plan.js";
import { forcedCalls } from "../../chat/tools/force-call.js";
import type { GenerateOptions, SpeculativeOptions } from "../../engine/types.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";
import type { AppEnv, ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";
import { noteIgnored } from "../http/body.js";
import { loraOf } from "../models/lora.js";
import type { ChatBody, ChatTool } from "../openai/chat-schema.js";
import { samplingOptions } from "../schemas/sampling.js";
import { checkModel, saltOf, toChatMessages, tokenizeChat } from "./prompt.js";

/** An answer of JSON under a schema, as a constraint that errors know by the field it came in. */
export function jsonFormat(schema: unknown, param: string): ConstraintSpec {
  return { kind: "json_schema", source: JSON.stringify(schema), param };
}

/** Of APIs where a conversation that ends with an assistant's text asks for the rest of it. */
export function endsWithAnswer(messages: ChatBody["messages"]): boolean {
  const last = messages.at(-1);
  return last?.role === "assistant" && typeof last.content === "string" && last.content !== "" && !last.tool_calls;
}

export interface ChatPlan {
  readonly prompt: readonly number[];
  readonly options: GenerateOptions;
  readonly answer: AnswerOptions;
}

/** `format`: a constraint on the answer that came in a field which OpenAI's body does not have. */
export async function planChat(
  c: Context<AppEnv>,
  body: ChatBody,
  format: ConstraintSpec | null = null,
  { isCounted = false } = {},
): Promise<ChatPlan> {
  const context = c.get("server");
  checkModel(context, body.model);
  if (body.stream === true && body.prompt_logprobs != null)
    throw new ApiError("invalid_value", "prompt_logprobs cannot be streamed.", { param: "prompt_logprobs" });
  if (body.top_logprobs != null && body.logprobs !== true)
    throw new ApiError("invalid_value", "top_logprobs needs logprobs: true.", { param: "top_logprobs" });
  const isContinued = body.continue_final_message === true;
  if (body.add_generation_prompt === isContinued) {
    const message = "add_generation_prompt is only supported as the opposite of continue_final_message.";
    throw new ApiError("invalid_value", message, { param: "add_generation_prompt" });
  }
  const asked = body.max_completion_tokens ?? body.max_tokens;
  const maxTokens = asked === -1 ? null : asked;
  const sampling = samplingOptions({ ...body, max_tokens: maxTokens });
  const choice = toolChoiceOf(context, body);
  noteIgnored(c, leftOut(body));
  const constraint = choice.forced ?? format ?? sampling.constraint;
  const template = {
    ...(choice.tools.length === 0 ? {} : { tools: choice.tools }),
    continueFinalMessage: isContinued,
    templateArgs: templateArgsOf(body),
  };
  const { text, ids, pictures } = await tokenizeChat(c, toChatMessages(body.messages), template, { isCounted });
  const prediction = await predictionOf(c, body);
  const constrained = choice.forced !== undefined ? "forced call" : constraint !== undefined ? "text" : "no";
  const bounds = {
    constraint: constraint ?? null,
    budget: budgetOf(context, body),
    encode: (tags: string) => context.engine.tokenizer.encode(tags, { addSpecialTokens: false }),
  };
  const plan = planAnswer(context.form, text, choice.tools, constrained, isContinued ? null : bounds);
  return {
    prompt: ids,
    options: {
      ...sampling,
      ...(body.logprobs === true ? { logprobs: body.top_logprobs ?? 0 } : {}),
      ...(constraint === undefined ? {} : { constraint }),
      ...plan.options,
      ...(pictures.length === 0 ? {} : { pictures }),
      ...loraOf(context, body.lora),
      ...(prediction === null ? {} : { speculative: withPrediction(sampling.speculative, prediction) }),
      salt: saltOf(c, body.cache_salt),
    },
    answer: plan.answer,
  };
}

/** Token ids of OpenAI's predicted output. */
async function predictionOf(c: Context<AppEnv>, { prediction }: ChatBody): Promise<readonly number[] | null> {
  if (prediction == null) return null;
  const { content } = prediction;
  const text = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
  return c.get("server").engine.tokenizeAside(text, { addSpecialTokens: false, content: [[0, text.length]] });
}

function withPrediction(asked: GenerateOptions["speculative"], prediction: readonly number[]): SpeculativeOptions {
  if (asked === undefined || typeof asked === "boolean")
    return { method: asked === false ? "off" : "auto", prediction };
  return { ...(typeof asked === "string" ? { method: asked } : asked), prediction };
}

/** Thinking and effort, by whichever name a client has for them; what it says to the template itself counts most. */
function templateArgsOf(body: ChatBody): Record<string, unknown> {
  const effort = body.reasoning_effort ?? body.reasoning?.effort;
  const type = body.thinking?.type;
  const isAsked = type == null ? (effort === "none" ? false : null) : type !== "disabled";
  const thinks = body.enable_thinking ?? body.reasoning?.enabled ?? isAsked;
  return {
    ...(effort == null ? {} : { reasoning_effort: effort }),
    ...(thinks === null ? {} : { enable_thinking: thinks }),
    ...body.chat_template_kwargs,
  };
}

/** Where a template knows no effort, an effort is a bound on thoughts: so many tokens. Others are not bound. */
const EFFORT_TOKENS: Readonly<Record<string, number>> = { none: 0, minimal: 512, low: 2048, medium: 8192 };

/** The most tokens that may be thought, by whichever name a client has for it; null: as many as the model likes. */
function budgetOf({ engine }: ServerContext, body: ChatBody): number | null {
  const asked =
    body.thinking_token_budget ?? body.thinking_budget ?? body.thinking?.budget_tokens ?? body.reasoning?.max_tokens;
  if (asked != null) return asked < 0 ? null : asked;
  const effort = body.reasoning_effort ?? body.reasoning?.effort;
  if (effort == null || engine.chatTemplate?.includes("reasoning_effort") === true) return null;
  return EFFORT_TOKENS[effort] ?? null;
}

function leftOut({ tools }: ChatBody): string[] {
  const hosted = (tools ?? []).filter((tool) => !isFunction(tool));
  return [...new Set(hosted.map(({ type }) => `tools of type ${type}`))];
}

function isFunction(tool: NonNullable<ChatBody["tools"]>[number]): tool is ChatTool {
  return tool.type === "function";
}

/** The tools the model is shown, and the constraint when the choice is forced. */
function toolChoiceOf(
  context: ServerContext,
  body: ChatBody,
): { tools: readonly ChatTool[]; forced?: GenerateOptions["constraint"] } {
  const { offered, tools, choice, isRequired, isParallel } = allowedTools(body);
  if (choice === "none" || tools.length === 0) return { tools: [] };
  const refuse = (message: string, param = "tool_choice"): never => {
    throw new ApiError("invalid_value", message, { param });
  };
  const { toolFormat, toolPlace } = context.form;
  if (toolPlace === null)
    refuse(
      "This model's chat template has no place for tools, and this server does not parse calls (toolParser none).",
      "tools",
    );
  if (!isRequired) return { tools };
  if (toolFormat === null)
    return refuse("This server does not parse tool calls (toolParser none, or no chat template).");
  if (body.response_format != null && body.response_format.type !== "text")
    refuse("tool_choice and response_format cannot both constrain the answer.");
  return { tools, forced: forcedCalls(toolFormat, tools, isParallel, offered) };
}

interface Allowed {
  readonly offered: readonly ChatTool[];
  readonly tools: readonly ChatTool[];
  readonly choice: "none" | "some";
  readonly isRequired: boolean;
  readonly isParallel: boolean;
}

function allowedTools(body: ChatBody): Allowed {
  const offered =
    body.tools?.filter(isFunction) ?? body.functions?.map((fn): ChatTool => ({ type: "function", function: fn })) ?? [];
  const choice = body.tool_choice ?? legacyChoice(body);
  const isParallel = body.parallel_tool_calls !== false && body.functions == null;
  if (choice === "none") return { offered, tools: [], choice: "none", isRequired: false, isParallel };
  if (choice === "auto") return { offered, tools: offered, choice: "some", isRequired: false, isParallel };
  const isNamed = typeof choice === "object" && choice.type === "function";
  const names =
    choice === "required"
      ? null
      : isNamed
        ? [choice.function.name]
        : choice.allowed_tools.tools.map((tool) => tool.function.name);
  const unknown = names?.find((name) => !offered.some((tool) => tool.function.name === name));
  if (unknown !== undefined || (names === null && offered.length === 0)) {
    const message = "tool_choice names a tool that is not in tools.";
    throw new ApiError("invalid_value", message, { param: "tool_choice" });
  }
  return {
    offered,
    tools: names === null ? offered : offered.filter((tool) => names.includes(tool.function.name)),
    choice: "some",
    isRequired: choice === "required" || isNamed || choice.allowed_tools.mode === "required",
    isParallel: isParallel && !isNamed,
  };
}

/** What function_call was before tool_choice. */
function legacyChoice({ function_call }: ChatBody): NonNullable<ChatBody["tool_choice"]> {
  if (function_call == null) return "auto";
  return typeof function_call === "string" ? function_call : { type: "function", function: function_call };
}
