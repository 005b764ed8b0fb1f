// What the parsers of calls as JSON objects share: one object after another through the scanner, as a call if it names one.

import { CallScanner } from "./call-scanner.js";
import type { CallSink } from "./call-sink.js";

export class CallReader {
  readonly #toolNames: ReadonlySet<string> | null;
  #scanner = new CallScanner();
  #isCall = false;

  /** With `toolNames`, an object that names none of them is not a call. */
  constructor(toolNames: ReadonlySet<string> | null) {
    this.#toolNames = toolNames;
  }

  /** The object under way is a call, and out as one. */
  get isCall(): boolean {
    return this.#isCall;
  }

  /** What was read of the object under way. */
  get raw(): string {
    return this.#scanner.raw;
  }

  /** Reads on; what is left of the text, and whether the object is whole or broken. */
  read(text: string, sink: CallSink): { rest: string; status: "more" | "done" | "broken" } {
    const scanner = this.#scanner;
    const rest = text.slice(scanner.push(text, 0));
    if (!this.#isCall && scanner.name !== null && this.#isKnown(scanner.name)) this.#isCall = sink.call(scanner.name);
    if (this.#isCall) sink.arguments(scanner.takeArguments());
    return { rest, status: scanner.isDone ? "done" : scanner.isInvalid ? "broken" : "more" };
  }

  /** Forgets the object under way. */
  reset(): void {
    this.#scanner = new CallScanner();
    this.#isCall = false;
  }

  #isKnown(name: string): boolean {
    return this.#toolNames === null || this.#toolNames.has(name);
  }
}
