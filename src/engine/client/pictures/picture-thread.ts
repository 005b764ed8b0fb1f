// Pictures are decoded and prepared in a thread of their own: it takes a second for a large one, and its file comes from anybody. One after
// another; a file that takes too long ends the thread, and the next picture starts another.

import { Worker } from "node:worker_threads";
import { EngineDeadError, errorFor } from "../../../core/errors.js";
import type { WireError } from "../../messages.js";
import type { PictureAsker, PictureInput, ReaderOptions } from "./picture-reader.js";
import type { ImageDetail, SeenPicture } from "./seen-picture.js";

export interface ToPictureThread {
  readonly input: PictureInput;
  readonly detail: ImageDetail;
  readonly client: string;
}

export type FromPictureThread = { readonly seen: SeenPicture } | { readonly error: WireError };

interface Waiting extends ToPictureThread {
  resolve(seen: SeenPicture): void;
  reject(error: Error): void;
}

/** Pictures of all requests that may wait for their turn. */
const MAX_WAITING = 1024;

export class PictureThread {
  readonly #options: ReaderOptions;
  readonly #maxMs: number;
  readonly #waiting: Waiting[] = [];
  #current: Waiting | null = null;
  #thread: Worker | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;

  /** `maxMs`: how long one picture may take. */
  constructor(options: ReaderOptions, maxMs: number) {
    this.#options = options;
    this.#maxMs = maxMs;
  }

  read(input: PictureInput, detail: ImageDetail, { signal, client = "" }: PictureAsker = {}): Promise<SeenPicture> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const at = this.#waiting.indexOf(waiting);
        if (at >= 0) this.#waiting.splice(at, 1);
        waiting.reject(errorFor("aborted"));
      };
      const waiting: Waiting = {
        input,
        detail,
        client,
        resolve: (seen) => {
          signal?.removeEventListener("abort", leave);
          resolve(seen);
        },
        reject: (error) => {
          signal?.removeEventListener("abort", leave);
          reject(error);
        },
      };
      if (signal?.aborted) return leave();
      if (this.#waiting.length >= MAX_WAITING)
        return reject(errorFor("queue_full", { value: this.#waiting.length, limit: MAX_WAITING }));
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiting);
      this.#next();
    });
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    const error = new EngineDeadError("engine_dead", { reason: "it was closed." });
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
    this.#fail(error);
    await thread?.terminate();
  }

  #next(): void {
    if (this.#current !== null) return;
    this.#current = this.#waiting.shift() ?? null;
    if (this.#current === null) {
      this.#thread?.unref(); // a picture under way keeps the process alive, not the thread
      return;
    }
    const { input, detail, client } = this.#current;
    const thread = this.#threadNow();
    thread.ref();
    this.#timer = setTimeout(() => {
      void thread.terminate();
      this.#fail(errorFor("image_too_slow", { limit: this.#maxMs / 1000 }));
    }, this.#maxMs);
    thread.postMessage({ input, detail, client } satisfies ToPictureThread);
  }

  #threadNow(): Worker {
    if (this.#thread !== null) return this.#thread;
    const thread = new Worker(new URL("./picture-worker.js", import.meta.url), {
      workerData: this.#options,
      execArgv: [],
    });
    thread.on("message", (answer: FromPictureThread) => {
      if (thread !== this.#thread) return;
      const current = this.#end();
      if ("seen" in answer) current?.resolve(answer.seen);
      else current?.reject(errorFor(answer.error.code, answer.error.details));
      this.#next();
    });
    thread.on("error", (error) => {
      if (thread === this.#thread) this.#fail(errorFor("image_unsupported", { reason: error.message }));
    });
    this.#thread = thread;
    return thread;
  }

  /** Whose picture it was. */
  #end(): Waiting | null {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const current = this.#current;
    this.#current = null;
    return current;
  }

  /** The thread is lost, and with it the picture it was at. */
  #fail(error: Error): void {
    this.#thread = null;
    this.#end()?.reject(error);
    this.#next();
  }
}
