// Traces for OpenTelemetry: a span for each request, sent to a collector over OTLP/HTTP as JSON, in batches. A caller's traceparent is its
// parent, and says whether it is recorded. A collector that does not answer loses spans and nothing else.

import { randomBytes } from "node:crypto";
import type { Logger } from "../http/logger.js";

const FLUSH_MS = 1000;
const MOST_IN_A_BATCH = 256;
const MOST_WAITING = 4096;
const TIMEOUT_MS = 10_000;
const SERVER_KIND = 2;
const ERROR_STATUS = 2;

type Attributes = Readonly<Record<string, string | number | undefined>>;

/** One request, from its arrival on. */
export class Span {
  readonly traceId: string;
  readonly parentId: string | null;
  readonly isRecorded: boolean;
  readonly id = randomBytes(8).toString("hex");
  readonly startMs = performance.timeOrigin + performance.now();
  isOver = false;

  /** `traceparent`: as the W3C's Trace Context has it; what is no such thing counts as absent. */
  constructor(traceparent: string | undefined) {
    const [, traceId, parentId, flags] =
      /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(traceparent ?? "") ?? [];
    const isKnown = traceId !== undefined && !/^0+$/.test(traceId) && !/^0+$/.test(parentId!);
    this.traceId = isKnown ? traceId : randomBytes(16).toString("hex");
    this.parentId = isKnown ? parentId! : null;
    this.isRecorded = !isKnown || (Number.parseInt(flags!, 16) & 1) === 1;
  }
}

export class Tracer {
  readonly #url: string;
  readonly #version: string;
  readonly #log: Logger;
  #waiting: object[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> = Promise.resolve();
  #hasFailed = false;

  constructor(endpoint: string, version: string, log: Logger) {
    this.#url = /\/v1\/traces\/?$/.test(endpoint) ? endpoint : `${endpoint.replace(/\/+$/, "")}/v1/traces`;
    this.#version = version;
    this.#log = log;
  }

  /** The request is answered, its stream too. Told twice, it counts once. */
  end(span: Span, name: string, attributes: Attributes, isError: boolean): void {
    if (span.isOver || !span.isRecorded) return;
    span.isOver = true;
    if (this.#waiting.length >= MOST_WAITING) return;
    this.#waiting.push({
      traceId: span.traceId,
      spanId: span.id,
      ...(span.parentId === null ? {} : { parentSpanId: span.parentId }),
      name,
      kind: SERVER_KIND,
      startTimeUnixNano: nanosOf(span.startMs),
      endTimeUnixNano: nanosOf(performance.timeOrigin + performance.now()),
      attributes: listOf(attributes),
      status: isError ? { code: ERROR_STATUS } : {},
    });
    if (this.#waiting.length >= MOST_IN_A_BATCH) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS).unref();
  }

  /** Resolves when all that waits was sent, or could not be. */
  flush(): Promise<void> {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
    const spans = this.#waiting;
    this.#waiting = [];
    if (spans.length > 0) this.#sending = this.#sending.then(() => this.#send(spans));
    return this.#sending;
  }

  async #send(spans: readonly object[]): Promise<void> {
    const resource = { attributes: listOf({ "service.name": "pagoda", "service.version": this.#version }) };
    const scopeSpans = [{ scope: { name: "pagoda", version: this.#version }, spans }];
    try {
      const reply = await fetch(this.#url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans }] }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      await reply.body?.cancel();
      if (!reply.ok) throw new Error(`it answers ${reply.status}`);
      this.#hasFailed = false;
    } catch (error) {
      if (!this.#hasFailed) this.#log.warn({ err: error, url: this.#url }, "traces are lost: the collector takes none");
      this.#hasFailed = true; // said once, until it works again
    }
  }
}

function listOf(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]): object[] => {
    if (value === undefined) return [];
    if (typeof value === "string") return [{ key, value: { stringValue: value } }];
    return [{ key, value: Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value } }];
  });
}

function nanosOf(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}
