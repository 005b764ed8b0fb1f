// Mistral: [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...] in older models, [TOOL_CALLS]name[ARGS]{...} in newer ones.
// Forced calls come as the bare list, since the marker is a special token that no grammar can ask for.

import { CallReader, partialTagLen, pushText } from "./call-reader.js";
import { isSpace, ValueScanner } from "./call-scanner.js";
import type { ToolEvent, ToolFormat, ToolParser, ToolSet } from "./tool-format.js";

const TAG = "[TOOL_CALLS]";
const ARGS = "[ARGS]";

class MistralParser implements ToolParser {
  readonly #reader: CallReader;
  readonly #bareReader: CallReader;
  #state: "start" | "text" | "tagged" | "list" | "call" | "between" | "name" | "arguments" | "after" = "start";
  #held = "";
  #value = new ValueScanner();
  #taken = 0;
  /** The list came without the marker: it is one only if it names a known tool. */
  #isBare = false;

  constructor({ names }: ToolSet) {
    this.#reader = new CallReader(null);
    this.#bareReader = new CallReader(names);
  }

  push(text: string): ToolEvent[] {
    const events: ToolEvent[] = [];
    this.#held += text;
    while (this.#held !== "" && this.#advance(events));
    return events;
  }

  flush(): ToolEvent[] {
    const events: ToolEvent[] = [];
    if (this.#state === "call") {
      const raw = this.#active.reset();
      if (raw !== "") pushText(events, this.#isBare ? `[${raw}` : raw);
    } else if (this.#state === "text" || this.#state === "start") pushText(events, this.#held);
    else if (this.#state === "name") pushText(events, TAG + this.#held);
    return events;
  }

  get #active(): CallReader {
    return this.#isBare ? this.#bareReader : this.#reader;
  }

  #advance(events: ToolEvent[]): boolean {
    switch (this.#state) {
      case "start":
        return this.#readStart();
      case "text":
        return this.#readText(events);
      case "tagged":
        return this.#skipTo((char) => (char === "[" || char === "{" ? "list" : "name"));
      case "list":
        return this.#readList();
      case "call":
        return this.#readCall(events);
      case "between":
        return this.#readBetween();
      case "name":
        return this.#readName(events);
      case "arguments":
        return this.#readArguments(events);
      case "after":
        return this.#readAfter();
    }
  }

  /** A list of objects at the very beginning may be forced calls. */
  #readStart(): boolean {
    const rest = this.#held.trimStart();
    if (rest === "" || /^\[\s*$/.test(rest)) return false;
    const list = /^\[\s*(?=\{)/.exec(rest);
    this.#isBare = list !== null;
    if (list !== null) this.#held = rest.slice(list[0].length);
    this.#state = list === null ? "text" : "call";
    return true;
  }

  #readText(events: ToolEvent[]): boolean {
    const at = this.#held.indexOf(TAG);
    const end = at >= 0 ? at : this.#held.length - partialTagLen(this.#held, TAG);
    // White space is held too: it may only separate text and calls.
    const sure = this.#held.slice(0, end).trimEnd().length;
    pushText(events, this.#held.slice(0, sure));
    this.#held = this.#held.slice(at >= 0 ? at + TAG.length : sure);
    if (at < 0) return false;
    this.#isBare = false;
    this.#state = "tagged";
    return true;
  }

  #readList(): boolean {
    return this.#skipTo((char) => {
      if (char === "[" || char === ",") {
        this.#held = this.#held.slice(1);
        return "list";
      }
      if (char === "{") return "call";
      if (char === "]") this.#held = this.#held.slice(1);
      return "after";
    });
  }

  #readCall(events: ToolEvent[]): boolean {
    const { at, status } = this.#active.read(this.#held, 0, events);
    this.#held = this.#held.slice(at);
    if (status === "more") return false;
    const raw = this.#active.reset();
    if (status === "invalid") pushText(events, this.#isBare ? `[${raw}` : raw);
    this.#state = status === "done" ? "between" : "text";
    return true;
  }

  /** After a call by name and arguments: the next one of its list, the list's end, or what begins with a marker of its own. */
  #readBetween(): boolean {
    return this.#skipTo((char) => {
      if (char === "{") return "call";
      if (char === "," || char === "]") this.#held = this.#held.slice(1);
      return char === "," ? "list" : "after";
    });
  }

  #readName(events: ToolEvent[]): boolean {
    const brace = this.#held.indexOf("{");
    if (brace < 0) return false;
    const name = this.#held.slice(0, brace).replace(ARGS, "").trim();
    this.#held = this.#held.slice(brace);
    this.#reader.begin(name, events);
    this.#value = new ValueScanner();
    this.#taken = 0;
    this.#state = "arguments";
    return true;
  }

  #readArguments(events: ToolEvent[]): boolean {
    let at = 0;
    let isOver = false;
    while (at < this.#held.length && !isOver) isOver = this.#value.push(this.#held[at++]!) === "end";
    this.#held = this.#held.slice(at);
    const text = this.#value.text.slice(this.#taken);
    this.#taken = this.#value.text.length;
    if (text !== "") events.push({ kind: "arguments", index: this.#reader.numCalls - 1, text });
    if (isOver) this.#state = "after";
    return isOver;
  }

  /** Between calls of the newer form, or after the list: another marker, or text. */
  #readAfter(): boolean {
    const rest = this.#held.trimStart();
    this.#held = rest;
    if (rest === "" || (TAG.startsWith(rest) && rest !== TAG)) return false;
    this.#state = "text";
    return true;
  }

  #skipTo(choose: (char: string) => "list" | "call" | "name" | "after"): boolean {
    let at = 0;
    while (at < this.#held.length && isSpace(this.#held[at]!)) at++;
    this.#held = this.#held.slice(at);
    if (this.#held === "") return false;
    this.#state = choose(this.#held[0]!);
    return true;
  }
}

export const MISTRAL: ToolFormat = {
  name: "mistral",
  needsSpecialTokens: true,
  shape: { open: "", separator: ", ", close: "", argumentsKey: "arguments", before: "[", after: "]" },
  createParser: (tools) => new MistralParser(tools),
};
