// One request to a server whose model says what it is told, and everything that came of it, with what differs from run to run made the same.

import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import type { AddMessage } from "../../src/engine/messages.js";
import type { Said, ToldServer } from "./told-server.js";

export interface Exchange {
  readonly title: string;
  /** "GET /path" or a path to post to. */
  readonly to: string;
  // biome-ignore lint/suspicious/noExplicitAny: the reply before this one, of any shape
  readonly body?: unknown | ((last: any) => unknown);
  readonly headers?: Record<string, string>;
  readonly says?: string | Said | readonly string[];
}

/** What is compared: the reply, what the engine was asked for, and the line in the log. */
export async function outcomeOf(told: ToldServer, exchange: Exchange, last: unknown): Promise<[unknown, unknown]> {
  const { to, body, headers, says = "Hi" } = exchange;
  told.says = (_, index) =>
    typeof says === "string" ? { text: says } : "text" in says ? says : { text: says[index]! };
  const [numAsked, numLogged] = [told.asked.length, told.log.length];
  const [method, path] = to.startsWith("/") ? ["POST", to] : (to.split(" ") as [string, string]);
  const sent = typeof body === "function" ? body(last) : body;
  const reply = await told.ask(method, withLast(path, last), sent, headers);
  const text = await textOf(reply, () => told.goOn());
  const isStream = /event-stream|ndjson/.test(reply.headers.get("content-type") ?? "");
  const lines = text.split("\n").filter((line) => line !== "");
  const value = isStream ? lines.map(parsed) : parsed(text);
  const asked = told.asked.slice(numAsked).map((message) => askedOf(message, sent));
  const log = told.log.slice(numLogged).map(({ level, time, pid, hostname, requestId, ms, err, ...line }) => line);
  const { "x-request-id": _, ...shown } = Object.fromEntries(reply.headers);
  return [value, settled({ status: reply.status, headers: shown, reply: value, asked, log })];
}

/** A stream's, letting the answer go on when it has begun. */
async function textOf(reply: Response, goOn: () => void): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of reply.body ?? []) {
    text += decoder.decode(piece, { stream: true });
    goOn();
  }
  return text;
}

/** {id} in a path is the last reply's. */
function withLast(path: string, last: unknown): string {
  return path.replace("{id}", (last as { id: string } | null)?.id ?? "");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^data: /, ""));
  } catch {
    return text;
  }
}

/** The prompt as text: bytes are letters, the special tokens numbers in braces; of how to sample, what is not the default. */
function askedOf({ callId, arrivalMs: _, prompt, sampling, ...rest }: AddMessage, body: unknown): unknown {
  const text = Array.from(prompt, (id) => (id < 256 ? String.fromCharCode(id) : `{${id}}`)).join("");
  const isGiven = JSON.stringify(body).includes('"seed"');
  const usual: Record<string, unknown> = { ...SAMPLING_DEFAULTS, ...(isGiven ? {} : { seed: sampling.seed }) };
  const chosen = Object.entries(sampling).filter(
    ([key, value]) => JSON.stringify(value) !== JSON.stringify(usual[key]),
  );
  const shown = text.length > 99 ? `${text.slice(0, 9)}... of ${prompt.length}` : text;
  return { ...rest, callId, prompt: shown, sampling: Object.fromEntries(chosen) };
}

/** Names, dates and times that nobody chose. */
function settled(value: unknown): unknown {
  const text = JSON.stringify(value)
    .replaceAll(/(chatcmpl-|cmpl-|msg_|resp_|ollama-|embd-|rerank-|score-)[0-9a-f]{32}/g, "$1ID")
    .replaceAll(/req-[0-9a-f-]{36}/g, "req-ID")
    .replaceAll(/(msg|rs|fc)_[0-9a-f-]{36}/g, "$1_ID")
    .replaceAll(/call_[0-9a-f]{24}/g, "call_ID")
    .replaceAll(/"(created|created_at|startedMs|modified_at|total_duration)":(\d+|"[^"]*")/g, (whole, key, given) =>
      key === "total_duration" && given === "52500000" ? whole : `"${key}":0`,
    )
    .replaceAll(/"expires_at":"2[01][^"]*"/g, `"expires_at":"SOON"`)
    .replaceAll(/"version":"\d+\.[^"]*"/g, '"version":"VERSION"')
    .replaceAll(/pagoda-tiny-\w+/g, "pagoda-tiny")
    .replaceAll(/The body is not JSON: [^"]*/g, "The body is not JSON: ..."); // as the parser of this Node says it
  return JSON.parse(text);
}
