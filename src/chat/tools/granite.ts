// Granite 3: <|tool_call|> and a JSON list of {"name": ..., "arguments": {...}}; Phi 4 mini closes it with <|/tool_call|>. (Granite 4
// writes as Hermes does.)

import { CallReader } from "./call-reader.js";
import type { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { isFarOff } from "./tags.js";
import type { ToolFormat } from "./tool-format.js";

const OPEN = "<|tool_call|>";
const CLOSE = "<|/tool_call|>";

class ListBody implements CallBody {
  readonly #reader = new CallReader(null);
  #state: "start" | "list" | "object" | "over" = "start";
  #hasObjects = false;

  get isInCall(): boolean {
    return this.#state === "object";
  }

  get isEmpty(): boolean {
    return this.#state === "over" && !this.#hasObjects;
  }

  take(text: string, sink: CallSink): Taken {
    if (this.#state === "object") return this.#takeObject(text, sink);
    const rest = text.trimStart();
    if (isFarOff(text, rest)) return { rest: text, next: "done" };
    if (rest === "") return { rest: text, next: "wait" };
    switch (this.#state) {
      case "start":
        return rest[0] === "[" ? this.#go("list", rest.slice(1)) : { rest: text, next: "done" };
      case "list":
        if (rest[0] === ",") return this.#go("list", rest.slice(1));
        if (rest[0] === "]") return this.#go("over", rest.slice(1));
        this.#hasObjects = true;
        return this.#go("object", rest);
      case "over":
        if (rest.startsWith(CLOSE)) return { rest: rest.slice(CLOSE.length), next: "done" };
        return { rest: text, next: CLOSE.startsWith(rest) ? "wait" : "done" };
    }
  }

  #takeObject(text: string, sink: CallSink): Taken {
    const { rest, status } = this.#reader.read(text, sink);
    if (status === "more") return { rest, next: "wait" };
    this.#reader.reset();
    this.#state = "list";
    return { rest, next: status === "done" ? "go" : "done" };
  }

  #go(state: "list" | "object" | "over", rest: string): Taken {
    this.#state = state;
    return { rest, next: "go" };
  }
}

export const GRANITE: ToolFormat = {
  name: "granite",
  needsSpecialTokens: true,
  shape: null,
  createParser: () => new SectionParser(OPEN, () => new ListBody()),
};
