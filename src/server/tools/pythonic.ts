// Calls as a list of Python calls between markers: [f(a="x"), g(n=1)]. LFM2 and Llama 4.

import type { CallSink } from "./call-sink.js";
import { literalEnd, pythonToJson } from "./python-literal.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import type { ToolFormat } from "./tool-format.js";

class PythonBody implements CallBody {
  readonly #open: string;
  readonly #close: string;
  #state: "list" | "arguments" = "list";
  #numCalls = 0;
  #numArguments = 0;
  #skipped = "";

  constructor(open: string, close: string) {
    this.#open = open;
    this.#close = close;
  }

  take(text: string, sink: CallSink): Taken {
    return this.#state === "list" ? this.#takeList(text, sink) : this.#takeArgument(text, sink);
  }

  end(rest: string, sink: CallSink): void {
    if (this.#numCalls === 0) sink.text(this.#open + this.#skipped + rest);
    // A word that might have become a call's name is text, half a closing marker is nothing.
    else if (this.#state === "list" && !this.#close.startsWith(rest)) sink.text(rest);
  }

  /** Between calls: brackets, commas and white space, then a name or the end. */
  #takeList(text: string, sink: CallSink): Taken {
    const call = /^[\s[,\]]*([A-Za-z_][\w.-]*)\s*\(/.exec(text);
    if (call !== null) {
      sink.call(call[1]!);
      this.#numCalls++;
      this.#numArguments = 0;
      this.#state = "arguments";
      return { rest: text.slice(call[0].length), next: "go" };
    }
    const lead = /^[\s[,\]]*/.exec(text)![0];
    const rest = text.slice(lead.length);
    if (rest.startsWith(this.#close)) return { rest: rest.slice(this.#close.length), next: "done" };
    if (this.#close.startsWith(rest) || /^[A-Za-z_][\w.-]*\s*$/.test(rest)) {
      this.#skipped += lead;
      return { rest, next: "wait" };
    }
    if (this.#numCalls === 0) sink.text(this.#open + this.#skipped + text);
    return { rest: this.#numCalls === 0 ? "" : rest, next: "done" };
  }

  #takeArgument(text: string, sink: CallSink): Taken {
    const lead = text.trimStart();
    // A wrong bracket ends it too: nothing else could come of it.
    if (/^[)\]}]/.test(lead)) {
      sink.arguments(this.#numArguments === 0 ? "{}" : "}");
      this.#state = "list";
      return { rest: lead.slice(1), next: "go" };
    }
    if (lead.startsWith(",")) return { rest: lead.slice(1), next: "go" };
    const end = literalEnd(lead, 0);
    if (end < 0) return { rest: lead, next: "wait" };
    const [, name, value] = /^\s*([\w-]+)\s*=([\s\S]*)$/.exec(lead.slice(0, end)) ?? [];
    const key = name ?? `arg${this.#numArguments}`;
    sink.arguments(
      `${this.#numArguments++ === 0 ? "{" : ", "}${JSON.stringify(key)}: ${pythonToJson(value ?? lead.slice(0, end))}`,
    );
    return { rest: lead.slice(end), next: "go" };
  }
}

function pythonFormat(name: string, open: string, close: string): ToolFormat {
  return {
    name,
    needsSpecialTokens: true,
    shape: null,
    createParser: () => new SectionParser(open, () => new PythonBody(open, close)),
  };
}

export const LFM2 = pythonFormat("lfm2", "<|tool_call_start|>", "<|tool_call_end|>");
export const LLAMA4 = pythonFormat("llama4", "<|python_start|>", "<|python_end|>");
