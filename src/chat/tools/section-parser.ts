// Text in which calls stand between markers: outside them it is shown as it comes, inside a body reads it. Where no call comes of a
// section, all of it is text, markers and white space included; beside calls only what looks like one and has no name.

import { CallSink } from "./call-sink.js";
import { partialTagLen, textLen, type Watch } from "./tags.js";
import type { ToolEvent, ToolParser } from "./tool-format.js";

export interface Taken {
  /** What is left of the text: an end of it. */
  readonly rest: string;
  /** go: take again; wait: more text is needed; done: the rest is text again. */
  readonly next: "go" | "wait" | "done";
  /** Of a body that waits: until this is seen more text changes nothing, and is not looked at. Left out: every piece may. */
  readonly until?: Watch;
}

/** Reads what stands after an opening marker. */
export interface CallBody {
  /** In sections of several calls: what is taken next belongs to a call. No step takes beyond a call's beginning or its end. */
  readonly isInCall?: boolean;
  /** Nothing stood in the section: its markers are no text. */
  readonly isEmpty?: boolean;
  take(text: string, sink: CallSink): Taken;
  /** The answer ends here, after calls and with `rest` not taken: the beginning of a marker, and no part of an argument. */
  end?(rest: string, sink: CallSink): void;
}

export class SectionParser implements ToolParser {
  readonly #open: string;
  readonly #createBody: () => CallBody;
  readonly #sink: CallSink;
  #body: CallBody | null = null;
  #held = "";
  #until: Watch | undefined;
  /** Calls before the section, and before the call under way. */
  #numBeforeSection = 0;
  #numBeforeCall = 0;
  /** Of the call under way, as long as it has no name. */
  #call = "";

  constructor(open: string, createBody: () => CallBody, sink = new CallSink()) {
    this.#open = open;
    this.#createBody = createBody;
    this.#sink = sink;
  }

  push(text: string): ToolEvent[] {
    this.#held += text;
    if (this.#until?.sees(text) === false) return this.#sink.take();
    while (this.#body === null ? this.#readText() : this.#readBody(this.#body));
    return this.#sink.take();
  }

  flush(): ToolEvent[] {
    if (this.#body === null) this.#sink.text(this.#held);
    else this.#end(this.#body);
    return this.#sink.take();
  }

  #readText(): boolean {
    const held = this.#held;
    const at = held.indexOf(this.#open);
    // White space is held too: it may only separate calls.
    const end = at >= 0 ? at : held.length - partialTagLen(held, this.#open);
    const sure = textLen(held, end);
    this.#sink.text(held.slice(0, sure));
    if (at < 0) {
      this.#held = held.slice(sure);
      return false;
    }
    const start = at + this.#open.length;
    this.#sink.hold(held.slice(sure, start));
    this.#held = held.slice(start);
    this.#body = this.#createBody();
    this.#numBeforeSection = this.#sink.numCalls;
    return true;
  }

  #readBody(body: CallBody): boolean {
    const wasInCall = body.isInCall === true;
    const { rest, next, until } = body.take(this.#held, this.#sink);
    this.#until = until;
    this.#record(this.#held.slice(0, this.#held.length - rest.length), wasInCall);
    this.#held = rest;
    const isInCall = body.isInCall === true;
    if (wasInCall && !isInCall) this.#endCall();
    else if (isInCall && !wasInCall) this.#numBeforeCall = this.#sink.numCalls;
    if (next === "done") this.#close(body);
    return next !== "wait" && rest !== "";
  }

  get #hasCalls(): boolean {
    return this.#sink.numCalls > this.#numBeforeSection;
  }

  #record(read: string, isOfCall: boolean): void {
    if (!isOfCall) {
      if (!this.#hasCalls) this.#sink.hold(read);
    } else if (this.#sink.numCalls === this.#numBeforeCall) this.#call += read;
  }

  #endCall(): void {
    if (this.#sink.numCalls === this.#numBeforeCall) {
      if (this.#hasCalls) this.#sink.text(this.#call);
      else this.#sink.hold(this.#call, this.#call);
    }
    this.#call = "";
    this.#sink.endCall();
  }

  #close(body: CallBody): void {
    if (body.isEmpty) this.#sink.forget();
    else this.#sink.release();
    this.#sink.endCall();
    this.#body = null;
  }

  /** Of a call that is cut before its name is known nothing is shown beside others. */
  #end(body: CallBody): void {
    const isOfCall = body.isInCall === true && (this.#sink.isNameless || !this.#hasCalls);
    if (this.#hasCalls && !isOfCall) body.end?.(this.#held, this.#sink);
    this.#record(this.#held, isOfCall);
    if (isOfCall) this.#endCall();
    this.#close(body);
  }
}
