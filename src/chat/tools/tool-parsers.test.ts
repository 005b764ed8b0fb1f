import assert from "node:assert/strict";
import { test } from "node:test";
import { check, checkCuts, parse } from "../../../test/support/tool-parser-check.js";
import { CallSink } from "./call-sink.js";
import { HERMES } from "./hermes.js";
import { LLAMA3 } from "./llama3.js";
import { MISTRAL } from "./mistral.js";
import { ParameterWriter } from "./parameter-writer.js";

test("Hermes: calls between tags, text around them", () => {
  check(HERMES, [
    ['<tool_call>\n{"name": "get", "arguments": {"city": "Rome"}}\n</tool_call>', "", [["get", '{"city": "Rome"}']]],
    [
      'Let me see.\n<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>\n<tool_call>{"arguments": {"a": [1, {"b": "}"}]}, "name": "put"}</tool_call>\nDone.',
      "Let me see.Done.",
      [
        ["get", "{}"],
        ["put", '{"a": [1, {"b": "}"}]}'],
      ],
    ],
    ["plain <tool text", "plain <tool text", []],
    ["ends with space \n", "ends with space \n", []],
    ["<tool_call>not json</tool_call> x", "<tool_call>not json</tool_call> x", []],
    [
      '<tool_call>{name}</tool_call><tool_call>{"name": "get", "arguments": {}}</tool_call>',
      "<tool_call>{name}</tool_call>",
      [["get", "{}"]],
    ],
    ['<tool_call>\n{"name": "get", "arguments": "{\\"a\\": 1}"}\n</tool_call>', "", [["get", '{"a": 1}']]],
    [
      '<tool_call>{"name": "get", "arguments": {"q": "a \\"quoted\\" </tool_call> \\\\"}}</tool_call>',
      "",
      [["get", '{"q": "a \\"quoted\\" </tool_call> \\\\"}']],
    ],
  ]);
});

test("Hermes: an answer that is cut leaves the call with what there was of its arguments", () => {
  check(HERMES, [
    ['<tool_call>{"name": "get", "arguments": {"ci', "", [["get", '{"ci']]],
    ['<tool_call>{"na', '<tool_call>{"na', []],
  ]);
});

test("Llama 3: the answer is a call of a known tool, or text", () => {
  check(LLAMA3, [
    ['{"name": "get", "parameters": {"city": "Rome"}}', "", [["get", '{"city": "Rome"}']]],
    [
      '<|python_tag|>{"name": "get", "parameters": {}}; {"name": "put", "parameters": {"a": 1}}',
      "",
      [
        ["get", "{}"],
        ["put", '{"a": 1}'],
      ],
    ],
    ['{"name": "unknown", "parameters": {}}', '{"name": "unknown", "parameters": {}}', []],
    ['{"answer": 42}', '{"answer": 42}', []],
    ["Hello {", "Hello {", []],
    ["{broken", "{broken", []],
    ["<|python", "<|python", []],
    ['{"name": "get", "parameters": {}} ;', "", [["get", "{}"]]],
  ]);
});

test("Mistral: the list, the newer form, the bare list of forced calls", () => {
  check(MISTRAL, [
    [
      '[TOOL_CALLS] [{"name": "get", "arguments": {"a": 1}}, {"name": "put", "arguments": {}}]',
      "",
      [
        ["get", '{"a": 1}'],
        ["put", "{}"],
      ],
    ],
    [
      'Sure.[TOOL_CALLS]get[ARGS]{"a": "}"}[TOOL_CALLS]put{"b": 2}',
      "Sure.",
      [
        ["get", '{"a": "}"}'],
        ["put", '{"b": 2}'],
      ],
    ],
    [
      '[TOOL_CALLS]{"name": "get", "arguments": {}}[TOOL_CALLS] {"name": "put", "arguments": {}} ,{"name": "get", "arguments": {}}x[T',
      "x[T",
      [
        ["get", "{}"],
        ["put", "{}"],
        ["get", "{}"],
      ],
    ],
    ['[{"name": "get", "arguments": {"a": 1}}]', "", [["get", '{"a": 1}']]],
    ['[{"x": 1}]', '[{"x": 1}]', []],
    ["[1, 2]", "[1, 2]", []],
    ["plain [TOOL", "plain [TOOL", []],
    [" [", " [", []],
    ['[TOOL_CALLS][{"name": "get", "arguments": {}}] [TOOL_', "", [["get", "{}"]]],
  ]);
});

test("Mistral: the id between name and arguments is no part of the name, wherever the answer is cut in two", () => {
  const call = (name: string, id: string, args: string) => `[TOOL_CALLS]${name}[CALL_ID]${id}[ARGS]${args}`;
  const one = call("get", "a1B2c3D4e", '{"a": "[CALL_ID]"}');
  const get: [string, string] = ["get", '{"a": "[CALL_ID]"}'];
  const put: [string, string] = ["put", "{}"];
  const cases: [string, string, [string, string][]][] = [
    [one, "", [get]],
    [`Sure. ${one}${call("put", "123456789", "{}")}`, "Sure.", [get, put]],
    [`${one}\n${call(" put ", " 1 ", " {}")} So.`, "So.", [get, put]],
    [`[TOOL_CALLS]put[ARGS]{}${one}[TOOL_CALLS]put{}`, "", [put, get, put]],
    [`${one}[TOOL_CALLS]put[CALL_ID]1{}`, "", [get, put]],
    [`${call("get", "1", "")}${call("put", "2", "{}")}`, "[TOOL_CALLS]get[CALL_ID]1[ARGS]", [put]],
    ["[TOOL_CALLS]get[CALL_ID]1", "[TOOL_CALLS]get[CALL_ID]1", []],
    ["[TOOL_CALLS] [CALL", "[TOOL_CALLS] [CALL", []],
    ["[TOOL_CALLS][ARGS]", "[TOOL_CALLS][ARGS]", []],
    ["[TOOL_CALLS] [", "", []],
  ];
  check(MISTRAL, cases);
  for (const [answer, text, calls] of cases)
    for (let first = 0; first <= answer.length; first++) {
      const parsed = parse(MISTRAL, answer, answer.length, first);
      const found = parsed.calls.map((made) => [made.name, made.arguments]);
      assert.deepEqual([parsed.text, found], [text, calls], `${answer} at ${first}`);
    }
});

test("answers that are cut anywhere: Hermes, Llama 3, Mistral", () => {
  checkCuts(
    HERMES,
    'Hm.\n<tool_call>\n{"name": "get", "arguments": {"a": [1]}}\n</tool_call>\n<tool_call>{"name": "put", "arguments": {}}</tool_call>',
  );
  checkCuts(LLAMA3, '{"name": "get", "parameters": {"a": "}"}}; {"name": "put", "parameters": {}}');
  checkCuts(
    MISTRAL,
    '[TOOL_CALLS]{"name": "get", "arguments": {}}[TOOL_CALLS]{"name": "put", "arguments": {}} ,{"name": "get", "arguments": {}}.',
  );
  checkCuts(MISTRAL, '[TOOL_CALLS]get[ARGS]{"a": "}"}[TOOL_CALLS]put[ARGS]{"b": 2}');
  checkCuts(MISTRAL, '[TOOL_CALLS]get[CALL_ID]1[ARGS]{"a": "}"}[TOOL_CALLS]put[CALL_ID]2[ARGS]{"b": 2}');
});

test("a parameter written as text is what its schema says: a string as it comes, JSON where it is JSON, else a string", () => {
  const written = (schema: unknown, text: string) => {
    const sink = new CallSink();
    sink.call("f");
    const writer = new ParameterWriter(sink);
    writer.begin("a", schema);
    const { isText } = writer;
    writer.end(text);
    writer.close();
    const texts = sink.take().flatMap((event) => (event.kind === "arguments" ? [event.text] : []));
    return `${isText ? "text " : ""}${texts.join("")}`;
  };
  const text = { type: "string" };
  for (const [schema, given, expected] of [
    [text, " 5 ", 'text {"a": " 5 "}'],
    [text, '"q"', 'text {"a": "\\"q\\""}'],
    [{ type: "number" }, " 5 ", '{"a": 5}'],
    [{ type: "number" }, '"5"', '{"a": "5"}'],
    [{ type: "number" }, " x", '{"a": " x"}'],
    [{ type: ["string", "null", 3] }, "null", '{"a": null}'],
    [{ type: ["string", "null"] }, '"q"', '{"a": "\\"q\\""}'],
    [{ type: ["string"] }, "5", 'text {"a": "5"}'],
    [{ enum: ["b", "c"] }, "b", 'text {"a": "b"}'],
    [{ enum: ["b", null] }, "null", '{"a": null}'],
    [{ enum: [1, 2] }, '"b"', '{"a": "b"}'],
    [{ enum: [null] }, '"b"', '{"a": "b"}'],
    [{ anyOf: [text, { type: "null" }] }, '"b"', '{"a": "\\"b\\""}'],
    [{ anyOf: [{ type: "number" }, { type: "null" }] }, '"b"', '{"a": "b"}'],
    [{ oneOf: [text, text] }, "7", 'text {"a": "7"}'],
    [{ oneOf: [text, {}] }, "7", '{"a": 7}'],
    [{}, '"b"', '{"a": "\\"b\\""}'],
    [undefined, "True", '{"a": true}'],
    [null, "None", '{"a": null}'],
    [undefined, "False", '{"a": false}'],
  ] as const)
    assert.equal(written(schema, given), expected, JSON.stringify([schema, given]));
});
