// Talks to the server. The API key, where one is needed, lives in this tab's session storage only.

import { EventStreamParser, type StreamEvent } from "../data/event-stream.js";

const STORED = "pagoda-api-key";

/** The server said no: its words, status and code. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string | null;

  constructor(status: number, message: string, code: string | null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class Api {
  /** Called when the server wants a key, or another one. */
  onDenied: (message: string) => void = () => undefined;
  readonly #keyWaiters: (() => void)[] = [];

  get hasKey(): boolean {
    return sessionStorage.getItem(STORED) !== null;
  }

  setKey(key: string): void {
    if (key === "") sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, key);
    for (const resolve of this.#keyWaiters.splice(0)) resolve();
  }

  /** Resolves when a key is given. */
  nextKey(): Promise<void> {
    return new Promise((resolve) => this.#keyWaiters.push(resolve));
  }

  async json<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await (await this.#fetch(path, { signal: signal ?? null })).json()) as T;
  }

  /** Posts a body and waits for the whole answer. */
  async post<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    return (await (await this.#fetch(path, bodyOf(body, signal))).json()) as T;
  }

  /** The events of a stream as they come; posts the body where there is one. */
  async *events(
    path: string,
    body: unknown,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): AsyncGenerator<StreamEvent> {
    const init: ReturnType<typeof bodyOf> = body === null ? { signal } : bodyOf(body, signal);
    const response = await this.#fetch(path, { ...init, headers: { ...init.headers, ...headers } });
    const parser = new EventStreamParser();
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) yield* parser.push(next.value);
    } finally {
      void reader.cancel().catch(() => undefined);
    }
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const key = sessionStorage.getItem(STORED);
    const headers = new Headers(init.headers);
    if (key !== null) headers.set("authorization", `Bearer ${key}`);
    const response = await fetch(path, { ...init, headers });
    if (response.ok) return response;
    const failure = await failureOf(response);
    // A key given while this request was on its way has not been denied.
    if (failure.status === 401 && key === sessionStorage.getItem(STORED))
      this.onDenied(key === null ? "This server wants an API key." : failure.message);
    throw failure;
  }
}

function bodyOf(body: unknown, signal: AbortSignal): RequestInit & { headers?: Readonly<Record<string, string>> } {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
}

async function failureOf(response: Response): Promise<ApiFailure> {
  const { status, statusText } = response;
  try {
    const { error } = (await response.json()) as { error: { message: string; code: string | null } };
    return new ApiFailure(status, error.message, error.code);
  } catch {
    return new ApiFailure(status, `The server answered ${status} ${statusText}.`, null);
  }
}
