// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API over the same models.

import type { Context } from "hono";
import type { Generation, RequestTrace } from "../../engine/types.js";
import { Call } from "../calls/call.js";
import { type ChatPlan, planChat } from "../calls/chat-plan.js";
import { type Reply, runCall } from "../calls/run-call.js";
import { type TurnEnd, type TurnPart, turnParts, wholeTurn } from "../calls/turn.js";
import type { AppEnv } from "../context.js";
import type { HttpError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import { withoutPictures } from "../http/logged.js";
import type { Route } from "../http/route.js";
import type { ServerEvent } from "../http/sse.js";
import { chatOfConversation, chatOfMessages, formatOfMessages } from "./chat.js";
import { countTokensSchema, messagesSchema } from "./schema.js";

type Block = Record<string, unknown> & { type: "text" | "thinking" | "tool_use" };

export const messages: Route = {
  method: "post",
  path: "/v1/messages",
  summary: "Answer a conversation (Anthropic's API)",
  body: messagesSchema,
  canStream: true,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, messagesSchema, { takesImages: true });
    const plan = await planChat(c, chatOfMessages(body), formatOfMessages(body));
    const call = new Call(c, "msg_");
    if (c.get("server").config.logPrompts) c.get("facts").messages = withoutPictures(body.messages);
    const form = { failure: (error: HttpError) => ({ event: "error", data: shapeError(error) }) };
    const options = { isStream: body.stream === true, form };
    return runCall(c, call, options, () => new MessageReply(c, call, plan, call.start(plan.prompt, plan.options)));
  },
};

export const countTokens: Route = {
  method: "post",
  path: "/v1/messages/count_tokens",
  summary: "How many tokens a conversation has (Anthropic's API)",
  body: countTokensSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, countTokensSchema, { takesLongTexts: true, takesImages: true });
    const { prompt } = await planChat(c, chatOfConversation(body), null, { isCounted: true });
    return c.json({ input_tokens: prompt.length });
  },
};

class MessageReply implements Reply {
  readonly #c: Context<AppEnv>;
  readonly #call: Call;
  readonly #plan: ChatPlan;
  readonly #parts: AsyncGenerator<TurnPart, TurnEnd>;

  constructor(c: Context<AppEnv>, call: Call, plan: ChatPlan, generation: Generation) {
    this.#c = c;
    this.#call = call;
    this.#plan = plan;
    this.#parts = turnParts(call.chunks(generation), generation, plan.answer);
  }

  async whole(): Promise<unknown> {
    const { parts, end } = await wholeTurn(this.#parts);
    const writer = new BlockWriter();
    for (const { delta } of parts) for (const _ of writer.take(delta));
    for (const _ of writer.end());
    return { ...this.#head(), content: writer.blocks, ...endOf(end), usage: usageOf(end.trace) };
  }

  async *events(): AsyncGenerator<ServerEvent> {
    const usage = { input_tokens: this.#plan.prompt.length, output_tokens: 0 };
    const message = { ...this.#head(), content: [], stop_reason: null, stop_sequence: null, usage };
    yield event("message_start", { message });
    const writer = new BlockWriter();
    let next = await this.#parts.next();
    for (; next.done !== true; next = await this.#parts.next()) yield* writer.take(next.value.delta);
    yield* writer.end();
    const end = next.value;
    yield event("message_delta", { delta: endOf(end), usage: usageOf(end.trace) });
    yield event("message_stop", {});
  }

  #head(): Record<string, unknown> {
    return { id: this.#call.id, type: "message", role: "assistant", model: this.#c.get("server").modelNames[0] };
  }
}

/** Puts deltas together to blocks, one after another, and tells each change as an event. */
class BlockWriter {
  readonly blocks: Block[] = [];
  #input = "";

  *take(delta: TurnPart["delta"]): Generator<ServerEvent> {
    if (delta.reasoning_content !== undefined) {
      const block = yield* this.#open("thinking", () => ({ type: "thinking", thinking: "", signature: "" }));
      block.thinking += delta.reasoning_content;
      yield this.#delta({ type: "thinking_delta", thinking: delta.reasoning_content });
    }
    if (delta.content !== undefined && delta.content !== "") {
      const block = yield* this.#open("text", () => ({ type: "text", text: "" }));
      block.text += delta.content;
      yield this.#delta({ type: "text_delta", text: delta.content });
    }
    for (const { id, function: fn } of delta.tool_calls ?? []) {
      if (id !== undefined) {
        yield* this.end();
        yield* this.#open(null, () => ({ type: "tool_use", id, name: fn.name, input: {} }));
      }
      if (fn.arguments === "") continue;
      this.#input += fn.arguments;
      yield this.#delta({ type: "input_json_delta", partial_json: fn.arguments });
    }
  }

  /** Closes the block under way. */
  *end(): Generator<ServerEvent> {
    const block = this.blocks.at(-1);
    if (block === undefined || this.#isClosed) return;
    if (block.type === "tool_use") block.input = parseInput(this.#input);
    this.#input = "";
    this.#isClosed = true;
    yield event("content_block_stop", { index: this.blocks.length - 1 });
  }

  #isClosed = true;

  *#open(type: Block["type"] | null, make: () => Block): Generator<ServerEvent, Block> {
    const last = this.blocks.at(-1);
    if (last !== undefined && !this.#isClosed && last.type === type) return last;
    yield* this.end();
    const block = make();
    this.blocks.push(block);
    this.#isClosed = false;
    yield event("content_block_start", { index: this.blocks.length - 1, content_block: { ...block } });
    return block;
  }

  #delta(delta: Record<string, unknown>): ServerEvent {
    return event("content_block_delta", { index: this.blocks.length - 1, delta });
  }
}

/** Arguments that the model did not finish are no object; the client gets what stands for them. */
function parseInput(text: string): unknown {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return {};
  }
}

function event(type: string, fields: Record<string, unknown>): ServerEvent {
  return { event: type, data: { type, ...fields } };
}

function endOf({ finishReason, stopReason, hasCalls }: TurnEnd): Record<string, unknown> {
  const sequence = finishReason === "stop" && typeof stopReason === "string" ? stopReason : null;
  const reason =
    finishReason === "length" ? "max_tokens" : sequence !== null ? "stop_sequence" : hasCalls ? "tool_use" : "end_turn";
  return { stop_reason: reason, stop_sequence: sequence };
}

function usageOf(trace: RequestTrace): Record<string, unknown> {
  return {
    input_tokens: trace.promptTokens - trace.cachedTokens,
    cache_read_input_tokens: trace.cachedTokens,
    cache_creation_input_tokens: 0,
    output_tokens: trace.completionTokens,
  };
}

function shapeError({ status, body, excess }: HttpError): unknown {
  const types: Readonly<Record<number, string>> = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
  };
  const type = types[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
  const { code, param } = body.error;
  // Claude Code reads these numbers, and shortens the conversation.
  const message =
    excess === null
      ? body.error.message
      : `prompt is too long: ${excess.isLeast ? "at least " : ""}${excess.tokens} tokens > ${excess.limit} maximum`;
  // Anthropic's own client goes on without the field when it is told so.
  const details = code === "thread_unsupported_request" ? { details: { error_code: code, unsupported: [param] } } : {};
  return { type: "error", error: { type, message, ...details } };
}
