// A call's events as a stream. The first event is waited for a moment before the response begins, so that what fails at once
// fails with its HTTP status; what fails later ends the stream with an error event, as OpenAI's clients expect.

import type { Context } from "hono";
import { toHttpError } from "./api-error.js";
import type { Call } from "./call.js";
import type { AppEnv } from "./context.js";
import { type ServerEvent, settleWithin, sseResponse } from "./sse.js";

export async function streamCall(
  c: Context<AppEnv>,
  call: Call,
  events: AsyncGenerator<ServerEvent>,
): Promise<Response> {
  const first = events.next();
  await settleWithin(first, c.get("server").config.streamKeepAliveSeconds * 1000);
  return sseResponse(c, guarded(c, call, first, events), call.leave);
}

async function* guarded(
  c: Context<AppEnv>,
  call: Call,
  first: Promise<IteratorResult<ServerEvent>>,
  rest: AsyncGenerator<ServerEvent>,
): AsyncGenerator<ServerEvent> {
  try {
    const { done, value } = await first;
    if (done !== true) {
      yield value;
      yield* rest;
    }
  } catch (error) {
    if (call.signal.aborted) return; // nobody listens
    const { body, status } = toHttpError(error);
    if (status >= 500) c.get("log").error({ err: error }, "a stream failed");
    yield { data: body };
  } finally {
    await rest.return(undefined);
    call.end();
    c.get("log").info(c.get("facts"), "stream ended");
  }
}
