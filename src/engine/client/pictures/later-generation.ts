// A generation whose prompt is still being prepared: its pictures are on their way.

import { errorFor } from "../../../core/errors.js";
import type { GenerateResult, Generation, OutputChunk } from "../../types.js";

export class LaterGeneration implements Generation {
  readonly id: string;
  readonly #leave: AbortController;
  readonly #inner: Promise<Generation>;

  /** `start` begins at once; its signal says that nobody waits any more. */
  constructor(id: string, start: (signal: AbortSignal) => Promise<Generation>, signal: AbortSignal | undefined) {
    this.id = id;
    this.#leave = new AbortController();
    const left = this.#leave.signal;
    const either = signal === undefined ? left : AbortSignal.any([left, signal]);
    this.#inner = start(either).then((generation) => {
      if (!either.aborted) return generation;
      generation.abort();
      throw errorFor("aborted");
    });
    this.#inner.catch(() => undefined); // whoever reads it hears of it
  }

  async result(): Promise<GenerateResult> {
    return (await this.#inner).result();
  }

  abort(): void {
    this.#leave.abort();
    this.#inner.then(
      (generation) => generation.abort(),
      () => undefined,
    );
  }

  async *[Symbol.asyncIterator](): AsyncIterator<OutputChunk> {
    let isOver = false;
    try {
      yield* await this.#inner;
      isOver = true;
    } finally {
      if (!isOver) this.abort();
    }
  }
}
