// Calls as a list of Python calls between markers: [f(a="x"), g(n=1)]. LFM2 and Llama 4.

import type { CallSink } from "./call-sink.js";
import { LiteralEnd, pythonToJson } from "./python-literal.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import type { ToolFormat } from "./tool-format.js";

/** A call's name, which may be missing. It is bounded: until it ends, it is looked at again with every token. */
const CALL = /^([A-Za-z_][\w.-]{0,255})?\s{0,64}\(/;
const PART_OF_CALL = /^[A-Za-z_][\w.-]{0,255}\s{0,64}$/;

class PythonBody implements CallBody {
  readonly #close: string;
  #state: "list" | "name" | "arguments" = "list";
  #hasCalls = false;
  #numArguments = 0;
  #argument = new LiteralEnd();
  #isClosed = false;

  constructor(close: string) {
    this.#close = close;
  }

  get isInCall(): boolean {
    return this.#state !== "list";
  }

  get isEmpty(): boolean {
    return this.#isClosed && !this.#hasCalls;
  }

  take(text: string, sink: CallSink): Taken {
    if (this.#state === "name") return this.#takeName(text, sink);
    return this.#state === "list" ? this.#takeList(text) : this.#takeArgument(text, sink);
  }

  /** A word that might have become a call's name is text, half a closing marker is nothing. */
  end(rest: string, sink: CallSink): void {
    if (this.#state === "list" && !this.#close.startsWith(rest)) sink.text(rest);
  }

  /** Between calls: brackets, commas and white space, then a name or the end. */
  #takeList(text: string): Taken {
    const rest = text.replace(/^[\s[,\]]*/, "");
    if (CALL.test(rest)) {
      this.#state = "name";
      return { rest, next: "go" };
    }
    this.#isClosed = rest.startsWith(this.#close);
    if (this.#isClosed) return { rest: rest.slice(this.#close.length), next: "done" };
    const isWaiting = this.#close.startsWith(rest) || PART_OF_CALL.test(rest);
    return { rest, next: isWaiting ? "wait" : "done" };
  }

  #takeName(text: string, sink: CallSink): Taken {
    const call = CALL.exec(text)!;
    sink.call(call[1] ?? "");
    this.#hasCalls = true;
    this.#numArguments = 0;
    this.#state = "arguments";
    return { rest: text.slice(call[0].length), next: "go" };
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
    const end = this.#argument.find(lead);
    if (end < 0) return { rest: lead, next: "wait", until: this.#argument };
    this.#argument = new LiteralEnd();
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
    createParser: () => new SectionParser(open, () => new PythonBody(close)),
  };
}

export const LFM2 = pythonFormat("lfm2", "<|tool_call_start|>", "<|tool_call_end|>");
export const LLAMA4 = pythonFormat("llama4", "<|python_start|>", "<|python_end|>");
