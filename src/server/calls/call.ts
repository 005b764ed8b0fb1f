// One request's stay in the engine, as its route sees it: waits at the gate, generates, measures, and gives its place back
// whatever happens. A client that leaves aborts it within a step.

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import type { Context } from "hono";
import type { PagodaError } from "../../core/errors.js";
import type { GenerateOptions, GenerateResult, Generation, OutputChunk } from "../../engine/types.js";
import { BATCH_PRIORITY } from "../batch/ask-line.js";
import type { AppEnv, ServerContext } from "../context.js";
import { toHttpError } from "../http/api-error.js";
import { clientOf } from "../http/auth.js";

export class Call {
  readonly id: string;
  readonly createdSeconds = Math.floor(Date.now() / 1000);
  readonly client: string;
  readonly #context: ServerContext;
  readonly #isAdmin: boolean;
  /** Added to the priority that it asks for. */
  readonly #priority: number;
  readonly #facts: Record<string, unknown>;
  readonly #leave = new AbortController();
  #release: () => void = () => undefined;
  #cutBy: PagodaError | null = null;

  constructor(c: Context<AppEnv>, idPrefix: string) {
    // Not the client's own request id: two requests may carry the same.
    this.id = `${idPrefix}${randomUUID().replaceAll("-", "")}`;
    this.client = clientOf(c);
    this.#context = c.get("server");
    this.#isAdmin = c.get("tenant").isAdmin;
    this.#priority = c.env?.batchOf === undefined ? 0 : BATCH_PRIORITY;
    this.#facts = c.get("facts");
    this.#context.owners.note(this.id, c.get("tenant"));
    this.#context.calls.add(this);
    setMaxListeners(0, this.#leave.signal); // one for each prompt of the request: many are no leak
    c.req.raw.signal.addEventListener("abort", this.leave);
    if (c.req.raw.signal.aborted) this.leave();
  }

  /** The client has gone: what runs for it stops, and its place is free. */
  readonly leave = (): void => {
    this.#leave.abort();
    this.end();
  };

  /** The server ends it: what runs for it stops, and its client is told why. */
  cut(error: PagodaError): void {
    this.#cutBy = error;
    this.leave();
  }

  /** The client has gone: what is written now is read by nobody. */
  get hasLeft(): boolean {
    return this.#leave.signal.aborted && this.#cutBy === null;
  }

  get signal(): AbortSignal {
    return this.#leave.signal;
  }

  /** Waits for room in the engine. `end` must be called once it has resolved. */
  async enter(priority: number): Promise<void> {
    try {
      this.#release = await this.#context.gate.enter(this.#allowed(priority), this.#leave.signal);
    } catch (error) {
      this.end();
      throw error;
    }
    if (this.#leave.signal.aborted) this.end();
  }

  end(): void {
    this.#context.calls.delete(this);
    this.#release();
  }

  start(prompt: readonly number[], options: GenerateOptions, index = 0): Generation {
    const id = index === 0 ? this.id : `${this.id}-${index}`;
    const { client, signal } = this;
    const { engine, adapter } = this.#context;
    const own = { id, client, signal, priority: this.#allowed(options.priority ?? 0) };
    return engine.submit(prompt, { ...(adapter === null ? {} : { adapter }), ...options, ...own });
  }

  /** A key may put its requests behind others', not before them. */
  #allowed(priority: number): number {
    return this.#priority + (this.#isAdmin ? priority : Math.max(0, priority));
  }

  /** The generation's chunks, measured. */
  async *chunks(generation: Generation): AsyncGenerator<OutputChunk> {
    const { metrics } = this.#context;
    const lastMs: number[] = []; // of each sample
    try {
      for await (const chunk of generation) {
        const { length } = chunk.tokenIds;
        const nowMs = performance.now();
        const last = lastMs[chunk.index];
        // A first chunk of several tokens: all but one followed another.
        if (length > 0) metrics.observeTokens(last === undefined ? length - 1 : length, nowMs - (last ?? nowMs));
        if (length > 0) lastMs[chunk.index] = nowMs;
        yield chunk;
      }
      this.#measure(await generation.result());
    } catch (thrown) {
      const error = this.#cutBy ?? thrown;
      const { status, body } = toHttpError(error);
      metrics.countFinished(body.error.code === "aborted" ? "abort" : "error");
      this.#facts.failure = { status, code: body.error.code, message: (error as Error).message };
      throw error;
    }
  }

  /** The whole of it. */
  async finish(generation: Generation): Promise<GenerateResult> {
    for await (const _ of this.chunks(generation));
    return generation.result();
  }

  #measure({ trace, samples }: GenerateResult): void {
    const { metrics } = this.#context;
    metrics.observeTrace(trace);
    if (this.#context.adapter !== null) metrics.countAdapter(this.#context.adapter, trace);
    for (const { finishReason } of samples) metrics.countFinished(finishReason);
    Object.assign(this.#facts, {
      promptTokens: trace.promptTokens,
      cachedTokens: trace.cachedTokens,
      completionTokens: trace.completionTokens,
      ttftMs: round(trace.timeToFirstTokenMs),
      queuedMs: round(trace.queuedMs),
      preemptions: trace.preemptions,
    });
  }
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
