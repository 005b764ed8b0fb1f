// /v1/responses: items in, items out, whole or as typed events; kept for retrieval and continuation unless `store` is false.

import type { Context } from "hono";
import { Call } from "../calls/call.js";
import { type ChatPlan, planChat } from "../calls/chat-plan.js";
import { type Reply, runCall } from "../calls/run-call.js";
import { planFitting } from "../calls/truncation.js";
import { type TurnEnd, type TurnPart, turnParts, wholeTurn } from "../calls/turn.js";
import { traceFields } from "../calls/usage.js";
import type { AppEnv } from "../context.js";
import { ApiError, type HttpError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import { withoutPictures } from "../http/logged.js";
import type { Route } from "../http/route.js";
import type { ServerEvent } from "../http/sse.js";
import { chatOfResponse, clientNames, formatOfResponse, itemsOf, listedItem } from "./response-chat.js";
import type { StoredResponse } from "./response-store.js";
import { asInput, type Item, ResponseWriter } from "./response-writer.js";
import { type InputItem, type ResponseBody, responseSchema } from "./responses-schema.js";

export const responses: Route = {
  method: "post",
  path: "/v1/responses",
  summary: "Answer an input",
  body: responseSchema,
  canStream: true,
  handle: async (c) => {
    const body = await readJson(c, responseSchema, { takesImages: true });
    const before = body.previous_response_id ? stored(c, body.previous_response_id, "previous_response_id").items : [];
    const own = itemsOf(body.input);
    const items = [...before, ...own];
    const planOf = (kept: readonly InputItem[]) => planChat(c, chatOfResponse(body, kept), formatOfResponse(body));
    const { maxLength } = c.get("server").engine.model;
    const plan = await (body.truncation === "auto" ? planFitting(items, maxLength, planOf) : planOf(items));
    const call = new Call(c, "resp_");
    if (c.get("server").config.logPrompts) c.get("facts").input = withoutPictures(body.input);
    const reply = new ResponseReply(c, call, body, plan, items, own.length);
    const form = { failure: (error: HttpError) => reply.failure(error) };
    return runCall(c, call, { isStream: body.stream === true, form }, () => reply.start());
  },
};

export const getResponse: Route = {
  method: "get",
  path: "/v1/responses/:id",
  summary: "A response that was kept",
  handle: (c) => c.json(stored(c, c.req.param("id")!, null).response),
};

export const deleteResponse: Route = {
  method: "delete",
  path: "/v1/responses/:id",
  summary: "Forgets a response",
  handle: (c) => {
    const id = c.req.param("id")!;
    stored(c, id, null);
    c.get("server").responses.delete(c.get("tenant"), id);
    return c.json({ id, object: "response", deleted: true });
  },
};

export const responseInput: Route = {
  method: "get",
  path: "/v1/responses/:id/input_items",
  summary: "What a response that was kept answered",
  handle: (c) => {
    const { items, numInput, response } = stored(c, c.req.param("id")!, null);
    const numOutput = (response.output as unknown[]).length;
    const end = items.length - numOutput;
    const data = items.slice(end - numInput, end).map(listedItem);
    return c.json({ object: "list", data, has_more: false, first_id: data[0]?.id, last_id: data.at(-1)?.id });
  },
};

function stored(c: Context<AppEnv>, id: string, param: string | null): StoredResponse {
  const found = c.get("server").responses.get(c.get("tenant"), id);
  if (found !== null) return found;
  const message = `There is no response ${JSON.stringify(id)} here: it was not stored, was deleted, or newer ones took its place.`;
  throw new ApiError("response_not_found", message, { param });
}

class ResponseReply implements Reply {
  readonly #c: Context<AppEnv>;
  readonly #call: Call;
  readonly #body: ResponseBody;
  readonly #plan: ChatPlan;
  readonly #items: readonly InputItem[];
  readonly #numInput: number;
  readonly #writer: ResponseWriter;
  #parts!: AsyncGenerator<TurnPart, TurnEnd>;
  #sequence = 0;

  constructor(
    c: Context<AppEnv>,
    call: Call,
    body: ResponseBody,
    plan: ChatPlan,
    items: readonly InputItem[],
    numInput: number,
  ) {
    this.#c = c;
    this.#call = call;
    this.#body = body;
    this.#plan = plan;
    this.#items = items;
    this.#numInput = numInput;
    this.#writer = new ResponseWriter(c.get("server").engine, clientNames(body));
  }

  start(): this {
    const generation = this.#call.start(this.#plan.prompt, this.#plan.options);
    this.#parts = turnParts(this.#call.chunks(generation), generation, this.#plan.answer);
    return this;
  }

  async whole(): Promise<unknown> {
    const { parts, end } = await wholeTurn(this.#parts);
    for (const part of parts) for (const _ of this.#writer.take(part));
    for (const _ of this.#writer.endAll(end.finishReason));
    return this.#finish(end);
  }

  async *events(): AsyncGenerator<ServerEvent> {
    yield this.#event("response.created", { response: this.#response([], null) });
    yield this.#event("response.in_progress", { response: this.#response([], null) });
    let next = await this.#parts.next();
    for (; next.done !== true; next = await this.#parts.next())
      for (const { type, fields } of this.#writer.take(next.value)) yield this.#event(type, fields);
    const end = next.value;
    for (const { type, fields } of this.#writer.endAll(end.finishReason)) yield this.#event(type, fields);
    const type = end.finishReason === "length" ? "response.incomplete" : "response.completed";
    yield this.#event(type, { response: this.#finish(end) });
  }

  failure({ body }: HttpError): ServerEvent {
    const { code, message } = body.error;
    for (const _ of this.#writer.end("length")); // what was said so far, as incomplete
    const response = { ...this.#response(this.#writer.items, null), status: "failed", error: { code, message } };
    return this.#event("response.failed", { response });
  }

  #finish(end: TurnEnd): Record<string, unknown> {
    const output = this.#writer.items;
    const response = this.#response(output, end);
    if (this.#body.store !== false) {
      const items = [...this.#items, ...asInput(output)];
      const { responses } = this.#c.get("server");
      responses.put(this.#c.get("tenant"), { response, items, numInput: this.#numInput });
    }
    return response;
  }

  #event(type: string, fields: Record<string, unknown>): ServerEvent {
    return { event: type, data: { type, sequence_number: this.#sequence++, ...fields } };
  }

  #response(output: readonly Item[], end: TurnEnd | null): Record<string, unknown> & { id: string } {
    const body = this.#body;
    const finish = end?.finishReason ?? null;
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
      previous_response_id: body.previous_response_id ?? null,
      max_output_tokens: body.max_output_tokens ?? null,
      temperature: body.temperature ?? null,
      top_p: body.top_p ?? null,
      top_logprobs: body.top_logprobs ?? 0,
      text: body.text ?? { format: { type: "text" } },
      tools: body.tools ?? [],
      tool_choice: body.tool_choice ?? "auto",
      parallel_tool_calls: body.parallel_tool_calls ?? true,
      reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
      metadata: body.metadata ?? {},
      truncation: body.truncation ?? "disabled",
      background: false,
      store: body.store !== false,
      usage: end === null ? null : usageOf(end),
      ...(end === null ? {} : traceFields(this.#c, [end.trace])),
    };
  }
}

function usageOf({ trace, reasoningTokens }: TurnEnd): Record<string, unknown> {
  return {
    input_tokens: trace.promptTokens,
    input_tokens_details: { cached_tokens: trace.cachedTokens },
    output_tokens: trace.completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: trace.promptTokens + trace.completionTokens,
  };
}
