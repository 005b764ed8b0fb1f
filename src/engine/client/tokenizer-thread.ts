// Long texts are tokenised in a thread of their own: a megabyte of prompt takes seconds, and must not hold up the streams that the
// caller's thread serves. One text after another; one whose caller has left before its turn is never begun.

import { Worker } from "node:worker_threads";
import { EngineDeadError, errorFor } from "../../core/errors.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";

export interface ToTokenizer {
  readonly text: string;
  readonly options: EncodeOptions;
}

interface Waiting extends ToTokenizer {
  resolve(ids: number[]): void;
  reject(error: Error): void;
}

export class TokenizerThread {
  readonly #model: string;
  readonly #waiting: Waiting[] = [];
  #current: Waiting | null = null;
  #thread: Worker | null = null;

  /** `model`: where the checkpoint is. Its tokenizer is read once more, when the first text comes. */
  constructor(model: string) {
    this.#model = model;
  }

  encode(text: string, options: EncodeOptions, signal?: AbortSignal): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const at = this.#waiting.indexOf(waiting);
        if (at >= 0) this.#waiting.splice(at, 1);
        reject(errorFor("aborted"));
      };
      const waiting: Waiting = {
        text,
        options,
        resolve: (ids) => {
          signal?.removeEventListener("abort", leave);
          resolve(ids);
        },
        reject,
      };
      if (signal?.aborted) return leave();
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiting);
      this.#next();
    });
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    this.#fail("it was closed.");
    await thread?.terminate();
  }

  #next(): void {
    if (this.#current !== null) return;
    this.#current = this.#waiting.shift() ?? null;
    if (this.#current === null) {
      this.#thread?.unref(); // a text under way keeps the process alive, not the thread
      return;
    }
    const { text, options } = this.#current;
    const thread = this.#threadNow();
    thread.ref();
    thread.postMessage({ text, options } satisfies ToTokenizer);
  }

  #threadNow(): Worker {
    if (this.#thread !== null) return this.#thread;
    const thread = new Worker(new URL("./tokenizer-worker.js", import.meta.url), {
      workerData: this.#model,
      execArgv: [],
    });
    thread.on("message", (ids: Int32Array) => {
      this.#current?.resolve(Array.from(ids));
      this.#current = null;
      this.#next();
    });
    // The next text starts another one.
    thread.on("error", (error) => this.#fail(error.message));
    this.#thread = thread;
    return thread;
  }

  #fail(reason: string): void {
    const error = new EngineDeadError("engine_dead", { reason });
    for (const waiting of [this.#current, ...this.#waiting.splice(0)]) waiting?.reject(error);
    this.#current = null;
    this.#thread = null;
  }
}
