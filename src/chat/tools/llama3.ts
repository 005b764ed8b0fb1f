// Llama 3: the answer is a call or it is not. {"name": ..., "parameters": {...}}, perhaps after <|python_tag|>, several separated
// by semicolons. Objects that name no tool are text.

import { BareCalls } from "./bare-calls.js";
import { CallSink } from "./call-sink.js";
import { isFarOff } from "./tags.js";
import type { ToolEvent, ToolFormat, ToolParser, ToolSet } from "./tool-format.js";

const TAG = "<|python_tag|>";

class Llama3Parser implements ToolParser {
  readonly #sink = new CallSink();
  readonly #calls: BareCalls;
  #state: "start" | "calls" | "text" = "start";
  #held = "";

  constructor({ names }: ToolSet) {
    this.#calls = new BareCalls(names, /^[\s;,]*/, this.#sink);
  }

  push(text: string): ToolEvent[] {
    this.#held += text;
    if (this.#state === "start") this.#readStart();
    if (this.#state === "calls") this.#readCalls();
    if (this.#state === "text") this.#showHeld();
    return this.#sink.take();
  }

  flush(): ToolEvent[] {
    if (this.#state === "calls") this.#calls.end();
    else this.#showHeld();
    return this.#sink.take();
  }

  #readStart(): void {
    const rest = this.#held.trimStart();
    const inner = rest.startsWith(TAG) ? rest.slice(TAG.length) : rest;
    const body = inner.trimStart();
    const isText = isFarOff(this.#held, rest) || isFarOff(inner, body);
    if (!isText && (TAG.startsWith(rest) || body === "")) return; // also nothing but white space yet
    this.#state = !isText && body[0] === "{" ? "calls" : "text";
    if (this.#state === "text") return;
    this.#sink.hold(this.#held.slice(0, this.#held.length - body.length));
    this.#held = body;
  }

  #readCalls(): void {
    const rest = this.#calls.take(this.#held);
    this.#held = rest ?? "";
    if (rest !== null) this.#state = "text";
  }

  #showHeld(): void {
    this.#sink.text(this.#held);
    this.#held = "";
  }
}

export const LLAMA3: ToolFormat = {
  name: "llama3",
  needsSpecialTokens: true,
  shape: { open: "", separator: "; ", close: "", argumentsKey: "parameters", before: "", after: "" },
  createParser: (tools) => new Llama3Parser(tools),
};
