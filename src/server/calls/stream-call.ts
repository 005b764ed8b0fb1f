// A call's events as a stream. The first event is waited for a moment before the response begins, so that what fails at once
// fails with its HTTP status; what fails later ends the stream with an error event, as OpenAI's clients expect.

import type { Context } from "hono";
import type { AppEnv } from "../context.js";
import { type HttpError, toHttpError } from "../http/api-error.js";
import { type ServerEvent, sseResponse } from "../http/sse.js";
import { traceResponse } from "../metrics/trace-response.js";
import type { Call } from "./call.js";

/** How an API writes its streams, where it is not as OpenAI does. */
export interface StreamForm {
  /** One JSON object a line instead of server-sent events. */
  readonly isLines?: boolean;
  /** What a client is told when the stream fails. */
  failure?(error: HttpError): ServerEvent;
}

export async function streamCall(
  c: Context<AppEnv>,
  call: Call,
  events: AsyncGenerator<ServerEvent>,
  form: StreamForm = {},
): Promise<Response> {
  const first = events.next();
  let timer: NodeJS.Timeout | undefined;
  const moment = new Promise((resolve) => {
    timer = setTimeout(resolve, c.get("server").config.streamKeepAliveSeconds * 1000);
  });
  try {
    await Promise.race([first, moment]);
  } finally {
    clearTimeout(timer);
  }
  return sseResponse(c, events, {
    first,
    isLines: form.isLines === true,
    leave: call.leave,
    failed: (error) => {
      if (call.hasLeft) return null; // nobody listens
      const failure = toHttpError(error, c.get("tenant")?.isAdmin ?? false);
      if (failure.status === 500) c.get("log").error({ err: error }, "a stream failed");
      return form.failure?.(failure) ?? { data: failure.body };
    },
    ended: () => {
      call.end();
      c.get("log").info(c.get("facts"), "stream ended");
      traceResponse(c);
    },
  });
}
