// Texts that would hold up the caller's thread are worked on in a thread of their own: a megabyte of prompt takes seconds to tokenise, and
// a model's chat template and the expressions of its tokenizer may take for ever. One task after another, clients in turns; one whose caller
// has left before its turn is never begun. A task that exceeds its time or the thread's memory fails alone: the thread is replaced, and the
// others go on in the next one.

import { Worker } from "node:worker_threads";
import { EngineDeadError, type ErrorCode, type ErrorDetails, errorFor, RequestError } from "../../core/errors.js";
import type { ChatPrompt, RenderOptions, TemplateMessage } from "../../tokenizer/chat-template.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";

/** What the thread can be asked, with what it takes and what it gives. */
export interface TextTasks {
  encode: { given: { text: string; options: EncodeOptions }; made: Int32Array };
  render: { given: { messages: readonly TemplateMessage[]; options: RenderOptions }; made: ChatPrompt };
  verdict: {
    given: { query: string; document: string; instruction?: string | undefined; limit: number };
    made: Int32Array;
  };
}

export type TextTask = { [Kind in keyof TextTasks]: { kind: Kind } & TextTasks[Kind]["given"] }[keyof TextTasks];
export type FromTexts =
  | "ready"
  | { readonly made: TextTasks[keyof TextTasks]["made"] }
  | { readonly code: ErrorCode; readonly details: ErrorDetails }
  | { readonly failed: string };

export interface Asker {
  readonly signal?: AbortSignal | undefined;
  /** Whose turn it is. */
  readonly client?: string;
}

interface Waiting {
  readonly task: TextTask;
  readonly client: string;
  resolve(made: never): void;
  reject(error: Error): void;
}

/** A megabyte takes about 3 s on a slow machine with much to do. */
const LIMITS = { taskMs: 20_000, msPerMegabyte: 20_000, memoryMb: 2048 };

export class TextThread {
  readonly #model: string;
  readonly #limits: typeof LIMITS;
  readonly #queues = new Map<string, Waiting[]>(); // by client; whose turn is next is first
  #current: Waiting | null = null;
  #timer: NodeJS.Timeout | undefined;
  #thread: Worker | null = null;
  #isReady = false;

  /** `model`: where the checkpoint is. Its tokenizer is read once more, when the first text comes. */
  constructor(model: string, limits = LIMITS) {
    this.#model = model;
    this.#limits = limits;
  }

  run<Kind extends keyof TextTasks>(
    kind: Kind,
    given: TextTasks[Kind]["given"],
    { signal, client = "" }: Asker = {},
  ): Promise<TextTasks[Kind]["made"]> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const queue = this.#queues.get(client);
        const at = queue?.indexOf(waiting) ?? -1;
        if (at >= 0) queue!.splice(at, 1);
        reject(errorFor("aborted"));
      };
      const waiting: Waiting = {
        task: { kind, ...given } as TextTask,
        client,
        resolve: (made) => {
          signal?.removeEventListener("abort", leave);
          resolve(made);
        },
        reject,
      };
      if (signal?.aborted) return leave();
      signal?.addEventListener("abort", leave, { once: true });
      const queue = this.#queues.get(client);
      if (queue === undefined) this.#queues.set(client, [waiting]);
      else queue.push(waiting);
      this.#next();
    });
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    const error = new EngineDeadError("engine_dead", { reason: "it was closed." });
    const waiting = [...this.#queues.values()].flat();
    this.#queues.clear();
    this.#end((current) => current.reject(error));
    for (const { reject } of waiting) reject(error);
    this.#thread = null;
    await thread?.terminate();
  }

  #next(): void {
    if (this.#current !== null) return;
    this.#current = this.#take();
    if (this.#current === null) {
      this.#thread?.unref(); // a text under way keeps the process alive, not the thread
      return;
    }
    const { task } = this.#current;
    const thread = this.#threadNow();
    thread.ref();
    if (this.#isReady) this.#limit();
    thread.postMessage(task);
  }

  /** The task under way has so long from now on; the thread's own start does not count. */
  #limit(): void {
    if (this.#current === null) return;
    const { taskMs, msPerMegabyte } = this.#limits;
    const limitMs = taskMs + (msPerMegabyte * sizeOf(this.#current.task)) / 2 ** 20;
    this.#timer = setTimeout(() => this.#replace(`it took more than ${limitMs / 1000} s`), limitMs);
  }

  /** The next client's oldest; the client goes to the end of the line. */
  #take(): Waiting | null {
    for (const [client, queue] of this.#queues) {
      this.#queues.delete(client);
      const first = queue.shift();
      if (queue.length > 0) this.#queues.set(client, queue);
      if (first !== undefined) return first;
    }
    return null;
  }

  #threadNow(): Worker {
    if (this.#thread !== null) return this.#thread;
    const thread = new Worker(new URL("./text-worker.js", import.meta.url), {
      workerData: this.#model,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.memoryMb },
    });
    thread.on("message", (reply: FromTexts) => {
      if (thread !== this.#thread) return;
      if (reply === "ready") {
        this.#isReady = true;
        return this.#limit();
      }
      this.#end((current) => {
        if ("made" in reply) current.resolve(reply.made as never);
        else
          current.reject("code" in reply ? errorFor(reply.code, reply.details) : failure(current.task, reply.failed));
      });
      this.#next();
    });
    thread.on("error", (error: Error & { code?: string }) => {
      const isMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      if (thread === this.#thread)
        this.#replace(isMemory ? `it needs more than ${this.#limits.memoryMb} MiB of memory` : error.message);
    });
    this.#thread = thread;
    this.#isReady = false;
    return thread;
  }

  /** The task under way fails; the next one starts another thread. */
  #replace(reason: string): void {
    const thread = this.#thread;
    this.#thread = null;
    void thread?.terminate();
    this.#end((current) => current.reject(failure(current.task, reason)));
    this.#next();
  }

  #end(tell: (current: Waiting) => void): void {
    clearTimeout(this.#timer);
    const current = this.#current;
    this.#current = null;
    if (current !== null) tell(current);
  }
}

function failure({ kind }: TextTask, reason: string): RequestError {
  return kind === "render"
    ? new RequestError("template_failed", { reason })
    : new RequestError("text_failed", { reason });
}

/** Characters, about. */
function sizeOf(task: TextTask): number {
  switch (task.kind) {
    case "encode":
      return task.text.length;
    case "render":
      return task.messages.reduce((sum, { content }) => sum + lengthOf(content), 0);
    case "verdict":
      return task.query.length + task.document.length;
  }
}

/** A text, or parts of it. */
function lengthOf(content: unknown): number {
  if (typeof content === "string") return content.length;
  return Array.isArray(content)
    ? content.reduce((sum: number, part) => sum + lengthOf((part as { text?: unknown }).text), 0)
    : 0;
}
