// A call's events as a stream. The first event is waited for a moment before the response begins, so that what fails at once
// fails with its HTTP status; what fails later ends the stream with an error event, as OpenAI's clients expect.

import type { Context } from "hono";
import { toHttpError } from "./api-error.js";
import type { Call } from "./call.js";
import type { AppEnv } from "./context.js";
import { type ServerEvent, sseResponse } from "./sse.js";

export async function streamCall(
  c: Context<AppEnv>,
  call: Call,
  events: AsyncGenerator<ServerEvent>,
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
    leave: call.leave,
    failed: (error) => {
      if (call.hasLeft) return null; // nobody listens
      const { body, status } = toHttpError(error);
      if (status === 500) c.get("log").error({ err: error }, "a stream failed");
      return { data: body };
    },
    ended: () => {
      call.end();
      c.get("log").info(c.get("facts"), "stream ended");
    },
  });
}
