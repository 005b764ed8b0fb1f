// The application as Node's own servers, Express and Fastify call it.

import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import type { AppEnv } from "../context.js";

export type NodeListener = (request: IncomingMessage, response: ServerResponse) => void;

export function nodeListener(app: Hono<AppEnv>): NodeListener {
  // What is left of a refused body is read and dropped by Node itself, within the request's timeout; the listener would close the
  // connection after half a second, and a client that still sends would hear of a broken pipe instead of the answer.
  const listen = getRequestListener(app.fetch, { overrideGlobalObjects: false, autoCleanupIncoming: false });
  return (request, response) => void listen(request, response);
}
