// Work that would hold up the caller's thread is done in a thread of its own: one task after another, clients in turns; one whose caller
// has left before its turn is never begun. A task that exceeds its time or the thread's memory fails alone: the thread is replaced, and the
// others go on in the next one.

import type { TransferListItem, Worker } from "node:worker_threads";
import { EngineDeadError, type ErrorCode, type ErrorDetails, errorFor } from "../core/errors.js";

/** What the thread says: once that it is ready, then of each task what came of it. */
export type FromTasks<Made> =
  | "ready"
  | { readonly made: Made }
  | { readonly code: ErrorCode; readonly details: ErrorDetails }
  | { readonly failed: string };

export interface Asker {
  readonly signal?: AbortSignal | undefined;
  /** Whose turn it is. */
  readonly client?: string;
}

export interface TaskThreadOptions<Task> {
  /** Starts the thread, with so much memory for JavaScript at most. */
  readonly start: (resourceLimits: { readonly maxOldGenerationSizeMb: number }) => Worker;
  readonly memoryMb: number;
  /** How long a task may take; the thread's own start does not count. */
  readonly limitMs: (task: Task) => number;
  /** What a caller is told whose task exceeded a limit, or ended the thread. */
  readonly failure: (task: Task, reason: string) => Error;
}

interface Waiting<Task, Made> {
  readonly task: Task;
  readonly transfer: readonly TransferListItem[];
  resolve(made: Made): void;
  reject(error: Error): void;
}

export class TaskThread<Task, Made> {
  readonly #options: TaskThreadOptions<Task>;
  readonly #queues = new Map<string, Waiting<Task, Made>[]>(); // by client; whose turn is next is first
  #current: Waiting<Task, Made> | null = null;
  #timer: NodeJS.Timeout | undefined;
  #thread: Worker | null = null;
  #isReady = false;

  /** The thread starts with the first task. */
  constructor(options: TaskThreadOptions<Task>) {
    this.#options = options;
  }

  run(task: Task, { signal, client = "" }: Asker = {}, transfer: readonly TransferListItem[] = []): Promise<Made> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const queue = this.#queues.get(client);
        const at = queue?.indexOf(waiting) ?? -1;
        if (at >= 0) queue!.splice(at, 1);
        reject(errorFor("aborted"));
      };
      const waiting: Waiting<Task, Made> = {
        task,
        transfer,
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
      this.#thread?.unref(); // a task under way keeps the process alive, not the thread
      return;
    }
    const { task, transfer } = this.#current;
    const thread = this.#threadNow();
    thread.ref();
    if (this.#isReady) this.#limit();
    thread.postMessage(task, transfer);
  }

  #limit(): void {
    if (this.#current === null) return;
    const limitMs = this.#options.limitMs(this.#current.task);
    this.#timer = setTimeout(() => this.#replace(`it took more than ${limitMs / 1000} s`), limitMs);
  }

  /** The next client's oldest; the client goes to the end of the line. */
  #take(): Waiting<Task, Made> | null {
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
    const { memoryMb } = this.#options;
    const thread = this.#options.start({ maxOldGenerationSizeMb: memoryMb });
    thread.on("message", (reply: FromTasks<Made>) => {
      if (thread !== this.#thread) return;
      if (reply === "ready") {
        this.#isReady = true;
        return this.#limit();
      }
      this.#end((current) => {
        if ("made" in reply) current.resolve(reply.made);
        else if ("code" in reply) current.reject(errorFor(reply.code, reply.details));
        else current.reject(this.#options.failure(current.task, reply.failed));
      });
      this.#next();
    });
    thread.on("error", (error: Error & { code?: string }) => {
      const isMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      if (thread === this.#thread)
        this.#replace(isMemory ? `it needs more than ${memoryMb} MiB of memory` : error.message);
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
    this.#end((current) => current.reject(this.#options.failure(current.task, reason)));
    this.#next();
  }

  #end(tell: (current: Waiting<Task, Made>) => void): void {
    clearTimeout(this.#timer);
    const current = this.#current;
    this.#current = null;
    if (current !== null) tell(current);
  }
}
