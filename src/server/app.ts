// The HTTP application: request ids and logs, CORS, keys, routes, errors.

import { randomUUID } from "node:crypto";
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { getPath } from "hono/utils/url";
import { errorFor } from "../core/errors.js";
import { countTokens, messages } from "./anthropic/route.js";
import { BATCH_ROUTES } from "./batch/routes.js";
import type { AppEnv, ServerContext } from "./context.js";
import { cache, plan, stats, steps } from "./dashboard/route.js";
import { staticFile } from "./dashboard/static-files.js";
import { ApiError, type ErrorBody, toHttpError } from "./http/api-error.js";
import { authenticate } from "./http/auth.js";
import { LookLimit, limitLooks } from "./http/look-limit.js";
import { isAllowed, originGuard } from "./http/origin-guard.js";
import type { Route } from "./http/route.js";
import { health, metrics, ready, version } from "./http/service.js";
import { traceResponse } from "./metrics/trace-response.js";
import { Span } from "./metrics/tracer.js";
import { ollamaChat, ollamaGenerate } from "./ollama/route.js";
import { ollamaEmbed, ollamaEmbeddings } from "./ollama/route-embed.js";
import { ollamaDelete, ollamaPull } from "./ollama/route-hub.js";
import { ollamaPs, ollamaShow, ollamaTags, ollamaVersion } from "./ollama/route-models.js";
import { loadAdapter, loraAdapters, unloadAdapter } from "./openai/adapters.js";
import { chatCompletions } from "./openai/chat-completions.js";
import { completions } from "./openai/completions.js";
import { embeddings } from "./openai/embeddings.js";
import { getModel, listModels } from "./openai/models.js";
import { rerankRoutes, score } from "./openai/rerank.js";
import { deleteResponse, getResponse, responseInput, responses } from "./openai/responses.js";
import { detokenize, tokenize } from "./openai/tokenize.js";

const ROUTES: readonly Route[] = [
  chatCompletions,
  completions,
  responses,
  getResponse,
  deleteResponse,
  responseInput,
  embeddings,
  ...rerankRoutes,
  score,
  messages,
  countTokens,
  ollamaChat,
  ollamaGenerate,
  ollamaEmbed,
  ollamaEmbeddings,
  ollamaTags,
  ollamaShow,
  ollamaPs,
  ollamaPull,
  ollamaDelete,
  ollamaVersion,
  listModels,
  getModel,
  ...BATCH_ROUTES,
  loadAdapter,
  unloadAdapter,
  loraAdapters,
  tokenize,
  detokenize,
  health,
  ready,
  version,
  metrics,
  stats,
  steps,
  cache,
  plan,
];

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** What Ollama has and Pagoda does not. */
const OLLAMAS_OWN = /^\/api\/(push|create|copy|blobs)(\/|$)/;

export interface AppOptions {
  /** Endpoints beside those that every server has. */
  readonly routes?: readonly Route[];
  /** A path that stands before all of them, where the application is part of another, which says who may come from where. */
  readonly mountedAt?: string | undefined;
  /** Whose a request is, where no key says it. Default: its address's. */
  readonly clientOf?: ((request: Request) => string) | undefined;
}

export function createApp(context: ServerContext, options: AppOptions = {}): Hono<AppEnv> {
  const { mountedAt, clientOf } = options;
  const app = new Hono<AppEnv>(mountedAt === undefined ? {} : { getPath: (request) => pathUnder(mountedAt, request) });
  const routes = [...ROUTES, ...(options.routes ?? [])];

  app.use(async (c, next) => {
    const given = c.req.header("x-request-id");
    const requestId = given !== undefined && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
    c.set("server", context);
    c.set("log", context.log.child({ requestId }));
    c.set("facts", {});
    c.set("span", context.tracer === null ? null : new Span(c.req.header("traceparent")));
    const isOfBatch = c.env?.batchOf !== undefined;
    c.set("address", isOfBatch ? "batch" : (clientOf?.(c.req.raw) ?? c.env?.incoming?.socket.remoteAddress ?? ""));
    const startMs = performance.now();
    await next();
    c.res.headers.set("x-request-id", requestId); // now: streams and files make their responses themselves
    context.house.leave(c);
    logResponse(c, performance.now() - startMs);
    if (!/event-stream|ndjson/.test(c.res.headers.get("content-type") ?? "")) traceResponse(c);
  });
  const { corsOrigin, devOrigins } = context.config;
  if (corsOrigin.length > 0 || devOrigins) {
    const allowed = (origin: string): string | null => (isAllowed(origin, context.config) ? origin : null);
    const origin = corsOrigin.includes("*") ? "*" : allowed;
    app.use(cors({ origin, exposeHeaders: ["x-request-id", "retry-after"] }));
  }

  const isTheirs = mountedAt !== undefined && context.config.allowedHost.length === 0;
  const isOurs = isTheirs ? null : originGuard(context.config, context.keys.size > 0);
  if (isOurs !== null) app.use((c, next) => (c.env?.batchOf === undefined ? isOurs(c, next) : next()));
  const guard = authenticate(context.keys);
  const looks = limitLooks(new LookLimit());
  for (const route of routes) {
    const handle = (c: Context<AppEnv>) => route.handle(c);
    const isOpen = route.isOpen === true && (context.config.openMetrics || route.path !== "/metrics");
    if (isOpen) app.on(route.method, route.path, handle);
    else if (route.isLook === true) app.on(route.method, route.path, guard, looks, handle);
    else app.on(route.method, route.path, guard, handle);
  }
  let document: Promise<Record<string, unknown>> | null = null; // made when it is asked for: it takes longer than the rest of this
  const describe = async (c: Context<AppEnv>) => {
    document ??= import("./openapi.js").then(({ openApiDocument }) => openApiDocument(routes, context.version));
    return c.json(await document);
  };
  if (context.config.openMetrics) app.get("/openapi.json", describe);
  else app.get("/openapi.json", guard, describe);

  app.notFound((c) => {
    const isGet = c.req.method === "GET" || c.req.method === "HEAD";
    const file = isGet ? staticFile(c.req.path) : null;
    if (file !== null) return file;
    if (isGet && c.req.path === "/") return c.text("Pagoda is running");
    const known = routes.find((route) => route.path === c.req.path);
    const error =
      known === undefined
        ? new ApiError("not_found", `There is no ${c.req.method} ${c.req.path} here. ${hintFor(routes, c.req.path)}`)
        : new ApiError("method_not_allowed", `${c.req.path} takes ${known.method.toUpperCase()}.`, {
            headers: { allow: known.method.toUpperCase() },
          });
    return errorResponse(c, error);
  });
  app.onError((error, c) => errorResponse(c, error));
  return app;
}

/** The path below the one that the application is mounted at; frameworks may have taken that off already. */
function pathUnder(mountedAt: string, request: Request): string {
  const path = getPath(request);
  return path.startsWith(`${mountedAt}/`) ? path.slice(mountedAt.length) : path === mountedAt ? "/" : path;
}

/** Base URLs are written with /v1 for some clients and without it for others: who has it wrong is told. */
function hintFor(routes: readonly Route[], path: string): string {
  const isThere = (other: string): boolean => routes.some((route) => route.path === other);
  if (isThere(`/v1${path}`)) return `It is at /v1${path}: let the client's base URL end with /v1.`;
  if (path.startsWith("/v1/") && isThere(path.slice(3)))
    return `It is at ${path.slice(3)}: take /v1 from the client's base URL.`;
  return "/openapi.json lists what is.";
}

function errorResponse(c: Context<AppEnv>, error: unknown): Response {
  // Whatever went wrong after the client had gone went wrong because of it.
  const cause = c.req.raw.signal.aborted ? errorFor("aborted") : error;
  const failure = toHttpError(cause, c.get("tenant")?.isAdmin ?? false);
  const { status, headers, body } = failure;
  if (status === 500) c.get("log").error({ err: error }, "a request failed");
  else c.get("facts").failure ??= { status, code: body.error.code, message: (cause as Error).message };
  for (const [name, value] of Object.entries(headers)) c.header(name, value);
  return c.json((shaperOf(c.req.path)?.(failure) ?? body) as ErrorBody, status as 400);
}

/** How the API that a path belongs to writes errors: its clients also ask for what is not there. */
function shaperOf(path: string): Route["shapeError"] {
  const route = ROUTES.find((known) => known.path === path);
  if (route !== undefined) return route.shapeError;
  if (path.startsWith("/v1/messages/")) return messages.shapeError;
  return OLLAMAS_OWN.test(path) ? ollamaChat.shapeError : undefined;
}

function logResponse(c: Context<AppEnv>, ms: number): void {
  const { status } = c.res;
  const { method, path } = c.req;
  const route =
    ROUTES.find((known) => known.path === path)?.path ??
    (path.startsWith("/v1/models/")
      ? "/v1/models/:model"
      : path.startsWith("/v1/responses/")
        ? "/v1/responses/:id"
        : "other");
  // A method may be any word where no server of Node's has read it.
  c.get("server").metrics.countHttp(route, METHODS.includes(method) ? method : "other", status);
  const line = { method, path, status, ms: Math.round(ms * 10) / 10, tenant: c.get("tenant")?.name, ...c.get("facts") };
  const isQuiet =
    path === "/health" || path === "/ready" || path === "/metrics" || (method === "GET" && path.startsWith("/api/"));
  c.get("log")[isQuiet ? "debug" : status >= 500 ? "error" : "info"](line, "request");
}
