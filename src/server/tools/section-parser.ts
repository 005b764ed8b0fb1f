// Text in which calls stand between markers: outside them it is shown as it comes, inside a body reads it.

import { partialTagLen } from "./call-reader.js";
import { CallSink } from "./call-sink.js";
import type { ToolEvent, ToolParser } from "./tool-format.js";

export interface Taken {
  /** What is left of the text. */
  readonly rest: string;
  /** go: take again; wait: more text is needed; done: the rest is text again. */
  readonly next: "go" | "wait" | "done";
}

/** Reads what stands after an opening marker. */
export interface CallBody {
  take(text: string, sink: CallSink): Taken;
  /**
   * The answer ends here, with `rest` not taken. Where no call came of it, all of it is shown as text; else the rest is the
   * beginning of a marker, and no part of an argument.
   */
  end(rest: string, sink: CallSink): void;
}

export class SectionParser implements ToolParser {
  readonly #open: string;
  readonly #createBody: () => CallBody;
  readonly #sink = new CallSink();
  #body: CallBody | null = null;
  #held = "";

  constructor(open: string, createBody: () => CallBody) {
    this.#open = open;
    this.#createBody = createBody;
  }

  push(text: string): ToolEvent[] {
    this.#held += text;
    while (this.#body === null ? this.#readText() : this.#readBody(this.#body));
    return this.#sink.take();
  }

  flush(): ToolEvent[] {
    if (this.#body === null) this.#sink.text(this.#held);
    else this.#body.end(this.#held, this.#sink);
    return this.#sink.take();
  }

  #readText(): boolean {
    const held = this.#held;
    const at = held.indexOf(this.#open);
    if (at >= 0) {
      this.#sink.text(held.slice(0, at).trimEnd());
      this.#held = held.slice(at + this.#open.length);
      this.#body = this.#createBody();
      return true;
    }
    // White space is held too: it may only separate calls.
    const sure = held.slice(0, held.length - partialTagLen(held, this.#open)).trimEnd().length;
    this.#sink.text(held.slice(0, sure));
    this.#held = held.slice(sure);
    return false;
  }

  #readBody(body: CallBody): boolean {
    const { rest, next } = body.take(this.#held, this.#sink);
    this.#held = rest;
    if (next === "done") this.#body = null;
    return next !== "wait" && rest !== "";
  }
}
