// gpt-oss: an answer is messages in channels. <|channel|>analysis<|message|>thoughts<|end|>, <|channel|>commentary to=functions.f
// <|constrain|>json<|message|>{...}<|call|>, <|channel|>final<|message|>text. The prompt has already opened the first message.

import { CallSink } from "./call-sink.js";
import type { ToolEvent, ToolFormat, ToolParser } from "./tool-format.js";

const MESSAGE = "<|message|>";
const ENDS = ["<|end|>", "<|call|>", "<|return|>", "<|start|>"];
/** What a header begins with; the prompt may have opened it. */
const HEADER_STARTS = ["<|", "to=", "assistant"];

/** Characters of a header; what is longer is none. It is looked at again with every token. */
const MOST_HEADER = 1024;

type Channel = "reasoning" | "text" | "call";

class HarmonyParser implements ToolParser {
  readonly #sink = new CallSink();
  #state: "header" | "body" = "header";
  #channel: Channel = "text";
  #hasHeader = false;
  /** The message is a call without a name: text, with its header and its end. */
  #isNameless = false;
  #held = "";

  push(text: string): ToolEvent[] {
    this.#held += text;
    while (this.#state === "header" ? this.#readHeader() : this.#readBody());
    return this.#sink.take();
  }

  flush(): ToolEvent[] {
    if (this.#state === "body" && this.#channel !== "call") this.#show(this.#held);
    else if (!this.#hasHeader) this.#sink.text(this.#held); // an answer without channels
    return this.#sink.take();
  }

  #readHeader(): boolean {
    const at = this.#held.indexOf(MESSAGE);
    if (at >= 0 && at <= MOST_HEADER) {
      const header = this.#held.slice(0, at);
      this.#held = this.#held.slice(at + MESSAGE.length);
      this.#open(header);
      return true;
    }
    // A model that speaks without a header just speaks.
    const rest = this.#held.trimStart();
    const isHeader = HEADER_STARTS.some((start) => rest.startsWith(start) || start.startsWith(rest));
    if ((this.#hasHeader || isHeader) && this.#held.length < MOST_HEADER + MESSAGE.length) return false;
    this.#channel = "text";
    this.#state = "body";
    return this.#held !== "";
  }

  #open(header: string): void {
    const recipient = /to=(?:functions\.([\w.-]*)|([\w.-]+))/.exec(header);
    const name = recipient?.[1] ?? recipient?.[2] ?? "assistant";
    const channel = /<\|channel\|>\s*(\w+)/.exec(header)?.[1];
    this.#hasHeader = true;
    this.#state = "body";
    this.#isNameless = name === "";
    if (name !== "" && name !== "assistant") {
      this.#channel = "call";
      this.#sink.call(name);
    } else this.#channel = channel === "analysis" && !this.#isNameless ? "reasoning" : "text";
    if (this.#isNameless) this.#sink.text(header + MESSAGE);
  }

  #readBody(): boolean {
    let end = -1;
    let marker = "";
    for (const candidate of ENDS) {
      const at = this.#held.indexOf(candidate);
      if (at >= 0 && (end < 0 || at < end)) {
        end = at;
        marker = candidate;
      }
    }
    if (end >= 0) {
      const isOfMessage = this.#isNameless && marker !== "<|start|>";
      this.#show(this.#held.slice(0, isOfMessage ? end + marker.length : end));
      this.#held = this.#held.slice(end + marker.length);
      this.#state = "header";
      return this.#held !== "";
    }
    let sure = this.#held.length;
    const open = this.#held.lastIndexOf("<");
    if (open >= 0 && ENDS.some((candidate) => candidate.startsWith(this.#held.slice(open)))) sure = open;
    this.#show(this.#held.slice(0, sure));
    this.#held = this.#held.slice(sure);
    return false;
  }

  #show(text: string): void {
    if (this.#channel === "call") this.#sink.arguments(text);
    else if (this.#channel === "reasoning") this.#sink.reasoning(text);
    else this.#sink.text(text);
  }
}

export const HARMONY: ToolFormat = {
  name: "harmony",
  needsSpecialTokens: true,
  shape: null,
  partsReasoning: true,
  createParser: () => new HarmonyParser(),
};
