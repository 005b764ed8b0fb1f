// Hermes and Qwen: <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>, any number of them, text before and between.

import { CallReader, partialTagLen, pushText } from "./call-reader.js";
import type { ToolEvent, ToolFormat, ToolParser } from "./tool-format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

class HermesParser implements ToolParser {
  readonly #reader = new CallReader(null);
  #state: "text" | "call" | "closing" = "text";
  #held = "";
  #isAfterCall = false;

  push(text: string): ToolEvent[] {
    const events: ToolEvent[] = [];
    this.#held += text;
    while (this.#advance(events));
    return events;
  }

  flush(): ToolEvent[] {
    const events: ToolEvent[] = [];
    if (this.#state === "text") this.#showText(events, this.#held);
    else if (this.#state === "call") {
      const raw = this.#reader.reset();
      if (raw !== "") pushText(events, OPEN + raw);
    }
    return events;
  }

  #advance(events: ToolEvent[]): boolean {
    if (this.#held === "") return false;
    switch (this.#state) {
      case "text":
        return this.#readText(events);
      case "call":
        return this.#readCall(events);
      case "closing":
        return this.#readClosing();
    }
  }

  #readText(events: ToolEvent[]): boolean {
    const at = this.#held.indexOf(OPEN);
    if (at >= 0) {
      this.#showText(events, this.#held.slice(0, at).trimEnd());
      this.#held = this.#held.slice(at + OPEN.length);
      this.#state = "call";
      return true;
    }
    // White space is held too: it may only separate calls.
    const sure = this.#held.slice(0, this.#held.length - partialTagLen(this.#held, OPEN)).trimEnd().length;
    this.#showText(events, this.#held.slice(0, sure));
    this.#held = this.#held.slice(sure);
    return false;
  }

  /** White space beside a call separates; elsewhere it is text. */
  #showText(events: ToolEvent[], text: string): void {
    const shown = this.#isAfterCall ? text.trimStart() : text;
    if (shown === "") return;
    pushText(events, shown);
    this.#isAfterCall = false;
  }

  #readCall(events: ToolEvent[]): boolean {
    const { at, status } = this.#reader.read(this.#held, 0, events);
    this.#held = this.#held.slice(at);
    if (status === "more") return false;
    const raw = this.#reader.reset();
    if (status === "invalid" && raw !== "") {
      pushText(events, OPEN + raw);
      this.#state = "text";
    } else {
      this.#state = "closing";
      this.#isAfterCall = true;
    }
    return true;
  }

  /** The closing tag; a model that forgets it goes on with text. */
  #readClosing(): boolean {
    const rest = this.#held.trimStart();
    if (CLOSE.startsWith(rest) && rest !== CLOSE) return false;
    if (rest.startsWith(CLOSE)) this.#held = rest.slice(CLOSE.length);
    this.#state = "text";
    return true;
  }
}

export const HERMES: ToolFormat = {
  name: "hermes",
  needsSpecialTokens: false,
  shape: { open: `${OPEN}\n`, separator: "\n", close: `\n${CLOSE}`, argumentsKey: "arguments", before: "", after: "" },
  createParser: () => new HermesParser(),
};
