// Mistral: [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...] in older models, [TOOL_CALLS]name[ARGS]{...} in newer ones,
// some of which (tokenizer version 11) write name[CALL_ID]id[ARGS]{...}: clients get ids of the server's own, so the model's is dropped.
// Forced calls come as the bare list, since the marker is a special token that no grammar can ask for.

import { BareCalls } from "./bare-calls.js";
import { CallReader } from "./call-reader.js";
import { ValueScanner } from "./call-scanner.js";
import { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { isFarOff, MOST_SPACE, TagWatch } from "./tags.js";
import type { ToolEvent, ToolFormat, ToolParser, ToolSet } from "./tool-format.js";

const TAG = "[TOOL_CALLS]";
const ARGS = "[ARGS]";
const CALL_ID = "[CALL_ID]";
/** What may stand behind a name; right after the marker the name is missing, and it is no list. */
const NAME_ENDS = [ARGS, CALL_ID];

/** A list at the very beginning of an answer; white space in it is looked at again with every token. */
const LIST_START = new RegExp(`^\\s{0,${MOST_SPACE}}(?:\\[\\s{0,${MOST_SPACE}})?`);

type State = "tagged" | "list" | "object" | "between" | "name" | "arguments" | "after";

/** What stands after the marker. */
class MistralBody implements CallBody {
  readonly #reader = new CallReader(null);
  #state: State = "tagged";
  #value = new ValueScanner();
  #isEmpty = true;

  /** Of a list; a call of the newer form has a marker of its own. */
  get isInCall(): boolean {
    return this.#state === "object";
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  take(text: string, sink: CallSink): Taken {
    switch (this.#state) {
      case "tagged":
      case "list":
      case "between":
        return this.#takeBeside(text);
      case "object":
        return this.#takeObject(text, sink);
      case "name":
        return this.#takeName(text, sink);
      case "arguments":
        return this.#takeArguments(text, sink);
      case "after": {
        // Between calls of the newer form, or after the list: another marker, or text.
        const rest = text.trimStart();
        if (isFarOff(text, rest)) return { rest: text, next: "done" };
        const isWaiting = rest === "" || (TAG.startsWith(rest) && rest !== TAG);
        return { rest: text, next: isWaiting ? "wait" : "done" };
      }
    }
  }

  /** After the marker, in a list or behind a call by name and arguments: the next one, the list's end, or something else. */
  #takeBeside(text: string): Taken {
    const rest = text.trimStart();
    const isTagged = this.#state === "tagged";
    if (isFarOff(text, rest)) {
      this.#isEmpty = false;
      return { rest: text, next: "done" };
    }
    if (rest === "" || (isTagged && NAME_ENDS.some((end) => end.startsWith(rest)))) {
      // More than a bracket is no empty list, whatever comes of it: where the answer ends here it is text.
      if (rest.length > 1) this.#isEmpty = false;
      return { rest: text, next: "wait" };
    }
    const char = rest[0]!;
    if (char === "{") return this.#go("object", rest, false);
    if (isTagged) {
      if (char !== "[" || NAME_ENDS.some((end) => rest.startsWith(end))) return this.#go("name", rest, false);
      return this.#go("list", rest.slice(1));
    }
    if (char === ",") return this.#go("list", rest.slice(1));
    if (char === "]") return this.#go("after", rest.slice(1));
    return this.#go("after", text, false);
  }

  #takeObject(text: string, sink: CallSink): Taken {
    const { rest, status } = this.#reader.read(text, sink);
    if (status === "more") return { rest, next: "wait" };
    this.#reader.reset();
    this.#state = "between";
    return { rest, next: status === "done" ? "go" : "done" };
  }

  #takeName(text: string, sink: CallSink): Taken {
    const brace = text.indexOf("{");
    const tag = text.indexOf(TAG);
    if (tag >= 0 && (brace < 0 || tag < brace)) return { rest: text.slice(tag), next: "done" };
    if (brace < 0) return { rest: text, next: "wait", until: new TagWatch(["{", TAG], text) };
    const [name] = text.slice(0, brace).split(CALL_ID);
    sink.call(name!.replace(ARGS, "").trim());
    return this.#go("arguments", text.slice(brace));
  }

  #takeArguments(text: string, sink: CallSink): Taken {
    let at = 0;
    let isOver = false;
    while (at < text.length && !isOver) isOver = this.#value.push(text[at++]!) === "end";
    sink.arguments(text.slice(0, at));
    return isOver ? this.#go("after", text.slice(at)) : { rest: "", next: "wait" };
  }

  #go(state: State, rest: string, isEmpty = this.#isEmpty): Taken {
    this.#state = state;
    this.#isEmpty = isEmpty;
    return { rest, next: "go" };
  }
}

class MistralParser implements ToolParser {
  readonly #sink = new CallSink();
  readonly #sections = new SectionParser(TAG, () => new MistralBody(), this.#sink);
  readonly #calls: BareCalls;
  #state: "start" | "list" | "sections" = "start";
  #held = "";

  constructor({ names }: ToolSet) {
    this.#calls = new BareCalls(names, /^[\s,]*/, this.#sink);
  }

  push(text: string): ToolEvent[] {
    this.#held += text;
    if (this.#state === "start") this.#readStart();
    if (this.#state === "list") this.#readList();
    if (this.#state !== "sections") return this.#sink.take();
    const rest = this.#held;
    this.#held = "";
    return this.#sections.push(rest);
  }

  flush(): ToolEvent[] {
    if (this.#state === "sections") return this.#sections.flush();
    if (this.#state === "list") this.#calls.end();
    else this.#sink.text(this.#held);
    return this.#sink.take();
  }

  /** A list of objects at the very beginning may be forced calls. */
  #readStart(): void {
    const start = LIST_START.exec(this.#held);
    if (start?.[0] === this.#held) return;
    const list = start !== null && this.#held[start[0].length] === "{" ? start : null;
    this.#state = list === null ? "sections" : "list";
    if (list === null) return;
    this.#sink.hold(list[0]);
    this.#held = this.#held.slice(list[0].length);
  }

  #readList(): void {
    const rest = this.#calls.take(this.#held);
    this.#held = rest ?? "";
    if (rest === null) return;
    this.#state = "sections";
    if (this.#sink.isAfterCall && rest[0] === "]") this.#held = rest.slice(1);
  }
}

export const MISTRAL: ToolFormat = {
  name: "mistral",
  needsSpecialTokens: true,
  shape: { open: "", separator: ", ", close: "", argumentsKey: "arguments", before: "[", after: "]" },
  createParser: (tools) => new MistralParser(tools),
};
