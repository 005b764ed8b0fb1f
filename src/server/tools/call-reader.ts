// What the parsers of all formats share: one call after another through the scanner, turned into events with running indices.

import { CallScanner } from "./call-scanner.js";
import type { ToolEvent } from "./tool-format.js";

export class CallReader {
  readonly #toolNames: ReadonlySet<string> | null;
  #scanner = new CallScanner();
  #index = -1;
  #hasBegun = false;

  /** With `toolNames`, an object that names none of them is not a call. */
  constructor(toolNames: ReadonlySet<string> | null) {
    this.#toolNames = toolNames;
  }

  get numCalls(): number {
    return this.#index + 1;
  }

  /** Reads from `start` on; returns where it stopped and how it stands. */
  read(text: string, start: number, events: ToolEvent[]): { at: number; status: "more" | "done" | "invalid" } {
    const scanner = this.#scanner;
    const at = scanner.push(text, start);
    if (!this.#hasBegun && scanner.name !== null && this.#isKnown(scanner.name)) {
      this.#hasBegun = true;
      events.push({ kind: "call", index: ++this.#index, name: scanner.name });
    }
    if (this.#hasBegun) {
      const text = scanner.takeArguments();
      if (text !== "") events.push({ kind: "arguments", index: this.#index, text });
    }
    if (!scanner.isDone && !scanner.isInvalid) return { at, status: "more" };
    return { at, status: scanner.isDone && this.#hasBegun ? "done" : "invalid" };
  }

  /** A call whose arguments are written apart from its name. */
  begin(name: string, events: ToolEvent[]): void {
    events.push({ kind: "call", index: ++this.#index, name });
  }

  /** Forgets the object under way and gives back its text, unless part of it is already out as a call. */
  reset(): string {
    const text = this.#hasBegun ? "" : this.#scanner.raw;
    this.#scanner = new CallScanner();
    this.#hasBegun = false;
    return text;
  }

  #isKnown(name: string): boolean {
    return this.#toolNames === null || this.#toolNames.has(name);
  }
}

/** Length of the longest end of `text` that is a beginning of `tag`. */
export function partialTagLen(text: string, tag: string): number {
  for (let length = Math.min(text.length, tag.length - 1); length > 0; length--) {
    if (text.endsWith(tag.slice(0, length))) return length;
  }
  return 0;
}

export function pushText(events: ToolEvent[], text: string): void {
  if (text !== "") events.push({ kind: "text", text });
}
