// Whom `pagoda chat` talks to: an engine in this process, or any OpenAI-compatible server.

import { RequestError } from "../../core/errors.js";
import type { ChatMessage } from "../../engine/chat-types.js";
import type { Engine, EngineStats, GenerateOptions } from "../../engine/types.js";
import { onTheWire } from "../picture-files.js";
import {
  baseOf,
  firstModel,
  type ServerTarget,
  type StreamEvent,
  streamEvents,
  textOf,
} from "../server/openai-client.js";

export interface Reply {
  readonly text: string;
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly completionTokens: number | null;
  readonly tokensPerSecond: number;
  readonly isCut: boolean;
  /** Question and answer reached the end of the model's context. */
  readonly isContextFull: boolean;
}

type Write = (text: string, isThought: boolean) => void;

export interface ChatPartner {
  /** Who and where, for the first line. */
  readonly introduction: string;
  /** Tokens; null: not known. */
  readonly maxContext: number | null;
  /** Streams the answer, and what was thought before it, through `write`. */
  answer(messages: readonly ChatMessage[], signal: AbortSignal, write: Write): Promise<Reply>;
  /** For /stats. */
  stats(): Promise<string>;
}

/** The conversation does not fit the model's context any more. */
export function isContextFull(error: unknown): boolean {
  if (error instanceof RequestError)
    return error.code === "context_length_exceeded" || error.code === "prompt_exceeds_pool";
  return /prompt_exceeds_pool|context_length_exceeded/.test(String(error));
}

export function localPartner(engine: Engine, options: GenerateOptions): ChatPartner {
  return {
    introduction: `${engine.model.name} on ${engine.model.device}`,
    maxContext: engine.model.maxContext,
    answer: async (messages, signal, write) => {
      const generation = engine.chat(messages, { ...options, signal });
      for await (const part of generation) write(part.text, part.type === "reasoning");
      const { text, trace, finishReason } = await generation;
      const isCut = finishReason === "length";
      const isContextFull = trace.promptTokens + trace.completionTokens >= engine.model.maxLength;
      return { ...trace, text, isCut, isContextFull };
    },
    stats: async () => statsText(await engine.stats()),
  };
}

function statsText(stats: EngineStats): string {
  const { requestsFinished, steps, promptTokens, cachedTokens, generatedTokens, pagesUsed, pagesCached, pagesTotal } =
    stats;
  const answers = `${requestsFinished} answer${requestsFinished === 1 ? "" : "s"} in ${steps} steps`;
  return `${answers}: ${promptTokens} prompt tokens (${cachedTokens} of them cached), ${generatedTokens} generated.
${pagesUsed + pagesCached} of ${pagesTotal} pages of the KV cache hold something, ${pagesCached} of them for later.
${stats.model} on ${stats.device}`;
}

export async function remotePartner(
  url: string,
  model: string | null,
  apiKey: string | null,
  options: GenerateOptions,
): Promise<ChatPartner> {
  const base = baseOf(url);
  const target: ServerTarget = { base, endpoint: "chat", apiKey, model: model ?? (await firstModel(base, apiKey)) };
  return {
    introduction: `${target.model} at ${base}`,
    maxContext: null,
    answer: (messages, signal, write) => remoteAnswer(target, messages, options, signal, write),
    stats: async () => `The server's numbers are at ${base}/metrics.`,
  };
}

async function remoteAnswer(
  target: ServerTarget,
  messages: readonly ChatMessage[],
  options: GenerateOptions,
  signal: AbortSignal,
  write: Write,
): Promise<Reply> {
  const body = {
    ...wireOptions(options),
    model: target.model,
    messages: onTheWire(messages),
    stream: true,
    stream_options: { include_usage: true },
  };
  let text = "";
  let firstMs = 0;
  let numPieces = 0;
  let isCut = false;
  let usage: StreamEvent["usage"] = null;
  for await (const event of streamEvents(target, body, signal)) {
    usage = event.usage ?? usage;
    for (const choice of event.choices ?? []) {
      const thought = choice.delta?.reasoning_content ?? "";
      const piece = textOf(choice).slice(thought.length);
      isCut ||= choice.finish_reason === "length";
      if (thought + piece === "") continue;
      if (numPieces++ === 0) firstMs = performance.now();
      text += piece;
      if (thought !== "") write(thought, true);
      if (piece !== "") write(piece, false);
    }
  }
  const completionTokens = usage?.completion_tokens ?? null;
  const seconds = (performance.now() - firstMs) / 1000;
  return {
    text,
    promptTokens: usage?.prompt_tokens ?? null,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
    completionTokens,
    tokensPerSecond: seconds > 0 ? Math.max(0, (completionTokens ?? numPieces) - 1) / seconds : 0,
    isCut,
    isContextFull: false, // the server says so when the next question does not fit
  };
}

/** camelCase options as the API spells them. */
function wireOptions(options: GenerateOptions): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([key, value]) => [key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), value]),
  );
}
