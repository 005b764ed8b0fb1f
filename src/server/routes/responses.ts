// POST /v1/responses: text in, text out, whole or as typed events. Responses are not stored.

import { randomUUID } from "node:crypto";
import type { Context } from "hono";
import type { FinishReason } from "../../core/request.js";
import type { ChatMessage, GenerateOptions, Generation, RequestTrace } from "../../engine/types.js";
import { Answer, messageOf } from "../answer.js";
import { planAnswer } from "../answer-plan.js";
import { readJson } from "../body.js";
import { Call } from "../call.js";
import type { AppEnv } from "../context.js";
import { checkModel, saltOf, tokenizeChat } from "../prompt.js";
import type { Route } from "../route.js";
import { type ResponseBody, responseSchema } from "../schemas/others.js";
import type { ServerEvent } from "../sse.js";
import { streamCall } from "../stream-call.js";
import { traceFields } from "../usage.js";

export const responses: Route = {
  method: "post",
  path: "/v1/responses",
  summary: "Answer an input",
  body: responseSchema,
  canStream: true,
  handle: async (c) => {
    const context = c.get("server");
    const body = await readJson(c, responseSchema);
    checkModel(context, body.model);
    const options = optionsOf(c, body);
    const { text, ids } = tokenizeChat(context, messagesOf(body), {});
    const plan = planAnswer(context, text, [], options.constraint === undefined ? "no" : "text");
    const answer = new Answer(plan.answer);
    const call = new Call(c, "resp");
    await call.enter(0);
    try {
      const reply = new ResponseReply(c, call, body, answer, call.start(ids, { ...options, ...plan.options }));
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

function messagesOf(body: ResponseBody): ChatMessage[] {
  const messages: ChatMessage[] = body.instructions ? [{ role: "system", content: body.instructions }] : [];
  if (typeof body.input === "string") return [...messages, { role: "user", content: body.input }];
  for (const { role, content } of body.input) {
    const text = typeof content === "string" ? content : content.map((part) => part.text).join("\n");
    messages.push({ role: role === "developer" ? "system" : role, content: text });
  }
  return messages;
}

function optionsOf(c: Context<AppEnv>, body: ResponseBody): GenerateOptions {
  const format = body.text?.format;
  const schema =
    format?.type === "json_schema" ? format.schema : format?.type === "json_object" ? { type: "object" } : null;
  return {
    ...(body.max_output_tokens == null ? {} : { maxTokens: body.max_output_tokens }),
    ...(body.temperature == null ? {} : { temperature: body.temperature }),
    ...(body.top_p == null ? {} : { topP: body.top_p }),
    ...(body.seed == null ? {} : { seed: body.seed }),
    ...(schema === null
      ? {}
      : { constraint: { kind: "json_schema", source: JSON.stringify(schema), param: "text.format.schema" } }),
    salt: saltOf(c, body.cache_salt),
  };
}

type Item = Record<string, unknown>;

class ResponseReply {
  readonly #c: Context<AppEnv>;
  readonly #call: Call;
  readonly #body: ResponseBody;
  readonly #answer: Answer;
  readonly #generation: Generation;
  #sequence = 0;

  constructor(c: Context<AppEnv>, call: Call, body: ResponseBody, answer: Answer, generation: Generation) {
    this.#c = c;
    this.#call = call;
    this.#body = body;
    this.#answer = answer;
    this.#generation = generation;
  }

  async whole(): Promise<Item> {
    const { samples, trace } = await this.#call.finish(this.#generation);
    const message = messageOf([...this.#answer.push(samples[0]!.text), ...this.#answer.flush()]);
    const items: Item[] = [];
    if (message.reasoning_content !== undefined) items.push(reasoningItem(message.reasoning_content));
    items.push(messageItem(`msg_${randomUUID()}`, message.content ?? "", samples[0]!.finishReason));
    return this.#response(items, samples[0]!.finishReason, trace);
  }

  async *events(): AsyncGenerator<ServerEvent> {
    yield this.#event("response.created", { response: this.#response([], null, null) });
    yield this.#event("response.in_progress", { response: this.#response([], null, null) });
    const id = `msg_${randomUUID()}`;
    let reasoning = "";
    let text = "";
    let hasBegun = false;
    const at = () => ({ item_id: id, output_index: reasoning === "" ? 0 : 1, content_index: 0 });
    const begin = function* (this: ResponseReply): Generator<ServerEvent> {
      if (hasBegun) return;
      hasBegun = true;
      const { output_index } = at();
      if (reasoning !== "")
        yield this.#event("response.output_item.done", { output_index: 0, item: reasoningItem(reasoning) });
      yield this.#event("response.output_item.added", { output_index, item: messageItem(id, null, null) });
      yield this.#event("response.content_part.added", { ...at(), part: textPart("") });
    }.bind(this);

    let finish: FinishReason = "stop";
    for await (const chunk of this.#call.chunks(this.#generation)) {
      const deltas = this.#answer.push(chunk.text);
      if (chunk.finishReason !== null) {
        finish = chunk.finishReason;
        deltas.push(...this.#answer.flush());
      }
      for (const { content, reasoning_content } of deltas) {
        if (reasoning_content !== undefined) {
          if (reasoning === "")
            yield this.#event("response.output_item.added", { output_index: 0, item: reasoningItem("") });
          reasoning += reasoning_content;
          yield this.#event("response.reasoning_text.delta", {
            output_index: 0,
            content_index: 0,
            delta: reasoning_content,
          });
        }
        if (content !== undefined) {
          yield* begin();
          text += content;
          yield this.#event("response.output_text.delta", { ...at(), delta: content, logprobs: [] });
        }
      }
    }
    yield* begin();
    const { trace } = await this.#generation.result();
    const item = messageItem(id, text, finish);
    yield this.#event("response.output_text.done", { ...at(), text, logprobs: [] });
    yield this.#event("response.content_part.done", { ...at(), part: textPart(text) });
    yield this.#event("response.output_item.done", { output_index: at().output_index, item });
    const items = reasoning === "" ? [item] : [reasoningItem(reasoning), item];
    const type = finish === "length" ? "response.incomplete" : "response.completed";
    yield this.#event(type, { response: this.#response(items, finish, trace) });
  }

  #event(type: string, fields: Item): ServerEvent {
    return { event: type, data: { type, sequence_number: this.#sequence++, ...fields } };
  }

  #response(output: readonly Item[], finish: FinishReason | null, trace: RequestTrace | null): Item {
    const body = this.#body;
    return {
      id: this.#call.id,
      object: "response",
      created_at: this.#call.createdSeconds,
      status: finish === null ? "in_progress" : finish === "length" ? "incomplete" : "completed",
      incomplete_details: finish === "length" ? { reason: "max_output_tokens" } : null,
      error: null,
      model: this.#c.get("server").modelNames[0],
      output,
      instructions: body.instructions ?? null,
      max_output_tokens: body.max_output_tokens ?? null,
      temperature: body.temperature ?? null,
      top_p: body.top_p ?? null,
      text: body.text ?? { format: { type: "text" } },
      tools: [],
      tool_choice: "none",
      parallel_tool_calls: false,
      metadata: body.metadata ?? {},
      store: false,
      usage:
        trace === null
          ? null
          : {
              input_tokens: trace.promptTokens,
              input_tokens_details: { cached_tokens: trace.cachedTokens },
              output_tokens: trace.completionTokens,
              output_tokens_details: { reasoning_tokens: 0 },
              total_tokens: trace.promptTokens + trace.completionTokens,
            },
      ...(trace === null ? {} : traceFields(this.#c, [trace])),
    };
  }
}

function textPart(text: string): Item {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** `text` null: the item has just begun. */
function messageItem(id: string, text: string | null, finish: FinishReason | null): Item {
  const status = finish === null ? "in_progress" : finish === "length" ? "incomplete" : "completed";
  return { id, type: "message", role: "assistant", status, content: text === null ? [] : [textPart(text)] };
}

function reasoningItem(text: string): Item {
  return { id: `rs_${randomUUID()}`, type: "reasoning", summary: [], content: [{ type: "reasoning_text", text }] };
}
