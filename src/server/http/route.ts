// An endpoint as data: app.ts registers the list, openapi.ts describes it.

import type { Context } from "hono";
import type { z } from "zod";
import type { AppEnv } from "../context.js";
import type { HttpError } from "./api-error.js";

export interface Route {
  readonly method: "get" | "post" | "delete";
  /** Hono's spelling: /api/plan/:step */
  readonly path: string;
  readonly summary: string;
  readonly body?: z.ZodType;
  /** Answers without an API key. */
  readonly isOpen?: boolean;
  /** Shows what goes on, at some cost: no client may ask for it all the time. */
  readonly isLook?: boolean;
  /** May answer with server-sent events. */
  readonly canStream?: boolean;
  /** How its API writes errors, where not as OpenAI does. */
  shapeError?(error: HttpError): unknown;
  handle(c: Context<AppEnv>): Response | Promise<Response>;
}
