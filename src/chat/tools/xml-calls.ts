// Calls as elements with one element per parameter: Qwen3-Coder (also Qwen3.5 and Nemotron 3), Seed-OSS, MiniMax M2, DeepSeek V3.2
// and V4. They differ in how the elements are spelled.

import type { CallSink } from "./call-sink.js";
import { ParameterWriter } from "./parameter-writer.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { firstTag, partialTagLen, TagWatch } from "./tags.js";
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
  #writer: ParameterWriter | null = null;
  #isValueStart = false;

  constructor(spelling: Spelling, tools: ToolSet) {
    this.#spelling = spelling;
    this.#tools = tools;
  }

  get isInCall(): boolean {
    return this.#state !== "section";
  }

  take(text: string, sink: CallSink): Taken {
    const { close, call, callEnd, parameter, parameterEnd } = this.#spelling;
    switch (this.#state) {
      case "section": {
        const found = firstTag(text, [call[0], close]);
        if (found === null) return this.#hold(text, [call[0], close]);
        if (found.tag === close) return { rest: text.slice(found.at + close.length), next: "done" };
        return this.#go("name", text.slice(found.at));
      }
      case "name": {
        const end = text.indexOf(call[1], call[0].length);
        if (end < 0) return { rest: text, next: "wait", until: new TagWatch([call[1]], text) };
        this.#tool = text.slice(call[0].length, end).trim();
        sink.call(this.#tool);
        this.#writer = new ParameterWriter(sink);
        return this.#go("call", text.slice(end + call[1].length));
      }
      case "call": {
        // Models forget the end of a call before the next one or before the end of all.
        const found = firstTag(text, [parameter[0], callEnd, call[0], close]);
        if (found === null) return this.#hold(text, [parameter[0], callEnd, call[0], close]);
        if (found.tag === parameter[0]) return this.#go("parameterName", text.slice(found.at + found.tag.length));
        this.#writer!.close();
        return this.#go("section", text.slice(found.tag === callEnd ? found.at + callEnd.length : found.at));
      }
      case "parameterName": {
        const end = text.indexOf(parameter[1]);
        if (end < 0) return { rest: text, next: "wait", until: new TagWatch([parameter[1]], text) };
        this.#beginParameter(text.slice(0, end));
        return this.#go("value", text.slice(end + parameter[1].length));
      }
      case "value":
        return this.#takeValue(text, parameterEnd);
    }
  }

  /** `name" string="true` says of itself what it is. */
  #beginParameter(head: string): void {
    const [, name, isString] = /^(.*?)(?:" string="(true|false))?$/s.exec(head)!;
    const said = isString === undefined ? undefined : isString === "true" ? { type: "string" } : { type: "object" };
    this.#writer!.begin(name!.trim(), said ?? this.#tools.parameter(this.#tool, name!.trim()));
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
      this.#writer!.end(whole.endsWith("\n") ? whole.slice(0, -1) : whole);
      return this.#go("call", value.slice(end + parameterEnd.length));
    }
    if (!this.#writer!.isText) return { rest: value, next: "wait", until: new TagWatch([parameterEnd], value) };
    let sure = value.length - partialTagLen(value, parameterEnd);
    if (value[sure - 1] === "\n") sure--;
    this.#writer!.more(value.slice(0, sure));
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
