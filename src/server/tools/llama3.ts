// Llama 3: the answer is a call or it is not. {"name": ..., "parameters": {...}}, perhaps after <|python_tag|>, several separated
// by semicolons. An answer that begins with another JSON object is text.

import { CallReader, pushText } from "./call-reader.js";
import { isSpace } from "./call-scanner.js";
import type { ToolEvent, ToolFormat, ToolParser, ToolSet } from "./tool-format.js";

const TAG = "<|python_tag|>";

class Llama3Parser implements ToolParser {
  readonly #reader: CallReader;
  #state: "start" | "call" | "between" | "text" = "start";
  #held = "";

  constructor({ names }: ToolSet) {
    this.#reader = new CallReader(names);
  }

  push(text: string): ToolEvent[] {
    const events: ToolEvent[] = [];
    this.#held += text;
    while (this.#held !== "" && this.#advance(events));
    return events;
  }

  flush(): ToolEvent[] {
    const events: ToolEvent[] = [];
    if (this.#state === "call") pushText(events, this.#reader.reset());
    else if (this.#state !== "between") pushText(events, this.#held);
    return events;
  }

  #advance(events: ToolEvent[]): boolean {
    switch (this.#state) {
      case "start": {
        const rest = this.#held.trimStart();
        if (TAG.startsWith(rest)) return false; // also nothing but white space yet
        const body = rest.startsWith(TAG) ? rest.slice(TAG.length).trimStart() : rest;
        if (body === "") return false;
        if (body[0] === "{") this.#held = body;
        this.#state = body[0] === "{" ? "call" : "text";
        return true;
      }
      case "call": {
        const { at, status } = this.#reader.read(this.#held, 0, events);
        this.#held = this.#held.slice(at);
        if (status === "more") return false;
        const raw = this.#reader.reset();
        if (status === "invalid") this.#held = raw + this.#held;
        this.#state = status === "done" ? "between" : "text";
        return true;
      }
      case "between": {
        let at = 0;
        while (at < this.#held.length && (isSpace(this.#held[at]!) || this.#held[at] === ";" || this.#held[at] === ","))
          at++;
        this.#held = this.#held.slice(at);
        if (this.#held === "") return false;
        this.#state = this.#held[0] === "{" ? "call" : "text";
        return true;
      }
      case "text":
        pushText(events, this.#held);
        this.#held = "";
        return false;
    }
  }
}

export const LLAMA3: ToolFormat = {
  name: "llama3",
  needsSpecialTokens: true,
  shape: { open: "", separator: "; ", close: "", argumentsKey: "parameters", before: "", after: "" },
  createParser: (tools) => new Llama3Parser(tools),
};
