// POST /v1/chat/completions

import type { Context } from "hono";
import type { GenerateOptions, Generation, OutputChunk } from "../../engine/types.js";
import { Answer, type AnswerDelta, type AnswerOptions, messageOf } from "../answer.js";
import { planAnswer } from "../answer-plan.js";
import { ApiError } from "../api-error.js";
import { readJson } from "../body.js";
import { Call } from "../call.js";
import type { AppEnv, ServerContext } from "../context.js";
import { chatLogprobs, promptLogprobs } from "../logprobs.js";
import { checkModel, saltOf, toChatMessages, tokenizeChat } from "../prompt.js";
import type { Route } from "../route.js";
import { type ChatBody, type ChatTool, chatSchema } from "../schemas/chat.js";
import { samplingOptions } from "../schemas/sampling.js";
import { DONE, type ServerEvent } from "../sse.js";
import { streamCall } from "../stream-call.js";
import { forcedCalls } from "../tools/force-call.js";
import { traceFields, usageOf } from "../usage.js";

export const chatCompletions: Route = {
  method: "post",
  path: "/v1/chat/completions",
  summary: "Answer a conversation",
  body: chatSchema,
  canStream: true,
  handle: async (c) => {
    const body = await readJson(c, chatSchema);
    const plan = planOf(c, body);
    const call = new Call(c, "chatcmpl");
    if (c.get("server").config.logPrompts) c.get("facts").messages = body.messages;
    await call.enter(body.priority ?? 0);
    try {
      const generation = call.start(plan.prompt, plan.options);
      const reply = new ChatReply(c, call, body, plan, generation);
      if (body.stream === true) return await streamCall(c, call, reply.events());
      const whole = await reply.whole();
      call.end();
      return c.json(whole);
    } catch (error) {
      call.end();
      throw error;
    }
  },
};

interface ChatPlan {
  readonly prompt: readonly number[];
  readonly options: GenerateOptions;
  readonly answer: AnswerOptions;
}

/** Everything that can be decided, and refused, before the engine is asked. */
function planOf(c: Context<AppEnv>, body: ChatBody): ChatPlan {
  const context = c.get("server");
  checkModel(context, body.model);
  if (body.stream === true && body.prompt_logprobs != null)
    throw new ApiError(400, "invalid_value", "prompt_logprobs cannot be streamed.", { param: "prompt_logprobs" });
  if (body.top_logprobs != null && body.logprobs !== true)
    throw new ApiError(400, "invalid_value", "top_logprobs needs logprobs: true.", { param: "top_logprobs" });
  const sampling = samplingOptions(body);
  const choice = toolChoiceOf(context, body);
  const constraint = choice.forced ?? sampling.constraint;
  const { text, ids } = tokenizeChat(context, toChatMessages(body.messages), {
    ...(choice.tools.length === 0 ? {} : { tools: choice.tools }),
    templateArgs: {
      ...(body.reasoning_effort == null ? {} : { reasoning_effort: body.reasoning_effort }),
      ...body.chat_template_kwargs,
    },
  });
  const maxTokens = body.max_completion_tokens ?? body.max_tokens;
  const constrained = choice.forced !== undefined ? "forced call" : constraint !== undefined ? "text" : "no";
  const plan = planAnswer(context, text, choice.tools, constrained);
  return {
    prompt: ids,
    options: {
      ...sampling,
      ...(maxTokens == null ? {} : { maxTokens }),
      ...(body.logprobs === true ? { logprobs: body.top_logprobs ?? 0 } : {}),
      ...(constraint === undefined ? {} : { constraint }),
      ...plan.options,
      salt: saltOf(c, body.cache_salt),
    },
    answer: plan.answer,
  };
}

/** The tools the model is shown, and the constraint when the choice is forced. */
function toolChoiceOf(
  context: ServerContext,
  body: ChatBody,
): { tools: readonly ChatTool[]; forced?: GenerateOptions["constraint"] } {
  const tools = body.tools ?? [];
  const choice = body.tool_choice ?? "auto";
  if (choice === "none" || (tools.length === 0 && choice === "auto")) return { tools: [] };
  if (choice === "auto") return { tools };
  const allowed = choice === "required" ? tools : tools.filter((tool) => tool.function.name === choice.function.name);
  const refuse = (message: string): never => {
    throw new ApiError(400, "invalid_value", message, { param: "tool_choice" });
  };
  if (allowed.length === 0) refuse("tool_choice asks for a tool that is not among tools.");
  const { toolFormat } = context;
  if (toolFormat === null)
    return refuse("This server does not parse tool calls (toolParser none, or no chat template).");
  if (body.response_format != null && body.response_format.type !== "text")
    refuse("tool_choice and response_format cannot both constrain the answer.");
  const isParallel = choice === "required" && body.parallel_tool_calls !== false;
  return { tools, forced: forcedCalls(toolFormat, allowed, isParallel) };
}

/** One call's reply, whole or as events. */
class ChatReply {
  readonly #c: Context<AppEnv>;
  readonly #call: Call;
  readonly #body: ChatBody;
  readonly #plan: ChatPlan;
  readonly #generation: Generation;
  #prefix: string | null = null;

  constructor(c: Context<AppEnv>, call: Call, body: ChatBody, plan: ChatPlan, generation: Generation) {
    this.#c = c;
    this.#call = call;
    this.#body = body;
    this.#plan = plan;
    this.#generation = generation;
  }

  async whole(): Promise<Record<string, unknown>> {
    const { engine } = this.#c.get("server");
    const result = await this.#call.finish(this.#generation);
    const choices = result.samples.map((sample) => {
      const answer = new Answer(this.#plan.answer);
      const message = messageOf([...answer.push(sample.text), ...answer.flush()]);
      return {
        index: sample.index,
        message,
        logprobs: sample.logprobs === null ? null : chatLogprobs(engine, sample.logprobs),
        finish_reason: finishOf(sample.finishReason, answer),
      };
    });
    if (this.#c.get("server").config.logPrompts) this.#c.get("facts").answers = choices.map((choice) => choice.message);
    return {
      ...this.#head("chat.completion"),
      choices,
      usage: usageOf([result.trace]),
      ...(result.promptLogprobs === null ? {} : { prompt_logprobs: promptLogprobs(engine, result.promptLogprobs) }),
      ...traceFields(this.#c, [result.trace]),
    };
  }

  async *events(): AsyncGenerator<ServerEvent> {
    const answers = Array.from({ length: this.#body.n ?? 1 }, () => new Answer(this.#plan.answer));
    const isNew = answers.map(() => true);
    for await (const chunk of this.#call.chunks(this.#generation)) {
      const { index } = chunk;
      if (isNew[index]) {
        isNew[index] = false;
        yield this.#chunk(index, { role: "assistant", content: "" });
      }
      yield* this.#chunkEvents(chunk, answers[index]!);
    }
    const { trace } = await this.#generation.result();
    if (this.#body.stream_options?.include_usage === true || this.#c.req.header("x-pagoda-trace") === "1") {
      const data = {
        ...this.#head("chat.completion.chunk"),
        choices: [],
        usage: usageOf([trace]),
        ...traceFields(this.#c, [trace]),
      };
      yield { data };
    }
    yield DONE;
  }

  *#chunkEvents(chunk: OutputChunk, answer: Answer): Generator<ServerEvent> {
    const { engine } = this.#c.get("server");
    const deltas = answer.push(chunk.text);
    if (chunk.finishReason !== null) deltas.push(...answer.flush());
    let logprobs = chunk.logprobs === null || chunk.logprobs.length === 0 ? null : chatLogprobs(engine, chunk.logprobs);
    if (logprobs !== null && deltas.length === 0) deltas.push({ content: "" });
    for (const delta of deltas) {
      yield this.#chunk(chunk.index, delta, logprobs);
      logprobs = null;
    }
    if (chunk.finishReason !== null) yield this.#chunk(chunk.index, {}, null, finishOf(chunk.finishReason, answer));
  }

  /** Serialised by hand: one of these is sent for every token, and most of it is always the same. */
  #chunk(
    index: number,
    delta: AnswerDelta & { role?: string },
    logprobs: unknown = null,
    finishReason: string | null = null,
  ): ServerEvent {
    this.#prefix ??= `${JSON.stringify(this.#head("chat.completion.chunk")).slice(0, -1)},"choices":[{"index":`;
    const finish = finishReason === null ? "null" : `"${finishReason}"`;
    const data = `${this.#prefix}${index},"delta":${JSON.stringify(delta)},"logprobs":${JSON.stringify(logprobs)},"finish_reason":${finish}}]}`;
    return { data };
  }

  #head(object: string): Record<string, unknown> {
    const model = this.#c.get("server").modelNames[0];
    return { id: this.#call.id, object, created: this.#call.createdSeconds, model, system_fingerprint: null };
  }
}

function finishOf(reason: string, answer: Answer): string {
  return reason === "stop" && answer.numCalls > 0 ? "tool_calls" : reason;
}
