// Clients that mean well: each asks, reads its answer to the end, thinks a moment and asks again. Whatever else goes on, every
// answer must be the text that its request has alone.

import { type StreamReply, streamChat } from "./stream-chat.js";

const NUM_REQUESTS = 40;
const THINK_MS = 400; // at most
const SCHEMA = { type: "object", properties: { ok: { type: "boolean" }, of: { enum: ["a", "b", "c"] } } };

/** Short and long prompts, greedy and drawn, a fifth of them held to a schema; a system prompt that they share. */
export function goodRequest(i: number): Record<string, unknown> {
  const content = `Request ${i}: ${"tell me more of it. ".repeat((i * 7) % 23)}`;
  return {
    messages: [
      { role: "system", content: "You are one of many, and all of you are answered." },
      { role: "user", content },
    ],
    stream: true,
    temperature: i % 2,
    seed: i,
    max_tokens: 8 + (i % 25),
    ...(i % 5 === 4 ? { guided_json: SCHEMA } : { ignore_eos: true }),
  };
}

/** What each good request is answered when nobody else asks. */
export async function textsAlone(url: string, count = NUM_REQUESTS): Promise<string[]> {
  const texts: string[] = [];
  for (let i = 0; i < count; i++) {
    const reply = await streamChat(url, goodRequest(i));
    if (!reply.isWhole) throw new Error(`alone, request ${i} was answered with ${reply.status} ${reply.raw}`);
    texts.push(reply.text);
  }
  return texts;
}

/** Where the time to a first token went. */
export interface Waits {
  readonly total: number;
  /** HTTP thread, on both ways: reading, parsing, tokenising, writing. */
  readonly http: number;
  /** Until the engine had it in its queue, with a grammar that is compiled. */
  readonly accept: number;
  /** From there to its first step. */
  readonly queue: number;
  /** From there to its first token. */
  readonly compute: number;
}

export class GoodRecord {
  readonly waits: Waits[] = [];
  /** What was wrong with each answer that was not its request's own. */
  readonly wrong: string[] = [];
  readonly #alone: readonly string[];

  constructor(alone: readonly string[]) {
    this.#alone = alone;
  }

  get numRequests(): number {
    return this.#alone.length;
  }

  add(i: number, reply: StreamReply): void {
    if (reply.trace !== null) {
      const { acceptedMs, queuedMs, timeToFirstTokenMs } = reply.trace;
      this.waits.push({
        total: reply.firstTokenMs,
        http: reply.firstTokenMs - timeToFirstTokenMs,
        accept: acceptedMs,
        queue: queuedMs - acceptedMs,
        compute: timeToFirstTokenMs - queuedMs,
      });
    }
    if (reply.isWhole && reply.text === this.#alone[i]) return;
    const seen = reply.isWhole ? `another text: ${reply.text}` : `not whole: ${reply.status} ${reply.raw.slice(-300)}`;
    this.wrong.push(`request ${i}: ${seen}`);
  }
}

export interface GoodClientOptions {
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** It stops after so many. */
  readonly maxAsked?: number;
  readonly address?: string | undefined;
}

/** Asks until the signal, and as often as it may. */
export async function goodClient(
  url: string,
  record: GoodRecord,
  { random, signal, maxAsked = Number.POSITIVE_INFINITY, address }: GoodClientOptions,
): Promise<void> {
  for (let asked = 0; asked < maxAsked && !signal.aborted; asked++) {
    const i = Math.floor(random() * record.numRequests);
    record.add(i, await streamChat(url, goodRequest(i), { address }));
    await new Promise((resolve) => setTimeout(resolve, random() * THINK_MS));
  }
}
