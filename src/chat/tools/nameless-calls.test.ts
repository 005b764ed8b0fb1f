// What is written as a call and has no name is text, to the letter, and costs no other call of the answer; in every format, however the
// answer is cut.

import assert from "node:assert/strict";
import { test } from "node:test";
import { check, checkCuts, parse } from "../../../test/support/tool-parser-check.js";
import { TOOL_FORMATS } from "./formats.js";

interface Spelling {
  readonly format: string;
  /** Around all calls and between two; where each is a section of its own, nothing is around all. */
  readonly open: string;
  readonly separator: string;
  readonly close: string;
  /** A call put({"a": 1}), and calls without a name. */
  readonly named: string;
  readonly nameless: readonly string[];
}

const OBJECTS = [
  '{"name": ""}',
  '{"name": "", "arguments": {"a": 1}}',
  '{"name": " \\n\\t", "arguments": {"a": "}\\""}}',
  '{"arguments": {"a": [1]}, "name": ""}',
  '{"name": null, "arguments": {}}',
  '{"name": 5, "arguments": {}}',
  '{"name": ["put"], "arguments": {}}',
  '{"name": {"name": "put"}, "arguments": {}}',
  '{"arguments": {"name": "put"}}',
  "{}",
];
const PUT = '{"name": "put", "arguments": {"a": 1}}';

function elements(
  open: string,
  close: string,
  element: string,
  parameter: string,
  end: string,
): Omit<Spelling, "format"> {
  const call = (name: string, inner: string) => `<${element}${name}${inner}</${end}>`;
  const value = (text: string) => `<${parameter}>${text}</${parameter.split(/[ =]/)[0]}>`;
  const quote = element.endsWith('"') ? '">' : ">";
  return {
    open,
    separator: "\n",
    close,
    named: call("put", quote + value("1")),
    nameless: [call("", quote), call(" \n", quote + value("1")), call("", quote + value(call("put", quote)))],
  };
}

const DSML = ['｜DSML｜invoke name="', '｜DSML｜parameter name="a"', "｜DSML｜invoke"] as const;

const SPELLINGS: readonly Spelling[] = [
  {
    format: "hermes",
    open: "",
    separator: "\n",
    close: "",
    named: `<tool_call>\n${PUT}\n</tool_call>`,
    nameless: OBJECTS.map((object) => `<tool_call>\n${object}\n</tool_call>`),
  },
  {
    format: "mistral",
    open: "",
    separator: "\n",
    close: "",
    named: '[TOOL_CALLS]put[ARGS]{"a": 1}',
    nameless: [
      '[TOOL_CALLS][ARGS]{"a": 1}',
      '[TOOL_CALLS] [ARGS] {"a": "}[TOOL_CALLS]put{}"}',
      '[TOOL_CALLS][CALL_ID]123456789[ARGS]{"a": 1}',
      '[TOOL_CALLS] [CALL_ID] 1 [ARGS] {"a": 1}',
      ...OBJECTS.map((object) => `[TOOL_CALLS]${object}`),
    ],
  },
  { format: "mistral", open: "[TOOL_CALLS] [", separator: ", ", close: "]", named: PUT, nameless: OBJECTS },
  { format: "granite", open: "<|tool_call|> [", separator: " ,", close: "]", named: PUT, nameless: OBJECTS },
  {
    format: "granite",
    open: "<|tool_call|>[",
    separator: ", ",
    close: "] <|/tool_call|>",
    named: PUT,
    nameless: OBJECTS,
  },
  {
    format: "kimi",
    open: "<|tool_calls_section_begin|>",
    separator: "\n",
    close: "<|tool_calls_section_end|>",
    named: '<|tool_call_begin|>functions.put:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
    nameless: ["functions.:0", ":1", "functions.", "", " "]
      .map((name) => `<|tool_call_begin|>${name}<|tool_call_argument_begin|>{"a": "}"}<|tool_call_end|>`)
      .concat("<|tool_call_begin|><|tool_call_end|>")
      .concat("<|tool_call_begin|>functions.:0<|tool_call_argument_begin|><|tool_call_end|>"),
  },
  {
    format: "deepseek",
    open: "<｜tool▁calls▁begin｜>",
    separator: "\n",
    close: "<｜tool▁calls▁end｜>",
    named: '<｜tool▁call▁begin｜>function<｜tool▁sep｜>put\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>',
    nameless: [
      'function<｜tool▁sep｜>\n```json\n{"a": 1}\n```',
      "<｜tool▁sep｜>{}",
      " <｜tool▁sep｜>```{}\n```",
      "",
      "function",
    ].map((call) => `<｜tool▁call▁begin｜>${call}<｜tool▁call▁end｜>`),
  },
  {
    format: "glm",
    open: "",
    separator: "\n",
    close: "",
    named: "<tool_call>put\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    nameless: [
      "<tool_call></tool_call>",
      "<tool_call> \n</tool_call>",
      "<tool_call><arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
      "<tool_call>\n<arg_key>a</arg_key>\n<arg_value><tool_call>put</tool_call></arg_value>\n</tool_call>",
      "<tool_call><arg_key>a</arg_key></tool_call>",
    ],
  },
  {
    format: "gemma4",
    open: "",
    separator: "\n",
    close: "",
    named: "<|tool_call>call:put{a: 1}<tool_call|>",
    nameless: [
      "<|tool_call>call:{}<tool_call|>",
      '<|tool_call> call: \n{a:<|"|><|tool_call>call:put{}<tool_call|><|"|>}<tool_call|>',
    ],
  },
  {
    format: "lfm2",
    open: "<|tool_call_start|>[",
    separator: ", ",
    close: "]<|tool_call_end|>",
    named: "put(a=1)",
    nameless: ["()", '(a=")", b=[put()])'],
  },
  {
    format: "llama4",
    open: "<|python_start|>[",
    separator: ", ",
    close: "]<|python_end|>",
    named: "put(a=1)",
    nameless: ["()", "(a=1)"],
  },
  {
    format: "harmony",
    open: "",
    separator: "",
    close: "",
    named: '<|start|>assistant<|channel|>commentary to=functions.put <|constrain|>json<|message|>{"a": 1}<|call|>',
    nameless: ["commentary", "analysis"].map(
      (channel) =>
        `<|start|>assistant<|channel|>${channel} to=functions. <|constrain|>json<|message|>{"a": "<"}<|call|>`,
    ),
  },
  {
    format: "qwen3-coder",
    ...elements("<tool_call>", "</tool_call>", "function=", "parameter=a", "function"),
  },
  { format: "seed", ...elements("<seed:tool_call>", "</seed:tool_call>", "function=", "parameter=a", "function") },
  {
    format: "minimax",
    ...elements("<minimax:tool_call>", "</minimax:tool_call>", 'invoke name="', 'parameter name="a"', "invoke"),
  },
  { format: "deepseek-v3.2", ...elements("<｜DSML｜function_calls>", "</｜DSML｜function_calls>", ...DSML) },
  { format: "deepseek-v4", ...elements("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", ...DSML) },
];

const byName = (format: string) => TOOL_FORMATS.find(([{ name }]) => name === format)![0];

/** In pieces of every size, in two that part anywhere, and ended anywhere. */
function checkAnswer(name: string, answer: string, text: string, numCalls = 0): void {
  const format = byName(name);
  check(format, [[answer, text, new Array<[string, string]>(numCalls).fill(["put", '{"a": 1}'])]]);
  checkCuts(format, answer);
  const whole = parse(format, answer, answer.length);
  for (let at = 1; at < answer.length; at++)
    assert.deepEqual(parse(format, answer, answer.length, at), whole, `${JSON.stringify(answer)} at ${at}`);
}

test("an answer whose calls have no names is text, to the letter", () => {
  for (const { format, open, separator, close, nameless } of SPELLINGS) {
    for (const call of nameless) {
      checkAnswer(format, open + call + close, open + call + close);
      if (format === "harmony") continue; // what is between its messages is no text
      const answer = `Hm. \n${open}${call}${separator}${nameless[0]}${close} \nSo.`;
      checkAnswer(format, answer, answer);
    }
  }
});

test("beside calls, those without names are text, and no other is lost", () => {
  for (const { format, open, separator, close, named, nameless } of SPELLINGS) {
    const answer = (...calls: string[]) => open + calls.join(separator) + close;
    // What separates two sections is text between texts; in one section it is nothing.
    const both = (call: string) => (open === "" ? call + separator + call : call + call);
    for (const call of nameless) checkAnswer(format, answer(call, named, call, named), call + call, 2);
    const [call] = nameless as [string];
    checkAnswer(format, answer(named, call, call, named, named, call), both(call) + call, 3);
    checkAnswer(format, answer(call, call, named), both(call), 1);
    if (open !== "") checkAnswer(format, `${answer(call)}\n${answer(named)} \n${answer(call)}`, both(answer(call)), 1);
  }
});

test("without a marker too", () => {
  for (const call of OBJECTS) {
    for (const tag of ["", "<|python_tag|>", " \n<|python_tag|> "]) {
      checkAnswer("llama3", tag + call, tag + call);
      checkAnswer("llama3", `${tag + call}; ${call} ,\nSo.`, `${tag + call}; ${call} ,\nSo.`);
      checkAnswer("llama3", `${tag + call}; ${PUT}; ${call}; ${PUT}`, tag + call + call, 2);
    }
    for (const open of ["[", " [ "]) {
      checkAnswer("mistral", `${open + call}]`, `${open + call}]`);
      checkAnswer("mistral", `${open + call}, ${call} ] So.`, `${open + call}, ${call} ] So.`);
      checkAnswer("mistral", `${open + call}, ${PUT}, ${call}, ${PUT}]`, open + call + call, 2);
      checkAnswer("mistral", `${open + PUT}, ${call}] [TOOL_CALLS]put{"a": 1}`, `${call}]`, 2);
    }
  }
});

test("where the end of a call without a name is forgotten, the next call is not lost", () => {
  const kimi = "<|tool_calls_section_begin|>";
  const begin = "<|tool_call_begin|>functions.:0<|tool_call_argument_begin|>";
  const put = '<|tool_call_begin|>functions.put:1<|tool_call_argument_begin|>{"a": 1}';
  for (const call of [begin, `${begin}{}`, "<|tool_call_begin|>"]) {
    checkAnswer("kimi", `${kimi}${call}${put}<|tool_calls_section_end|>`, call, 1);
    checkAnswer("kimi", `${kimi}${call}<|tool_calls_section_end|>`, `${kimi}${call}<|tool_calls_section_end|>`);
  }
  const glm = "<tool_call><arg_key>a</arg_key>";
  for (const call of [glm, `${glm}<arg_value>1</arg_value>`, "<tool_call>"])
    checkAnswer("glm", `${call}<tool_call>put<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>`, call, 1);
  const gemma = "<|tool_call>call:{}";
  checkAnswer("gemma4", `${gemma}<|tool_call>call:put{a: 1}`, gemma, 1);
  checkAnswer("mistral", '[TOOL_CALLS][ARGS][TOOL_CALLS]put[ARGS]{"a": 1}', "[TOOL_CALLS][ARGS]", 1);
});

test("of several names the first holds that is one, however they are cut", () => {
  const hermes = (name: string) => `<tool_call>{${name}, "arguments": {"a": 1}}</tool_call>`;
  checkAnswer("hermes", hermes('"name": "", "name": "put"'), "", 1);
  checkAnswer("hermes", hermes('"name": "put", "name": ""'), "", 1);
  checkAnswer("hermes", hermes('"name": "put", "name": 5'), "", 1);
});

test("every format is spelled here", () => {
  const formats = new Set([...SPELLINGS.map(({ format }) => format), "llama3"]);
  assert.deepEqual([...formats].sort(), TOOL_FORMATS.map(([{ name }]) => name).sort());
});
