// Asks one line of a batch of the server itself: the same routes, checks and log lines as for anybody, behind everybody else.

import type { Hono } from "hono";
import type { AppEnv } from "../context.js";
import type { Tenant } from "../http/auth.js";
import type { BatchLine, LineResult } from "./batch-line.js";

/** Added to the priority of each request of a batch: interactive ones go first. */
export const BATCH_PRIORITY = 1_000_000;

export async function askLine(
  app: Hono<AppEnv>,
  { customId, url, body }: BatchLine,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<LineResult> {
  const request = new Request(`http://localhost${url}`, {
    method: "POST",
    headers: { "content-type": "application/json", host: "localhost" },
    body: JSON.stringify(body),
    signal,
  });
  const response = await app.fetch(request, { batchOf: tenant });
  const requestId = response.headers.get("x-request-id") ?? "";
  return { customId, status: response.status, requestId, body: await response.json() };
}
