// Server-sent events with backpressure. Events are pulled: nothing is produced while the client's socket is full, so a slow
// reader costs one event of memory here. Silence is broken by comments, which keep proxies from closing the stream; a reader
// that takes nothing for too long is dropped; one that leaves ends the source at once.

import type { Context } from "hono";
import type { AppEnv } from "./context.js";

const encoder = new TextEncoder();

export interface ServerEvent {
  /** Left out for OpenAI's chat and completion streams. */
  readonly event?: string;
  /** An object is sent as JSON, a string as it is. */
  readonly data: unknown;
}

export const DONE: ServerEvent = { data: "[DONE]" };

/** A response that streams the source's events. `leave` must make the source end: it is called when the client has gone. */
export function sseResponse(c: Context<AppEnv>, source: AsyncIterator<ServerEvent>, leave: () => void): Response {
  const { streamKeepAliveSeconds, slowReaderSeconds } = c.get("server").config;
  let pending: Promise<IteratorResult<ServerEvent>> | null = null;
  let dropTimer: NodeJS.Timeout | undefined;
  const end = async (): Promise<void> => {
    clearTimeout(dropTimer);
    leave(); // first: a source that waits would only see return() once it has something
    await source.return?.();
  };
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(dropTimer);
        pending ??= source.next();
        const next = await settleWithin(pending, streamKeepAliveSeconds * 1000);
        if (next === null) controller.enqueue(encoder.encode(": waiting\n\n"));
        else {
          pending = null;
          if (next.done === true) {
            controller.close();
            return;
          }
          controller.enqueue(encoder.encode(format(next.value)));
        }
        // Not pulled again within this time: what is buffered is not being read.
        dropTimer = setTimeout(() => {
          c.get("log").warn("a stream was dropped: its reader takes nothing");
          c.env.outgoing.destroy();
          void end();
        }, slowReaderSeconds * 1000);
        dropTimer.unref();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    },
  });
}

function format({ event, data }: ServerEvent): string {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  return event === undefined ? `data: ${text}\n\n` : `event: ${event}\ndata: ${text}\n\n`;
}

/** The promise's value, or null when it is not there in time; rejects as the promise does. */
export async function settleWithin<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ms, null);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
