// Calls as elements with one element per parameter: Qwen3-Coder (also Qwen3.5 and Nemotron 3), Seed-OSS, MiniMax M2, DeepSeek V3.2
// and V4. They differ in how the elements are spelled.

import { partialTagLen } from "./call-reader.js";
import type { CallSink } from "./call-sink.js";
import { ParameterWriter } from "./parameter-writer.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import type { ToolFormat, ToolSet } from "./tool-format.js";

interface Spelling {
  /** Around all calls, or around each. */
  readonly open: string;
  readonly close: string;
  /** What stands before and after a call's name. */
  readonly call: readonly [string, string];
  readonly callEnd: string;
  readonly parameter: readonly [string, string];
  readonly parameterEnd: string;
}

type State = "section" | "name" | "call" | "parameterName" | "value";

class XmlBody implements CallBody {
  readonly #spelling: Spelling;
  readonly #tools: ToolSet;
  #state: State = "section";
  #tool = "";
  /** Of the call under way; null in one without a name, which is read to its end as any other and is text. */
  #writer: ParameterWriter | null = null;
  #isValueStart = false;
  #hasCalls = false;
  /** All that was read before the first call: text where none comes. */
  #skipped = "";
  #isNameless = false;
  /** Calls without a name that are not shown yet. */
  #nameless = "";

  constructor(spelling: Spelling, tools: ToolSet) {
    this.#spelling = spelling;
    this.#tools = tools;
  }

  take(text: string, sink: CallSink): Taken {
    const wasNameless = this.#isNameless;
    const taken = this.#step(text, sink);
    const read = text.slice(0, text.length - taken.rest.length);
    if (wasNameless || this.#isNameless) this.#nameless += read;
    if (!this.#hasCalls) {
      this.#skipped += read;
      if (taken.next === "done") sink.text(this.#spelling.open + this.#skipped);
    } else if (!this.#isNameless) this.#showNameless(sink);
    return taken;
  }

  end(rest: string, sink: CallSink): void {
    if (!this.#hasCalls) sink.text(this.#spelling.open + this.#skipped + rest);
    else if (this.#isNameless) sink.text(this.#nameless + rest);
  }

  /** What it leaves is an end of `text`. */
  #step(text: string, sink: CallSink): Taken {
    const { close, call, callEnd, parameter, parameterEnd } = this.#spelling;
    switch (this.#state) {
      case "section": {
        const found = first(text, [call[0], close]);
        if (found === null) return this.#hold(text, [call[0], close]);
        if (found.tag === close) return { rest: text.slice(found.end), next: "done" };
        return this.#go("name", text.slice(found.end));
      }
      case "name": {
        const end = text.indexOf(call[1]);
        if (end < 0) return { rest: text, next: "wait" };
        this.#begin(text.slice(0, end).trim(), sink);
        return this.#go("call", text.slice(end + call[1].length));
      }
      case "call": {
        // Models forget the end of a call before the next one or before the end of all.
        const found = first(text, [parameter[0], callEnd, call[0], close]);
        if (found === null) return this.#hold(text, [parameter[0], callEnd, call[0], close]);
        if (found.tag === parameter[0]) return this.#go("parameterName", text.slice(found.end));
        this.#writer?.close();
        this.#isNameless = false;
        return this.#go("section", text.slice(found.tag === callEnd ? found.end : found.end - found.tag.length));
      }
      case "parameterName": {
        const end = text.indexOf(parameter[1]);
        if (end < 0) return { rest: text, next: "wait" };
        this.#beginParameter(text.slice(0, end));
        return this.#go("value", text.slice(end + parameter[1].length));
      }
      case "value":
        return this.#takeValue(text, parameterEnd);
    }
  }

  #begin(tool: string, sink: CallSink): void {
    this.#tool = tool;
    this.#isNameless = tool === "";
    if (this.#isNameless) {
      this.#nameless += this.#spelling.call[0];
      this.#writer = null;
      return;
    }
    this.#hasCalls = true;
    this.#showNameless(sink);
    sink.call(tool);
    this.#writer = new ParameterWriter(sink);
  }

  #showNameless(sink: CallSink): void {
    sink.text(this.#nameless);
    this.#nameless = "";
  }

  /** `name" string="true` says of itself what it is. */
  #beginParameter(head: string): void {
    const [, name, isString] = /^(.*?)(?:" string="(true|false))?$/s.exec(head)!;
    const said = isString === undefined ? undefined : isString === "true" ? { type: "string" } : { type: "object" };
    this.#writer?.begin(name!.trim(), said ?? this.#tools.parameter(this.#tool, name!.trim()));
    this.#isValueStart = true;
  }

  /** One line break after the opening tag and one before the closing one are no part of the value. */
  #takeValue(text: string, parameterEnd: string): Taken {
    let value = text;
    if (this.#isValueStart) {
      if (value === "") return { rest: value, next: "wait" };
      if (value[0] === "\n") value = value.slice(1);
      this.#isValueStart = false;
    }
    const end = value.indexOf(parameterEnd);
    if (end >= 0) {
      const whole = value.slice(0, end);
      this.#writer?.end(whole.endsWith("\n") ? whole.slice(0, -1) : whole);
      return this.#go("call", value.slice(end + parameterEnd.length));
    }
    if (this.#writer === null || !this.#writer.isText) return { rest: value, next: "wait" };
    let sure = value.length - partialTagLen(value, parameterEnd);
    if (value[sure - 1] === "\n") sure--;
    this.#writer.more(value.slice(0, sure));
    return { rest: value.slice(sure), next: "wait" };
  }

  #go(state: State, rest: string): Taken {
    this.#state = state;
    return { rest, next: "go" };
  }

  /** Between elements nothing matters but the beginning of the next. */
  #hold(text: string, tags: readonly string[]): Taken {
    const keep = Math.max(...tags.map((tag) => partialTagLen(text, tag)));
    return { rest: text.slice(text.length - keep), next: "wait" };
  }
}

function first(text: string, tags: readonly string[]): { tag: string; end: number } | null {
  let best: { tag: string; at: number } | null = null;
  for (const tag of tags) {
    const at = text.indexOf(tag);
    if (at >= 0 && (best === null || at < best.at)) best = { tag, at };
  }
  return best === null ? null : { tag: best.tag, end: best.at + best.tag.length };
}

function xmlFormat(name: string, spelling: Spelling): ToolFormat {
  return {
    name,
    needsSpecialTokens: true,
    shape: null,
    createParser: (tools) => new SectionParser(spelling.open, () => new XmlBody(spelling, tools)),
  };
}

const FUNCTION_ELEMENTS = {
  call: ["<function=", ">"],
  callEnd: "</function>",
  parameter: ["<parameter=", ">"],
  parameterEnd: "</parameter>",
} as const;

export const QWEN3_CODER = xmlFormat("qwen3-coder", {
  open: "<tool_call>",
  close: "</tool_call>",
  ...FUNCTION_ELEMENTS,
});

export const SEED = xmlFormat("seed", { open: "<seed:tool_call>", close: "</seed:tool_call>", ...FUNCTION_ELEMENTS });

export const MINIMAX = xmlFormat("minimax", {
  open: "<minimax:tool_call>",
  close: "</minimax:tool_call>",
  call: ['<invoke name="', '">'],
  callEnd: "</invoke>",
  parameter: ['<parameter name="', '">'],
  parameterEnd: "</parameter>",
});

const DSML_ELEMENTS = {
  call: ['<｜DSML｜invoke name="', '">'],
  callEnd: "</｜DSML｜invoke>",
  parameter: ['<｜DSML｜parameter name="', '">'],
  parameterEnd: "</｜DSML｜parameter>",
} as const;

export const DEEPSEEK_V32 = xmlFormat("deepseek-v3.2", {
  open: "<｜DSML｜function_calls>",
  close: "</｜DSML｜function_calls>",
  ...DSML_ELEMENTS,
});

export const DEEPSEEK_V4 = xmlFormat("deepseek-v4", {
  open: "<｜DSML｜tool_calls>",
  close: "</｜DSML｜tool_calls>",
  ...DSML_ELEMENTS,
});
