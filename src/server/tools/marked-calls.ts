// Calls between marker tokens, the name before the arguments' JSON object: DeepSeek V3, R1 and V3.1, Kimi K2.

import { ValueScanner } from "./call-scanner.js";
import type { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import type { ToolFormat } from "./tool-format.js";

interface Markers {
  readonly open: string;
  readonly close: string;
  readonly call: string;
  readonly callEnd: string;
  /** Between what names the call and its arguments. */
  readonly separator: string;
  /** The name, given what stands before the separator and between it and the arguments. */
  nameOf(before: string, after: string): string;
}

class MarkedBody implements CallBody {
  readonly #markers: Markers;
  #state: "section" | "head" | "arguments" | "tail" = "section";
  #value = new ValueScanner();
  #numShown = 0;
  #numCalls = 0;

  constructor(markers: Markers) {
    this.#markers = markers;
  }

  take(text: string, sink: CallSink): Taken {
    const { call, callEnd, close, separator, nameOf } = this.#markers;
    switch (this.#state) {
      case "section": {
        const rest = text.trimStart();
        if (rest.startsWith(call)) return this.#go("head", rest.slice(call.length));
        if (rest.startsWith(close)) return { rest: rest.slice(close.length), next: "done" };
        if (call.startsWith(rest) || close.startsWith(rest)) return { rest, next: "wait" };
        if (this.#numCalls === 0) sink.text(this.#markers.open + text);
        return { rest: this.#numCalls === 0 ? "" : rest, next: "done" };
      }
      case "head": {
        const at = text.indexOf(separator);
        const brace = at < 0 ? -1 : text.indexOf("{", at);
        if (brace < 0) return { rest: text, next: "wait" };
        sink.call(nameOf(text.slice(0, at).trim(), text.slice(at + separator.length, brace).trim()));
        this.#numCalls++;
        this.#value = new ValueScanner();
        this.#numShown = 0;
        return this.#go("arguments", text.slice(brace));
      }
      case "arguments": {
        let at = 0;
        let status: "more" | "end" | "past" = "more";
        while (at < text.length && status === "more") status = this.#value.push(text[at++]!);
        sink.arguments(this.#value.text.slice(this.#numShown));
        this.#numShown = this.#value.text.length;
        return status === "more" ? { rest: "", next: "wait" } : this.#go("tail", text.slice(at));
      }
      case "tail": {
        const end = text.indexOf(callEnd);
        if (end < 0) return { rest: text, next: "wait" };
        return this.#go("section", text.slice(end + callEnd.length));
      }
    }
  }

  end(rest: string, sink: CallSink): void {
    if (this.#numCalls > 0) return;
    sink.text(this.#markers.open + (this.#state === "head" ? this.#markers.call : "") + rest);
  }

  #go(state: "section" | "head" | "arguments" | "tail", rest: string): Taken {
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
  nameOf: (before, after) => (after === "" ? before : after.split("\n")[0]!.trim()),
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
