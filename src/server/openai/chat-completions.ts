// POST /v1/chat/completions

import type { Context } from "hono";
import { Answer } from "../../chat/answer.js";
import type { Generation, OutputChunk } from "../../engine/types.js";
import { type AnswerDelta, deltaOf, messageOf } from "../calls/answer-delta.js";
import { Call } from "../calls/call.js";
import { type ChatPlan, planChat } from "../calls/chat-plan.js";
import { chatLogprobs, promptLogprobs } from "../calls/logprobs.js";
import { runCall } from "../calls/run-call.js";
import { traceFields, usageOf } from "../calls/usage.js";
import type { AppEnv } from "../context.js";
import { readJson } from "../http/body.js";
import { withoutPictures } from "../http/logged.js";
import type { Route } from "../http/route.js";
import { DONE, type ServerEvent } from "../http/sse.js";
import { type ChatBody, chatSchema } from "./chat-schema.js";

export const chatCompletions: Route = {
  method: "post",
  path: "/v1/chat/completions",
  summary: "Answer a conversation",
  body: chatSchema,
  canStream: true,
  handle: async (c) => {
    const body = await readJson(c, chatSchema, { takesImages: true });
    const plan = await planChat(c, body);
    const call = new Call(c, "chatcmpl-");
    if (c.get("server").config.logPrompts) c.get("facts").messages = withoutPictures(body.messages);
    const options = { priority: body.priority, isStream: body.stream === true };
    return runCall(c, call, options, () => new ChatReply(c, call, body, plan, call.start(plan.prompt, plan.options)));
  },
};

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
    let reasoningTokens = 0;
    const choices = result.samples.map((sample) => {
      const answer = new Answer(this.#plan.answer);
      const message = messageOf([...answer.push(sample.text, sample.tokenIds), ...answer.flush()].map(deltaOf));
      reasoningTokens += answer.numReasoningTokens;
      return {
        index: sample.index,
        message: this.#body.functions == null ? message : legacyMessage(message),
        logprobs: sample.logprobs === null ? null : chatLogprobs(engine, sample.logprobs),
        finish_reason: this.#finishOf(sample.finishReason, answer),
      };
    });
    if (this.#c.get("server").config.logPrompts) this.#c.get("facts").answers = choices.map((choice) => choice.message);
    return {
      ...this.#head("chat.completion"),
      choices,
      usage: usageOf([result.trace], reasoningTokens),
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
        usage: usageOf(
          [trace],
          answers.reduce((sum, answer) => sum + answer.numReasoningTokens, 0),
        ),
        ...traceFields(this.#c, [trace]),
      };
      yield { data };
    }
    yield DONE;
  }

  *#chunkEvents(chunk: OutputChunk, answer: Answer): Generator<ServerEvent> {
    const { engine } = this.#c.get("server");
    const isTraced = this.#c.req.header("x-pagoda-trace") === "1";
    const deltas: (AnswerDelta & { pagoda_guessed?: true })[] = isTraced
      ? piecesOf(chunk).flatMap(({ text, isGuessed }, i) => {
          const parts = answer.push(text, i === 0 ? chunk.tokenIds : []).map(deltaOf);
          return isGuessed ? parts.map((delta) => ({ ...delta, pagoda_guessed: true as const })) : parts;
        })
      : answer.push(chunk.text, chunk.tokenIds).map(deltaOf);
    if (chunk.finishReason !== null) deltas.push(...answer.flush().map(deltaOf));
    let logprobs = chunk.logprobs === null || chunk.logprobs.length === 0 ? null : chatLogprobs(engine, chunk.logprobs);
    if (logprobs !== null && deltas.length === 0) deltas.push({ content: "" });
    for (const delta of deltas) {
      yield this.#chunk(chunk.index, this.#body.functions == null ? delta : legacyDelta(delta), logprobs);
      logprobs = null;
    }
    if (chunk.finishReason !== null)
      yield this.#chunk(chunk.index, {}, null, this.#finishOf(chunk.finishReason, answer));
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

  #finishOf(reason: string, answer: Answer): string {
    if (reason !== "stop" || answer.numCalls === 0) return reason;
    return this.#body.functions == null ? "tool_calls" : "function_call";
  }

  #head(object: string): Record<string, unknown> {
    const model = this.#c.get("server").modelNames[0];
    return { id: this.#call.id, object, created: this.#call.createdSeconds, model, system_fingerprint: null };
  }
}

/** The text where it was guessed ahead, and where it was not. */
function piecesOf({ text, guessed }: OutputChunk): { readonly text: string; readonly isGuessed: boolean }[] {
  const pieces: { text: string; isGuessed: boolean }[] = [];
  const add = (from: number, to: number, isGuessed: boolean): void => {
    if (from < to) pieces.push({ text: text.slice(from, to), isGuessed });
  };
  let at = 0;
  for (const [start, end] of guessed) {
    add(at, start, false);
    add(start, end, true);
    at = end;
  }
  add(at, text.length, false);
  return pieces;
}

/** For clients of `functions`, which knew one call and no ids. */
function legacyDelta({ tool_calls, ...delta }: AnswerDelta): AnswerDelta & { function_call?: unknown } {
  return tool_calls === undefined ? delta : { ...delta, function_call: tool_calls[0]!.function };
}

function legacyMessage({ tool_calls, ...message }: ReturnType<typeof messageOf>): Record<string, unknown> {
  return tool_calls === undefined ? message : { ...message, function_call: tool_calls[0]!.function };
}
