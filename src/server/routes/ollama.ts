// Ollama's API over the same models: /api/chat, /api/generate, /api/embed, and what its clients ask about models.

import { createHash } from "node:crypto";
import type { Context } from "hono";
import type { Generation, RequestTrace } from "../../engine/types.js";
import { type AnswerDelta, messageOf } from "../answer.js";
import { ApiError, type HttpError } from "../api-error.js";
import { readJson } from "../body.js";
import { Call } from "../call.js";
import { type ChatPlan, planChat } from "../chat-plan.js";
import type { AppEnv, ServerContext } from "../context.js";
import { chatLogprobs } from "../logprobs.js";
import { chatOfGenerate, chatOfOllama, formatOfOllama } from "../ollama-chat.js";
import { checkModel, saltOf, tokenizeText } from "../prompt.js";
import type { Route } from "../route.js";
import { type Reply, runCall } from "../run-call.js";
import {
  ollamaChatSchema,
  ollamaEmbeddingsSchema,
  ollamaEmbedSchema,
  ollamaGenerateSchema,
  ollamaShowSchema,
} from "../schemas/ollama.js";
import { samplingOptions } from "../schemas/sampling.js";
import type { ServerEvent } from "../sse.js";
import type { StreamForm } from "../stream-call.js";
import { runTexts } from "../text-call.js";
import { type TurnEnd, type TurnPart, turnParts, wholeTurn } from "../turn.js";

const FORM: StreamForm = { isLines: true, failure: (error) => ({ data: shapeError(error) }) };
/** Durations are told in nanoseconds. */
const NS_PER_MS = 1e6;

export const ollamaChat: Route = {
  method: "post",
  path: "/api/chat",
  summary: "Answer a conversation (Ollama's API)",
  body: ollamaChatSchema,
  canStream: true,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaChatSchema);
    if (body.messages.length === 0) return c.json(loaded(c, { message: { role: "assistant", content: "" } }));
    const plan = await planChat(c, chatOfOllama(body), formatOfOllama(body));
    return run(c, plan, body.stream !== false, (delta) => {
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
    const body = await readJson(c, ollamaGenerateSchema);
    if (!body.prompt && isZero(body.keep_alive)) return unload(c);
    if (!body.prompt) return c.json(loaded(c, { response: "" }));
    const plan =
      body.raw === true ? await rawPlan(c, body) : await planChat(c, chatOfGenerate(body), formatOfOllama(body));
    return run(c, plan, body.stream !== false, ({ content = "", reasoning_content }) => ({
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

function run(c: Context<AppEnv>, plan: ChatPlan, isStream: boolean, write: Write): Promise<Response> {
  const call = new Call(c, "ollama");
  const start = (): Reply => new OllamaReply(c, call, plan, call.start(plan.prompt, plan.options), write);
  return runCall(c, call, { priority: 0, isStream, form: FORM }, start);
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

/** `keep_alive: 0` without a prompt: the model is not needed any more. */
async function unload(c: Context<AppEnv>): Promise<Response> {
  const { house, modelNames } = c.get("server");
  const isGone = await house.unload(modelNames[0]!);
  if (!isGone) {
    const message = `The model ${JSON.stringify(modelNames[0])} stays: it is in use, or it is the server's first.`;
    throw new ApiError("model_in_use", message, { param: "model" });
  }
  return c.json({ ...head(c), response: "", done: true, done_reason: "unload" });
}

function isZero(keepAlive: unknown): boolean {
  return keepAlive === 0 || keepAlive === "0" || keepAlive === "0s";
}

/** The answer to a request without a prompt, which only asks for the model to be there. */
function loaded(c: Context<AppEnv>, fields: Record<string, unknown>): Record<string, unknown> {
  return { ...head(c), ...fields, done: true, done_reason: "load" };
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

export const ollamaEmbed: Route = {
  method: "post",
  path: "/api/embed",
  summary: "Embed texts (Ollama's API)",
  body: ollamaEmbedSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaEmbedSchema, { takesLongTexts: true });
    const context = c.get("server");
    checkModel(context, body.model);
    const texts = typeof body.input === "string" ? [body.input] : body.input;
    const startMs = performance.now();
    return runTexts(c, "embd", async (options) => {
      const { vectors, promptTokens } = await context.engine.embed(texts, {
        ...options,
        truncate: body.truncate ?? true,
        normalize: true,
        ...(body.dimensions == null ? {} : { dimensions: body.dimensions }),
      });
      return c.json({
        model: context.modelNames[0],
        embeddings: vectors.map((vector) => [...vector]),
        total_duration: Math.round((performance.now() - startMs) * NS_PER_MS),
        load_duration: 0,
        prompt_eval_count: promptTokens,
      });
    });
  },
};

export const ollamaEmbeddings: Route = {
  method: "post",
  path: "/api/embeddings",
  summary: "Embed one text (Ollama's older API)",
  body: ollamaEmbeddingsSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaEmbeddingsSchema, { takesLongTexts: true });
    const context = c.get("server");
    checkModel(context, body.model);
    return runTexts(c, "embd", async (options) => {
      const { vectors } = await context.engine.embed([body.prompt], { ...options, truncate: true, normalize: true });
      return c.json({ embedding: [...vectors[0]!] });
    });
  },
};

function entry({ house, startedMs }: ServerContext, name: string): Record<string, unknown> {
  const engine = house.loaded.find(({ modelNames }) => modelNames.includes(name))?.engine;
  return {
    name,
    model: name,
    modified_at: new Date(startedMs).toISOString(),
    size: house.bytesOf(name),
    digest: createHash("sha256").update(name).digest("hex"),
    details: detailsOf(engine?.model.architecture ?? ""),
  };
}

function detailsOf(family: string): Record<string, unknown> {
  return { parent_model: "", format: "", family, families: [family], parameter_size: "", quantization_level: "" };
}

export const ollamaTags: Route = {
  method: "get",
  path: "/api/tags",
  summary: "The models served (Ollama's API)",
  shapeError,
  handle: (c) => {
    const context = c.get("server");
    return c.json({ models: context.house.names.map((name) => entry(context, name)) });
  },
};

export const ollamaPs: Route = {
  method: "get",
  path: "/api/ps",
  summary: "The models loaded (Ollama's API)",
  shapeError,
  handle: (c) => {
    const context = c.get("server");
    const never = new Date(8.64e15 / 1000).toISOString();
    const models = context.house.loaded.map(({ engine, modelNames, calls }) => ({
      ...entry(context, modelNames[0]!),
      expires_at: never,
      size_vram: 0,
      context_length: engine.model.maxContext,
      active: calls.size,
    }));
    return c.json({ models });
  },
};

export const ollamaShow: Route = {
  method: "post",
  path: "/api/show",
  summary: "About a model (Ollama's API)",
  body: ollamaShowSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaShowSchema);
    const context = c.get("server");
    checkModel(context, body.model ?? body.name);
    const { engine, toolFormat, startedMs } = context;
    const { architecture, maxContext, vocabSize, task, hasChatTemplate } = engine.model;
    return c.json({
      modelfile: "",
      parameters: "",
      template: "",
      license: "",
      modified_at: new Date(startedMs).toISOString(),
      details: detailsOf(architecture),
      model_info: {
        "general.architecture": architecture,
        [`${architecture}.context_length`]: maxContext,
        [`${architecture}.vocab_size`]: vocabSize,
      },
      capabilities: [
        ...(task === "generate" ? ["completion"] : []),
        ...(hasChatTemplate && toolFormat !== null ? ["tools"] : []),
        "embedding",
      ],
    });
  },
};

export const ollamaVersion: Route = {
  method: "get",
  path: "/api/version",
  summary: "The version of the server (Ollama's API)",
  isOpen: true,
  handle: (c) => c.json({ version: c.get("server").version }),
};

function shapeError({ body }: HttpError): { error: string } {
  return { error: body.error.message };
}
