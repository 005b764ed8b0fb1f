// An engine whose calls may come from another process, as tokens: what a replica of a cluster lends to its routers. Requests pass the
// same border as any caller's; answers leave as the engine gives them, before they become text.

import type { PrefixChange } from "../../cache/prefix-journal.js";
import type { PagodaError } from "../../core/errors.js";
import type { PagesTaken } from "../core/pages/page-exchange.js";
import type { EngineFacts, RequestKind, ResumedSample, TextFields } from "../messages.js";
import type { SampleOutput } from "../outputs.js";
import type { ServedEngine } from "../served-engine.js";
import type { GenerateOptions } from "../types.js";
import type { CallChannel, CallReader } from "./call-reader.js";

export interface RelayCall extends TextFields {
  readonly kind: RequestKind;
  readonly prompt: readonly number[];
  readonly options: GenerateOptions & { readonly id: string };
  readonly resumed: ResumedSample | null;
}

/** The fields of a call that its message has too. */
export function textFieldsOf({ pooling, secondStart }: TextFields): TextFields {
  return { ...(pooling === undefined ? {} : { pooling }), ...(secondStart === undefined ? {} : { secondStart }) };
}

/** Hears every output, the last of each sample with its reason, or why the call ends; `isLast`: nothing more comes. */
export type Deliver = (output: SampleOutput | PagodaError, isLast: boolean) => void;

export interface RelayEngine extends ServedEngine {
  readonly facts: EngineFacts;
  /** Tokens that end an answer, for those who compare engines. */
  readonly eosIds: readonly number[];
  /** Starts the threads of structured output, so that the first such request does not wait for them. */
  warm(): void;
  /** Starts a call. Returns the way to abort one sample of it, or all (-1). */
  relay(call: RelayCall, deliver: Deliver): (index: number) => void;
  /** The prompt's cached pages from page `from` on, as bytes for takePages() of an engine of the same identity. */
  lendPages(prompt: Int32Array, salt: string, from: number, maxBytes: number): Promise<Uint8Array>;
  takePages(prompt: Int32Array, salt: string, bytes: Uint8Array): Promise<PagesTaken>;
  /** Hears which prefixes are cached: all of them first (and after a restart of the thread), then changes. One listener. */
  watchPrefixes(listener: (change: PrefixChange) => void): void;
}

/** Passes outputs on; over when every sample has ended. */
export class RelayReader implements CallReader {
  hasBegun = false;
  readonly #line: CallChannel;
  readonly #deliver: Deliver;
  #numOpen: number;

  constructor(line: CallChannel, numSamples: number, deliver: Deliver) {
    this.#line = line;
    this.#numOpen = numSamples;
    this.#deliver = deliver;
  }

  push(output: SampleOutput): void {
    if (this.#numOpen === 0) return;
    this.hasBegun = true;
    if (output.note.error !== null) {
      this.#numOpen = 0;
      this.#line.onAbort(-1); // one failed sample ends the call, here as for callers at home
    } else if (output.note.finishReason !== null) this.#numOpen--;
    if (this.#numOpen === 0) this.#line.onEnd();
    this.#deliver(output, this.#numOpen === 0);
  }

  fail(error: PagodaError): void {
    if (this.#numOpen === 0) return;
    this.#numOpen = 0;
    this.#line.onEnd();
    this.#line.onAbort(-1);
    this.#deliver(error, true);
  }
}
