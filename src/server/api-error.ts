// The one place where errors become HTTP: OpenAI's error shape and the status of each kind.

import { PagodaError } from "../core/errors.js";

/** OpenAI's error object, as every failing response and every failing stream carries it. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** An error of HTTP rather than of the engine: authentication, routes, bodies. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message: string,
    options: { param?: string | null; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = options.param ?? null;
    this.headers = options.headers ?? {};
  }
}

export interface HttpError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorBody;
}

export function toHttpError(error: unknown): HttpError {
  if (error instanceof ApiError) return httpError(error.status, error.code, error.message, error.param, error.headers);
  if (error instanceof PagodaError) {
    const param = error.param === undefined ? null : apiName(error.param);
    return httpError(statusOf(error), error.code, error.message, param, headersOf(error));
  }
  // What is not ours may carry paths or secrets in its message; the log has it.
  return httpError(500, "internal_error", "The server failed unexpectedly; its log says why.", null, {});
}

function httpError(
  status: number,
  code: string,
  message: string,
  param: string | null,
  headers: Readonly<Record<string, string>>,
): HttpError {
  return { status, headers, body: { error: { message, type: typeOf(status), param, code } } };
}

function statusOf(error: PagodaError): number {
  if (error.code === "aborted") return 499; // the client left; nobody reads it, the log does
  switch (error.kind) {
    case "request":
      return 400;
    case "capacity":
      return error.code === "draining" || error.code === "cut_by_shutdown" ? 503 : 429;
    case "dead":
      return 503;
    case "config":
    case "format":
    case "device":
      return 500;
  }
}

function headersOf(error: PagodaError): Readonly<Record<string, string>> {
  if (error.kind === "capacity") return { "retry-after": String(error.details.retryAfter ?? 1) };
  return error.kind === "dead" ? { "retry-after": "1" } : {};
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  if (status >= 500) return "server_error";
  return "invalid_request_error";
}

/** The engine's option names as the API spells them: maxTokens -> max_tokens, salt -> cache_salt. */
function apiName(param: string): string {
  if (param === "salt") return "cache_salt";
  return param.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
}
