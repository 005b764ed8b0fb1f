// Who reads what the engine gives to one call: a generation makes text of it, an embedding waits for its vector, a relay passes the
// tokens on to another process.

import { errorFor, type PagodaError } from "../../core/errors.js";
import type { SampleOutput } from "../outputs.js";

export interface CallReader {
  /** Whether the engine has said anything: a call that has not begun survives a restart of the engine's thread. */
  readonly hasBegun: boolean;
  push(output: SampleOutput): void;
  /** The call ends here: nothing more is pushed. The reader tells the engine to stop working on it. */
  fail(error: PagodaError): void;
}

/** What a reader says back. */
export interface CallChannel {
  /** Tells the engine to stop working on a sample of the call; -1: on all of them. */
  readonly onAbort: (index: number) => void;
  /** The call is over: finished, failed or aborted. */
  readonly onEnd: () => void;
}

export class EmbeddingReader implements CallReader {
  readonly hasBegun = false; // there is one output, and it is the last
  readonly vector: Promise<Float32Array>;
  readonly #line: CallChannel;
  #resolve!: (vector: Float32Array) => void;
  #reject!: (error: Error) => void;

  constructor(line: CallChannel) {
    this.#line = line;
    this.vector = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  push({ note: { vector, error } }: SampleOutput): void {
    this.#line.onEnd();
    if (vector !== null) this.#resolve(vector);
    else this.#reject(errorFor(error?.code ?? "step_failed", error?.details ?? { reason: "no vector" }));
  }

  fail(error: PagodaError): void {
    this.#line.onEnd();
    this.#line.onAbort(-1);
    this.#reject(error);
  }
}
