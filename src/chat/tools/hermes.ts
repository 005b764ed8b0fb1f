// Hermes and Qwen: <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>, any number of them, text before and between.

import { CallReader } from "./call-reader.js";
import type { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { isFarOff } from "./tags.js";
import type { ToolFormat } from "./tool-format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

class HermesBody implements CallBody {
  readonly #reader = new CallReader(null);
  #isClosing = false;

  get isEmpty(): boolean {
    return this.#reader.raw === "";
  }

  take(text: string, sink: CallSink): Taken {
    if (this.#isClosing) return this.#takeClosing(text);
    const { rest, status } = this.#reader.read(text, sink);
    if (status === "more") return { rest, next: "wait" };
    this.#isClosing = this.#reader.isCall;
    return { rest, next: this.#isClosing ? "go" : "done" };
  }

  /** The closing tag; a model that forgets it goes on with text. */
  #takeClosing(text: string): Taken {
    const rest = text.trimStart();
    if (isFarOff(text, rest)) return { rest: text, next: "done" };
    if (CLOSE.startsWith(rest) && rest !== CLOSE) return { rest: text, next: "wait" };
    return { rest: rest.startsWith(CLOSE) ? rest.slice(CLOSE.length) : text, next: "done" };
  }
}

export const HERMES: ToolFormat = {
  name: "hermes",
  needsSpecialTokens: false,
  shape: { open: `${OPEN}\n`, separator: "\n", close: `\n${CLOSE}`, argumentsKey: "arguments", before: "", after: "" },
  createParser: () => new SectionParser(OPEN, () => new HermesBody()),
};
