// Calls without a marker, at the beginning of an answer: objects, of which each is a call if it names a known tool, else text.

import { CallReader } from "./call-reader.js";
import type { CallSink } from "./call-sink.js";

export class BareCalls {
  readonly #reader: CallReader;
  readonly #sink: CallSink;
  /** Matches what may stand between two objects, at the beginning of a text. */
  readonly #separator: RegExp;
  #isInObject = true;

  constructor(toolNames: ReadonlySet<string>, separator: RegExp, sink: CallSink) {
    this.#reader = new CallReader(toolNames);
    this.#separator = separator;
    this.#sink = sink;
  }

  /** Takes text that begins with an object; what comes after the last one, once there is something. */
  take(text: string): string | null {
    let rest = text;
    while (rest !== "") {
      if (this.#isInObject) {
        const read = this.#reader.read(rest, this.#sink);
        rest = read.rest;
        if (read.status === "more") return null;
        this.#showObject();
        if (read.status === "broken") return rest;
        this.#isInObject = false;
      } else {
        const separator = this.#separator.exec(rest)![0];
        // After a call it separates; after text it is text too, unless a call follows.
        if (!this.#sink.isAfterCall) this.#sink.hold(separator);
        rest = rest.slice(separator.length);
        this.#isInObject = rest[0] === "{";
        if (rest !== "" && !this.#isInObject) return rest;
      }
    }
    return null;
  }

  /** The answer ends here. */
  end(): void {
    this.#showObject();
    this.#sink.release();
  }

  #showObject(): void {
    if (!this.#reader.isCall) this.#sink.text(this.#reader.raw);
    this.#reader.reset();
  }
}
