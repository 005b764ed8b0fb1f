// Server-sent events with backpressure. Events are pulled: nothing is produced while the client's socket is full, so a slow
// reader costs one event of memory here. Silence is broken by comments, which keep proxies from closing the stream; a reader
// that takes nothing for too long is dropped; one that leaves ends the source at once.

import type { ReadableStreamDefaultController, UnderlyingSource } from "node:stream/web";
import type { Context } from "hono";
import type { AppEnv } from "../context.js";

const encoder = new TextEncoder();

export interface ServerEvent {
  /** Left out for OpenAI's chat and completion streams. */
  readonly event?: string;
  /** An object is sent as JSON, a string as it is. */
  readonly data: unknown;
}

export const DONE: ServerEvent = { data: "[DONE]" };

export interface SseOptions {
  /** The client has gone: makes the source end. */
  readonly leave: () => void;
  /** The source failed: what to tell the client, if anything. */
  readonly failed?: (error: unknown) => ServerEvent | null;
  /** The stream is over, however it ended; called once. */
  readonly ended?: () => void;
  /** One JSON object a line; no names, no comments. */
  readonly isLines?: boolean;
  /** A first event that has been asked for already. */
  readonly first?: Promise<IteratorResult<ServerEvent>>;
}

export function sseResponse(c: Context<AppEnv>, source: AsyncIterator<ServerEvent>, options: SseOptions): Response {
  const stream = new EventStream(c, source, options);
  return new Response(new ReadableStream(stream, { highWaterMark: 0 }), {
    headers: {
      "content-type": options.isLines === true ? "application/x-ndjson" : "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    },
  });
}

class EventStream implements UnderlyingSource<Uint8Array> {
  readonly #c: Context<AppEnv>;
  readonly #source: AsyncIterator<ServerEvent>;
  readonly #options: SseOptions;
  readonly #keepAliveMs: number;
  readonly #slowMs: number;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #timer: NodeJS.Timeout | undefined;
  #first: Promise<IteratorResult<ServerEvent>> | null;
  #isPulled = false; // the reader waits for the next event
  #sinceMs = performance.now(); // when that last changed, or something was sent
  #isOver = false;

  constructor(c: Context<AppEnv>, source: AsyncIterator<ServerEvent>, options: SseOptions) {
    const { streamKeepAliveSeconds, slowReaderSeconds } = c.get("server").config;
    this.#c = c;
    this.#source = source;
    this.#options = options;
    this.#first = options.first ?? null;
    this.#keepAliveMs = streamKeepAliveSeconds * 1000;
    this.#slowMs = slowReaderSeconds * 1000;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    // One timer that looks now and then is cheaper than one set and cleared for every event.
    this.#timer = setInterval(() => this.#look(), Math.min(this.#keepAliveMs, this.#slowMs) / 4);
    this.#timer.unref();
  }

  async pull(): Promise<void> {
    this.#note(true);
    try {
      const next = await (this.#first ?? this.#source.next());
      this.#first = null;
      if (next.done === true) this.#end();
      else this.#send(this.#format(next.value));
    } catch (error) {
      const event = this.#isOver ? null : (this.#options.failed?.(error) ?? null);
      if (event !== null) this.#send(this.#format(event));
      this.#end();
    }
    this.#note(false);
  }

  /** The client has gone. Leaving comes first: a source that waits would only see return() once it has something. */
  async cancel(): Promise<void> {
    this.#over();
    this.#options.leave();
    await this.#source.return?.();
  }

  #look(): void {
    const forMs = performance.now() - this.#sinceMs;
    if (this.#isPulled && forMs >= this.#keepAliveMs) {
      if (this.#options.isLines !== true) this.#send(": waiting\n\n");
    } else if (!this.#isPulled && forMs >= this.#slowMs) {
      this.#c.get("log").warn({}, "stream closed: the client stopped reading");
      this.#c.env.outgoing?.destroy();
      void this.cancel();
    }
  }

  #format({ event, data }: ServerEvent): string {
    const text = typeof data === "string" ? data : JSON.stringify(data);
    if (this.#options.isLines === true) return `${text}\n`;
    return event === undefined ? `data: ${text}\n\n` : `event: ${event}\ndata: ${text}\n\n`;
  }

  #send(text: string): void {
    if (this.#isOver) return;
    this.#controller.enqueue(encoder.encode(text));
    this.#sinceMs = performance.now();
  }

  #note(isPulled: boolean): void {
    this.#isPulled = isPulled;
    this.#sinceMs = performance.now();
  }

  #end(): void {
    if (!this.#isOver) this.#controller.close();
    this.#over();
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#options.ended?.();
  }
}
