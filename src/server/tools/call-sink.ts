// Where parsers put what they find: text and calls with running indices, as events.

import type { ToolEvent } from "./tool-format.js";

export class CallSink {
  #events: ToolEvent[] = [];
  #index = -1;
  #isAfterCall = false;

  /** White space beside a call separates; elsewhere it is text. */
  text(text: string): void {
    const shown = this.#isAfterCall ? text.trimStart() : text;
    if (shown === "") return;
    this.#isAfterCall = false;
    this.#events.push({ kind: "text", text: shown });
  }

  reasoning(text: string): void {
    if (text !== "") this.#events.push({ kind: "reasoning", text });
  }

  call(name: string): void {
    this.#isAfterCall = true;
    this.#events.push({ kind: "call", index: ++this.#index, name });
  }

  /** More of the last call's arguments. */
  arguments(text: string): void {
    if (text !== "") this.#events.push({ kind: "arguments", index: this.#index, text });
  }

  take(): ToolEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}
