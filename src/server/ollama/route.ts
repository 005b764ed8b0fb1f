// Ollama's API: answering a conversation or a prompt, and, without one, loading and unloading a model.

import type { Context } from "hono";
import type { Generation, RequestTrace } from "../../engine/types.js";
import { type AnswerDelta, messageOf } from "../calls/answer-delta.js";
import { Call } from "../calls/call.js";
import { type ChatPlan, planChat } from "../calls/chat-plan.js";
import { chatLogprobs } from "../calls/logprobs.js";
import { checkModel, saltOf, tokenizeText } from "../calls/prompt.js";
import { type Reply, runCall } from "../calls/run-call.js";
import type { StreamForm } from "../calls/stream-call.js";
import { type TurnEnd, type TurnPart, turnParts, wholeTurn } from "../calls/turn.js";
import type { AppEnv } from "../context.js";
import { ApiError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";
import type { ServerEvent } from "../http/sse.js";
import { samplingOptions } from "../schemas/sampling.js";
import { chatOfGenerate, chatOfOllama, formatOfOllama } from "./chat.js";
import { NS_PER_MS, shapeError } from "./form.js";
import { type KeepAlive, keepModel, secondsOf } from "./keep-alive.js";
import { ollamaChatSchema, ollamaGenerateSchema } from "./schema.js";

const FORM: StreamForm = { isLines: true, failure: (error) => ({ data: shapeError(error) }) };

export const ollamaChat: Route = {
  method: "post",
  path: "/api/chat",
  summary: "Answer a conversation (Ollama's API)",
  body: ollamaChatSchema,
  canStream: true,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaChatSchema, { takesImages: true });
    if (body.messages.length === 0) return loadOrUnload(c, body, { message: { role: "assistant", content: "" } });
    const plan = await planChat(c, chatOfOllama(body), formatOfOllama(body));
    return run(c, plan, body, (delta) => {
      const { content, reasoning_content, tool_calls } = messageOf([delta]);
      const calls = tool_calls?.map(({ id, function: fn }) => ({
        id,
        function: { name: fn.name, arguments: objectOf(fn.arguments) },
      }));
      return {
        message: {
          role: "assistant",
          content: content ?? "",
          ...(reasoning_content === undefined ? {} : { thinking: reasoning_content }),
          ...(calls === undefined ? {} : { tool_calls: calls }),
        },
      };
    });
  },
};

export const ollamaGenerate: Route = {
  method: "post",
  path: "/api/generate",
  summary: "Answer or continue a prompt (Ollama's API)",
  body: ollamaGenerateSchema,
  canStream: true,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaGenerateSchema, { takesImages: true });
    if (!body.prompt) return loadOrUnload(c, body, { response: "" });
    const plan =
      body.raw === true ? await rawPlan(c, body) : await planChat(c, chatOfGenerate(body), formatOfOllama(body));
    return run(c, plan, body, ({ content = "", reasoning_content }) => ({
      response: content,
      ...(reasoning_content === undefined ? {} : { thinking: reasoning_content }),
    }));
  },
};

async function rawPlan(c: Context<AppEnv>, body: Parameters<typeof chatOfGenerate>[0]): Promise<ChatPlan> {
  const context = c.get("server");
  checkModel(context, body.model);
  const { messages: _, ...sampling } = chatOfGenerate(body);
  const format = formatOfOllama(body);
  return {
    prompt: await tokenizeText(c, body.prompt!, {}, "prompt"),
    options: {
      ...samplingOptions(sampling),
      ...(body.logprobs === true ? { logprobs: body.top_logprobs ?? 0 } : {}),
      ...(format === null ? {} : { constraint: format }),
      salt: saltOf(c, null),
    },
    answer: { reasoning: null, tools: null },
  };
}

type Write = (delta: AnswerDelta) => Record<string, unknown>;

interface Asked {
  readonly stream?: boolean | null | undefined;
  readonly keep_alive?: KeepAlive;
}

function run(c: Context<AppEnv>, plan: ChatPlan, { stream, keep_alive }: Asked, write: Write): Promise<Response> {
  const call = new Call(c, "ollama-");
  const start = (): Reply => {
    const generation = call.start(plan.prompt, plan.options);
    keepModel(c, keep_alive); // now that it is in use
    return new OllamaReply(c, call, plan, generation, write);
  };
  return runCall(c, call, { isStream: stream !== false, form: FORM }, start);
}

class OllamaReply implements Reply {
  readonly #c: Context<AppEnv>;
  readonly #parts;
  readonly #write: Write;

  constructor(c: Context<AppEnv>, call: Call, plan: ChatPlan, generation: Generation, write: Write) {
    this.#c = c;
    this.#parts = turnParts(call.chunks(generation), generation, plan.answer);
    this.#write = write;
  }

  async whole(): Promise<unknown> {
    const { parts, end } = await wholeTurn(this.#parts);
    return { ...this.#told(parts), ...endOf(end) };
  }

  async *events(): AsyncGenerator<ServerEvent> {
    const calls: TurnPart[] = [];
    let next = await this.#parts.next();
    for (; next.done !== true; next = await this.#parts.next()) {
      // A call is told whole: its arguments are an object here.
      if (next.value.delta.tool_calls !== undefined) calls.push(next.value);
      else yield { data: { ...this.#told([next.value]), done: false } };
    }
    if (calls.length > 0) yield { data: { ...this.#told(calls), done: false } };
    yield { data: { ...this.#told([]), ...endOf(next.value) } };
  }

  #told(parts: readonly TurnPart[]): Record<string, unknown> {
    const logprobs = parts.flatMap((part) => part.logprobs);
    return {
      ...head(this.#c),
      ...this.#write(joined(parts.map((part) => part.delta))),
      ...(logprobs.length === 0 ? {} : { logprobs: chatLogprobs(this.#c.get("server").engine, logprobs).content }),
    };
  }
}

function joined(deltas: readonly AnswerDelta[]): AnswerDelta {
  const { content, reasoning_content, tool_calls } = messageOf(deltas);
  return {
    content: content ?? "",
    ...(reasoning_content === undefined ? {} : { reasoning_content }),
    ...(tool_calls === undefined ? {} : { tool_calls: tool_calls.map((call, index) => ({ ...call, index })) }),
  };
}

function head(c: Context<AppEnv>): Record<string, unknown> {
  return { model: c.get("server").modelNames[0], created_at: new Date().toISOString() };
}

/** The answer to a request without a prompt: the model is loaded, or with `keep_alive: 0` it is not needed any more. */
async function loadOrUnload(
  c: Context<AppEnv>,
  { model, keep_alive: keepAlive }: { readonly model: string; readonly keep_alive?: KeepAlive },
  fields: Record<string, unknown>,
): Promise<Response> {
  checkModel(c.get("server"), model);
  const isUnload = secondsOf(keepAlive) === 0;
  if (isUnload) await unload(c);
  else {
    const { engine } = c.get("server");
    if (engine.health().state === "asleep") await engine.stats(); // whatever is asked wakes it
    keepModel(c, keepAlive);
  }
  return c.json({ ...head(c), ...fields, done: true, done_reason: isUnload ? "unload" : "load" });
}

async function unload(c: Context<AppEnv>): Promise<void> {
  const { house, keys, modelNames } = c.get("server");
  const name = JSON.stringify(modelNames[0]);
  // Others' next requests would wait until the model is loaded again. Where there is one key or none, there are no others.
  if (keys.size > 1 && !c.get("tenant").isAdmin) {
    const message = `Unloading ${name} would touch the requests of other keys: it takes a key of adminKey.`;
    throw new ApiError("admin_key_needed", message);
  }
  if (await house.unload(modelNames[0]!, c)) return;
  throw new ApiError("model_in_use", `The model ${name} stays: it is in use.`, {
    param: "model",
  });
}

function endOf({ finishReason, trace }: TurnEnd): Record<string, unknown> {
  return { done: true, done_reason: finishReason, ...durations(trace) };
}

function durations(trace: RequestTrace): Record<string, number> {
  const ns = (ms: number): number => Math.max(1, Math.round(ms * NS_PER_MS));
  return {
    total_duration: ns(trace.totalMs),
    load_duration: 0,
    prompt_eval_count: trace.promptTokens,
    prompt_eval_duration: ns(trace.timeToFirstTokenMs - trace.queuedMs),
    eval_count: trace.completionTokens,
    eval_duration: ns(trace.totalMs - trace.timeToFirstTokenMs),
  };
}

function objectOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {}; // cut short
  }
}
