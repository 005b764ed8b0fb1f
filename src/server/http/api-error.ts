// The one place where errors become HTTP: OpenAI's error shape and the status of each kind.

import { ERRORS, type ErrorCode, type ErrorKind, PagodaError } from "../../core/errors.js";
import { SAMPLING } from "../../core/sampling.js";

/** OpenAI's error object, as every failing response and every failing stream carries it. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** By how much a prompt is too long: agents read it, and shorten the conversation. */
export interface PromptExcess {
  readonly tokens: number;
  /** What a prompt may have. */
  readonly limit: number;
  /** It was not counted to its end. */
  readonly isLeast: boolean;
}

/** An error that the server finds itself: authentication, routes, bodies. Its code is in the table of all errors. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly excess: PromptExcess | null;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      param?: string | null;
      headers?: Readonly<Record<string, string>>;
      excess?: PromptExcess;
    } = {},
  ) {
    super(message);
    this.code = code;
    this.param = options.param ?? null;
    this.headers = options.headers ?? {};
    this.excess = options.excess ?? null;
  }
}

export interface HttpError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorBody;
  readonly excess: PromptExcess | null;
}

/** `tellsAll`: to somebody who may know what the machine said, paths among it: without keys, or with an admin key. */
export function toHttpError(error: unknown, tellsAll = true): HttpError {
  if (error instanceof ApiError)
    return httpError(statusOf(error.code), error.code, error.message, error.param, error.headers, error.excess);
  if (error instanceof PagodaError) {
    const param = error.param === undefined ? null : apiName(error.param);
    const message = tellsAll || !isInternal(error) ? inApiNames(error.message) : INTERNAL[error.kind]!;
    return httpError(statusOf(error.code), error.code, message, param, headersOf(error));
  }
  // What is not ours may carry paths or secrets in its message; the log has it.
  return httpError(500, "internal_error", ERRORS.internal_error.message, null, {});
}

function httpError(
  status: number,
  code: ErrorCode,
  message: string,
  param: string | null,
  headers: Readonly<Record<string, string>>,
  excess: PromptExcess | null = null,
): HttpError {
  return { status, headers, body: { error: { message, type: typeOf(status), param, code } }, excess };
}

/** To others, of errors whose messages have reasons in them that the machine gave. */
const INTERNAL: Readonly<Partial<Record<ErrorKind, string>>> = {
  dead: "The engine has stopped and is started again; the server's log says why.",
  config: "The server's configuration does not allow this; its log says why.",
  format: "The model's files cannot be used; the server's log says why.",
  device: "The step that ran this request failed; the server's log says why.",
};

function isInternal({ kind, code }: PagodaError): boolean {
  return INTERNAL[kind] !== undefined && code !== "model_not_found";
}

const STATUS_OF_KIND: Readonly<Record<ErrorKind, number>> = {
  request: 400,
  capacity: 429,
  dead: 503,
  config: 500,
  format: 500,
  device: 500,
  http: 500,
};

function statusOf(code: ErrorCode): number {
  const row: { readonly kind: ErrorKind; readonly status?: number } = ERRORS[code];
  return row.status ?? STATUS_OF_KIND[row.kind];
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

/** A message of the engine's with the sampling parameters as bodies name them. */
function inApiNames(message: string): string {
  return message.replace(/\b[a-z]+[A-Z]\w*\b/g, (word) => (Object.hasOwn(SAMPLING, word) ? apiName(word) : word));
}

/** The engine's option names as the API spells them: maxTokens -> max_tokens, salt -> cache_salt. */
function apiName(param: string): string {
  if (param === "salt") return "cache_salt";
  return param.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
}
