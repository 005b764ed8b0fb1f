// An endpoint as data: app.ts registers the list, openapi.ts describes it.

import type { Context } from "hono";
import type { z } from "zod";
import type { AppEnv } from "./context.js";

export interface Route {
  readonly method: "get" | "post";
  /** Hono's spelling: /api/plan/:step */
  readonly path: string;
  readonly summary: string;
  readonly body?: z.ZodType;
  /** Answers without an API key. */
  readonly isOpen?: boolean;
  /** May answer with server-sent events. */
  readonly canStream?: boolean;
  handle(c: Context<AppEnv>): Response | Promise<Response>;
}
