// Streams answers from an OpenAI-compatible server: only what the chat and the benchmark need of the API.

import { isIP } from "node:net";

export interface ServerTarget {
  /** Up to and without /v1. */
  readonly base: string;
  readonly endpoint: "completions" | "chat";
  readonly model: string;
  readonly apiKey: string | null;
}

/** A timed answer, for the benchmark. */
export interface StreamedAnswer {
  /** Milliseconds after the request was sent at which a piece of text came. */
  readonly piecesMs: readonly number[];
  readonly totalMs: number;
  /** As the server counts them; null when it does not say. */
  readonly promptTokens: number | null;
  readonly outputTokens: number | null;
}

/** "http://host:port", with or without /v1 or a slash behind it. */
export function baseOf(url: string): string {
  return new URL(url).href.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/**
 * A key of the environment, which is a server's own list of them: the first, and only for a server on this machine. Other hosts are not
 * told it.
 */
export function ownKey(url: string, list: string | undefined): string | undefined {
  const { hostname } = URL.canParse(url) ? new URL(url) : { hostname: "" };
  const isHere =
    hostname === "localhost" || hostname === "[::1]" || (isIP(hostname) === 4 && hostname.startsWith("127."));
  return isHere ? list?.split(",")[0]?.trim() : undefined;
}

/** The first model the server lists. */
export async function firstModel(base: string, apiKey: string | null): Promise<string> {
  const response = await fetch(`${base}/v1/models`, { headers: headersOf(apiKey) });
  if (!response.ok) throw new Error(`GET ${base}/v1/models answers ${response.status}`);
  const { data } = (await response.json()) as { data?: { id: string }[] };
  if (data?.[0] === undefined) throw new Error(`${base}/v1/models lists no model; give one with --model`);
  return data[0].id;
}

export async function streamAnswer(
  target: ServerTarget,
  prompt: string | readonly number[],
  maxTokens: number,
  extra: Readonly<Record<string, unknown>>,
): Promise<StreamedAnswer> {
  const { endpoint, model } = target;
  const body = {
    model,
    ...(endpoint === "chat" ? { messages: [{ role: "user", content: prompt }] } : { prompt }),
    max_tokens: maxTokens,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    ...extra,
  };
  const start = performance.now();
  const piecesMs: number[] = [];
  let [promptTokens, outputTokens]: (number | null)[] = [null, null];
  for await (const event of streamEvents(target, body)) {
    if (event.choices?.some((choice) => textOf(choice) !== "")) piecesMs.push(performance.now() - start);
    promptTokens = event.usage?.prompt_tokens ?? promptTokens;
    outputTokens = event.usage?.completion_tokens ?? outputTokens;
  }
  return { piecesMs, totalMs: performance.now() - start, promptTokens: promptTokens!, outputTokens: outputTokens! };
}

/** Posts the body and yields the events of the answer as they come; throws on an error status or an error event. */
export async function* streamEvents(
  { base, endpoint, apiKey }: ServerTarget,
  body: unknown,
  signal?: AbortSignal,
): AsyncGenerator<StreamEvent> {
  const path = endpoint === "chat" ? "/v1/chat/completions" : "/v1/completions";
  const response = await fetch(`${base}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headersOf(apiKey) },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  if (!response.ok || response.body === null) {
    throw new Error(`${path} answers ${response.status}: ${(await response.text()).slice(0, 200)}`);
  }
  for await (const data of eventData(response.body)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data) as StreamEvent;
    if (event.error !== undefined) throw new Error(`the stream broke off: ${JSON.stringify(event.error)}`);
    yield event;
  }
}

export interface StreamEvent {
  readonly choices?: readonly StreamChoice[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: unknown;
}

export interface StreamChoice {
  readonly text?: string | null;
  readonly finish_reason?: string | null;
  readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null };
}

/** The text of a piece, reasoning included. */
export function textOf({ text, delta }: StreamChoice): string {
  return `${delta?.reasoning_content ?? ""}${delta?.content ?? ""}${text ?? ""}`;
}

/** The data of each server-sent event. */
async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split(/\r?\n/);
    rest = lines.pop()!;
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

function headersOf(apiKey: string | null): Record<string, string> {
  return apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
}
