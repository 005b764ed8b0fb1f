// Calls between marker tokens, the name before the arguments' JSON object: DeepSeek V3, R1 and V3.1, Kimi K2.

import { ValueScanner } from "./call-scanner.js";
import type { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { firstTag, TagWatch } from "./tags.js";
import type { ToolFormat } from "./tool-format.js";

interface Markers {
  readonly open: string;
  readonly close: string;
  readonly call: string;
  readonly callEnd: string;
  /** Between what names the call and its arguments. */
  readonly separator: string;
  /** The name, given what stands before the separator and between it and the arguments; "" where there is none. */
  nameOf(before: string, after: string): string;
}

type State = "section" | "head" | "arguments" | "tail";

class MarkedBody implements CallBody {
  readonly #markers: Markers;
  #state: State = "section";
  #value = new ValueScanner();
  #hasHeads = false;
  #isClosed = false;

  constructor(markers: Markers) {
    this.#markers = markers;
  }

  get isInCall(): boolean {
    return this.#state !== "section";
  }

  get isEmpty(): boolean {
    return this.#isClosed && !this.#hasHeads;
  }

  take(text: string, sink: CallSink): Taken {
    switch (this.#state) {
      case "section": {
        const { call, close } = this.#markers;
        const rest = text.trimStart();
        if (rest.startsWith(call)) return this.#go("head", rest);
        this.#isClosed = rest.startsWith(close);
        if (this.#isClosed) return { rest: rest.slice(close.length), next: "done" };
        return { rest, next: call.startsWith(rest) || close.startsWith(rest) ? "wait" : "done" };
      }
      case "head":
        return this.#takeHead(text, sink);
      case "arguments": {
        let at = 0;
        let status: "more" | "end" | "past" = "more";
        while (at < text.length && status === "more") status = this.#value.push(text[at++]!);
        sink.arguments(text.slice(0, at));
        return status === "more" ? { rest: "", next: "wait" } : this.#go("tail", text.slice(at));
      }
      case "tail":
        return this.#takeEnd(text, 0, text.length) ?? this.#waitFor(text, []);
    }
  }

  #takeHead(text: string, sink: CallSink): Taken {
    const { call, separator, nameOf } = this.#markers;
    this.#hasHeads = true;
    const at = text.indexOf(separator);
    const brace = at < 0 ? -1 : text.indexOf("{", at);
    // Without an object it is no call, and the next one's is not its own.
    const end = this.#takeEnd(text, call.length, brace < 0 ? text.length : brace);
    if (end !== null) return end;
    if (brace < 0) return this.#waitFor(text, [at < 0 ? separator : "{"]);
    sink.call(nameOf(text.slice(call.length, at).trim(), text.slice(at + separator.length, brace).trim()));
    this.#value = new ValueScanner();
    return this.#go("arguments", text.slice(brace));
  }

  /** The end of a call between two places of the text. Models forget it before the next one or before the end of all. */
  #takeEnd(text: string, start: number, limit: number): Taken | null {
    const { call, callEnd, close } = this.#markers;
    const found = firstTag(text, [callEnd, call, close], start);
    if (found === null || found.at >= limit) return null;
    return this.#go("section", text.slice(found.tag === callEnd ? found.at + callEnd.length : found.at));
  }

  /** Until one of these, or the end of the call. */
  #waitFor(text: string, tags: readonly string[]): Taken {
    const { call, callEnd, close } = this.#markers;
    return { rest: text, next: "wait", until: new TagWatch([...tags, callEnd, call, close], text) };
  }

  #go(state: State, rest: string): Taken {
    this.#state = state;
    return { rest, next: "go" };
  }
}

function markedFormat(name: string, markers: Markers): ToolFormat {
  return {
    name,
    needsSpecialTokens: true,
    shape: null,
    createParser: () => new SectionParser(markers.open, () => new MarkedBody(markers)),
  };
}

export const DEEPSEEK = markedFormat("deepseek", {
  open: "<｜tool▁calls▁begin｜>",
  close: "<｜tool▁calls▁end｜>",
  call: "<｜tool▁call▁begin｜>",
  callEnd: "<｜tool▁call▁end｜>",
  separator: "<｜tool▁sep｜>",
  // V3: function<sep>name, then the object in a fenced block. V3.1: name<sep>object.
  nameOf: (before, after) => {
    const line = after.split("\n")[0]!.trim();
    return after === "" ? before : line.startsWith("```") ? "" : line;
  },
});

export const KIMI = markedFormat("kimi", {
  open: "<|tool_calls_section_begin|>",
  close: "<|tool_calls_section_end|>",
  call: "<|tool_call_begin|>",
  callEnd: "<|tool_call_end|>",
  separator: "<|tool_call_argument_begin|>",
  // functions.name:0
  nameOf: (before) => before.replace(/^functions\./, "").replace(/:\d+$/, ""),
});
