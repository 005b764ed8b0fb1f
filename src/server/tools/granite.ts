// Granite 3: <|tool_call|> and a JSON list of {"name": ..., "arguments": {...}}; Phi 4 mini closes it with <|/tool_call|>. (Granite 4
// writes as Hermes does.)

import { CallReader } from "./call-reader.js";
import type { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import type { ToolEvent, ToolFormat } from "./tool-format.js";

const OPEN = "<|tool_call|>";
const CLOSE = "<|/tool_call|>";

class ListBody implements CallBody {
  readonly #reader = new CallReader(null);
  #isStarted = false;
  #isOver = false;
  #isReading = false;
  #hasCalls = false;

  take(text: string, sink: CallSink): Taken {
    if (this.#isReading) return this.#read(text, sink);
    const rest = text.trimStart();
    if (rest === "") return { rest, next: "wait" };
    if (this.#isOver) {
      if (rest.startsWith(CLOSE)) return { rest: rest.slice(CLOSE.length), next: "done" };
      return { rest: text, next: CLOSE.startsWith(rest) ? "wait" : "done" };
    }
    if (!this.#isStarted) {
      if (rest[0] !== "[") {
        sink.text(OPEN + text);
        return { rest: "", next: "done" };
      }
      this.#isStarted = true;
      return { rest: rest.slice(1), next: "go" };
    }
    if (rest[0] === ",") return { rest: rest.slice(1), next: "go" };
    if (rest[0] === "]") {
      this.#isOver = true;
      return { rest: rest.slice(1), next: "go" };
    }
    this.#isReading = true;
    return { rest, next: "go" };
  }

  #read(text: string, sink: CallSink): Taken {
    const events: ToolEvent[] = [];
    const { at, status } = this.#reader.read(text, 0, events);
    this.#forward(events, sink);
    const rest = text.slice(at);
    if (status === "more") return { rest, next: "wait" };
    this.#isReading = false;
    const raw = this.#reader.reset();
    if (status === "done") return { rest, next: "go" };
    if (!this.#hasCalls) sink.text(`${OPEN}[${raw}`);
    return { rest, next: "done" };
  }

  end(rest: string, sink: CallSink): void {
    const raw = this.#reader.reset();
    if (!this.#hasCalls) sink.text(OPEN + (this.#isStarted ? "[" : "") + raw + rest);
  }

  #forward(events: readonly ToolEvent[], sink: CallSink): void {
    for (const event of events) {
      if (event.kind === "call") {
        this.#hasCalls = true;
        sink.call(event.name);
      } else if (event.kind === "arguments") sink.arguments(event.text);
    }
  }
}

export const GRANITE: ToolFormat = {
  name: "granite",
  needsSpecialTokens: true,
  shape: null,
  createParser: () => new SectionParser(OPEN, () => new ListBody()),
};
