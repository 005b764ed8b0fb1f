// What every answer on its way can do, however its pieces come: be awaited, read as text or bytes, and left.

import type { Underway } from "../chat-types.js";

export abstract class LiveAnswer<Piece, Whole> implements Underway<Piece, Whole> {
  abstract readonly id: string;
  abstract result(): Promise<Whole>;
  abstract abort(): void;
  abstract [Symbol.asyncIterator](): AsyncIterator<Piece>;
  /** The text of a piece; "" where it is something else. */
  protected abstract textOf(piece: Piece): string;
  protected abstract wholeText(whole: Whole): string;

  // biome-ignore lint/suspicious/noThenProperty: `await engine.chat(...)` is the answer, not a handle that is mistaken for one
  then<A = Whole, B = never>(
    onDone?: ((whole: Whole) => A | PromiseLike<A>) | null,
    onFailed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.result().then(onDone, onFailed);
  }

  async text(): Promise<string> {
    return this.wholeText(await this.result());
  }

  toReadableStream(): ReadableStream<Uint8Array> {
    const pieces = this[Symbol.asyncIterator]();
    const utf8 = new TextEncoder();
    return new ReadableStream({
      pull: async (controller) => {
        for (;;) {
          const next = await pieces.next();
          if (next.done === true) return controller.close();
          const text = this.textOf(next.value);
          if (text !== "") return controller.enqueue(utf8.encode(text));
        }
      },
      cancel: () => this.abort(),
    });
  }

  /** Ends what still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.abort();
  }
}

/** An answer that waits for something before it begins, such as pictures, or that cannot begin. */
export class LaterAnswer<Piece, Whole> extends LiveAnswer<Piece, Whole> {
  readonly id: string;
  readonly #leave = new AbortController();
  readonly #inner: Promise<{ readonly answer: LiveAnswer<Piece, Whole> }>;
  readonly #textOf: (piece: Piece) => string;
  readonly #wholeText: (whole: Whole) => string;

  /** `start` begins at once; its signal says that nobody waits any more. What it gives is boxed, for awaiting an answer is to have it. */
  constructor(
    id: string,
    start: (signal: AbortSignal) => Promise<{ readonly answer: LiveAnswer<Piece, Whole> }>,
    signal: AbortSignal | undefined,
    textOf: (piece: Piece) => string,
    wholeText: (whole: Whole) => string,
  ) {
    super();
    this.id = id;
    this.#textOf = textOf;
    this.#wholeText = wholeText;
    const left = this.#leave.signal;
    const either = signal === undefined ? left : AbortSignal.any([left, signal]);
    this.#inner = start(either).then((started) => {
      if (either.aborted) started.answer.abort();
      return started;
    });
    this.#inner.catch(() => undefined); // whoever reads it hears of it
  }

  async result(): Promise<Whole> {
    const { answer } = await this.#inner;
    return answer.result();
  }

  abort(): void {
    this.#leave.abort();
    this.#inner.then(
      ({ answer }) => answer.abort(),
      () => undefined,
    );
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Piece> {
    let isOver = false;
    try {
      const { answer } = await this.#inner;
      yield* answer;
      isOver = true;
    } finally {
      if (!isOver) this.abort();
    }
  }

  protected textOf(piece: Piece): string {
    return this.#textOf(piece);
  }

  protected wholeText(whole: Whole): string {
    return this.#wholeText(whole);
  }
}
