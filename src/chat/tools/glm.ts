// GLM 4.5 and later: <tool_call>name, then <arg_key>k</arg_key><arg_value>v</arg_value> for each argument, then </tool_call>.

import type { CallSink } from "./call-sink.js";
import { ParameterWriter } from "./parameter-writer.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { firstTag, partialTagLen, TagWatch } from "./tags.js";
import type { ToolFormat, ToolSet } from "./tool-format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const KEY = "<arg_key>";
const KEY_END = "</arg_key>";
const VALUE = "<arg_value>";
const VALUE_END = "</arg_value>";

/** A name and what may stand around it are bounded: until they end, they are looked at again with every token. */
const NAME = /^\s{0,64}(?:([\w.-]{1,256})\s{0,64}(?=<arg_key>|<\/tool_call>|\n)|(?=<arg_key>|<\/tool_call>))/;
const PART_OF_NAME = /^\s{0,64}[\w.-]{0,256}\s{0,64}(?:<[\w/]{0,12}>?)?$/;

class GlmBody implements CallBody {
  readonly #tools: ToolSet;
  #state: "name" | "pairs" | "value" = "name";
  #tool = "";
  #writer: ParameterWriter | null = null;

  constructor(tools: ToolSet) {
    this.#tools = tools;
  }

  take(text: string, sink: CallSink): Taken {
    if (this.#state === "name") return this.#takeName(text, sink);
    return this.#state === "pairs" ? this.#takePair(text) : this.#takeValue(text);
  }

  #takeName(text: string, sink: CallSink): Taken {
    const name = NAME.exec(text);
    if (name === null) {
      // Nothing that a name could begin with: no call of this form.
      return { rest: text, next: PART_OF_NAME.test(text) ? "wait" : "done" };
    }
    this.#tool = name[1] ?? "";
    sink.call(this.#tool);
    this.#writer = new ParameterWriter(sink);
    this.#state = "pairs";
    return { rest: text.slice(name[0].length), next: "go" };
  }

  #takePair(text: string): Taken {
    // Models forget the end of a call before the next one, and a key's value before either.
    const first = firstTag(text, [KEY, CLOSE, OPEN]);
    const found = first?.tag === KEY ? firstTag(text, [VALUE, CLOSE, OPEN], first.at) : first;
    if (first === null || found === null)
      return { rest: text, next: "wait", until: new TagWatch([first === null ? KEY : VALUE, CLOSE, OPEN], text) };
    if (found.tag !== VALUE) {
      this.#writer!.close();
      return { rest: text.slice(found.tag === CLOSE ? found.at + CLOSE.length : found.at), next: "done" };
    }
    const end = text.indexOf(KEY_END, first.at);
    const name = text.slice(first.at + KEY.length, end < 0 || end > found.at ? found.at : end).trim();
    this.#writer!.begin(name, this.#tools.parameter(this.#tool, name));
    this.#state = "value";
    return { rest: text.slice(found.at + VALUE.length), next: "go" };
  }

  #takeValue(text: string): Taken {
    const end = text.indexOf(VALUE_END);
    if (end >= 0) {
      this.#writer!.end(text.slice(0, end));
      this.#state = "pairs";
      return { rest: text.slice(end + VALUE_END.length), next: "go" };
    }
    if (!this.#writer!.isText) return { rest: text, next: "wait", until: new TagWatch([VALUE_END], text) };
    const sure = text.length - partialTagLen(text, VALUE_END);
    this.#writer!.more(text.slice(0, sure));
    return { rest: text.slice(sure), next: "wait" };
  }
}

export const GLM: ToolFormat = {
  name: "glm",
  needsSpecialTokens: true,
  shape: null,
  createParser: (tools) => new SectionParser(OPEN, () => new GlmBody(tools)),
};
