// What the span of a request says, once it is answered: by the names of OpenTelemetry's conventions for HTTP and for generative models.

import type { Context } from "hono";
import type { AppEnv } from "../context.js";

export function traceResponse(c: Context<AppEnv>): void {
  const span = c.get("span");
  const { tracer, modelNames } = c.get("server");
  if (span === null || tracer === null) return;
  const { method, path } = c.req;
  const facts = c.get("facts");
  const { promptTokens, cachedTokens, completionTokens, ttftMs, queuedMs } = facts as Record<
    string,
    number | undefined
  >;
  const failure = facts.failure as { status: number; code: string } | undefined;
  const status = failure?.status ?? c.res.status;
  const seconds = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms / 1000);
  const attributes = {
    "http.request.method": method,
    "url.path": path,
    "http.response.status_code": status,
    "error.type": failure?.code,
    ...(promptTokens === undefined ? {} : { "gen_ai.response.model": modelNames[0] }),
    "gen_ai.usage.input_tokens": promptTokens,
    "gen_ai.usage.output_tokens": completionTokens,
    "gen_ai.usage.cached_tokens": cachedTokens,
    "gen_ai.latency.time_in_queue": seconds(queuedMs),
    "gen_ai.latency.time_to_first_token": seconds(ttftMs),
  };
  tracer.end(span, `${method} ${path}`, attributes, status >= 500);
}
