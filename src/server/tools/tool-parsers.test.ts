import assert from "node:assert/strict";
import { test } from "node:test";
import { HERMES } from "./hermes.js";
import { LLAMA3 } from "./llama3.js";
import { MISTRAL } from "./mistral.js";
import type { ToolFormat } from "./tool-format.js";

interface Parsed {
  text: string;
  calls: { name: string; arguments: string }[];
}

function parse(format: ToolFormat, text: string, size: number): Parsed {
  const parser = format.createParser(new Set(["get", "put"]));
  const out: Parsed = { text: "", calls: [] };
  const events = [];
  for (let i = 0; i < text.length; i += size) events.push(...parser.push(text.slice(i, i + size)));
  events.push(...parser.flush());
  for (const event of events) {
    if (event.kind === "text") out.text += event.text;
    else if (event.kind === "call") {
      assert.equal(event.index, out.calls.length);
      out.calls.push({ name: event.name, arguments: "" });
    } else out.calls[event.index]!.arguments += event.text;
  }
  return out;
}

function check(format: ToolFormat, cases: [string, string, [string, string][]][]): void {
  for (const [text, content, calls] of cases) {
    for (let size = 1; size <= text.length; size++) {
      const expected = { text: content, calls: calls.map(([name, args]) => ({ name, arguments: args })) };
      assert.deepEqual(parse(format, text, size), expected, `${JSON.stringify(text)} by ${size}`);
    }
  }
}

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
    ['[{"name": "get", "arguments": {"a": 1}}]', "", [["get", '{"a": 1}']]],
    ['[{"x": 1}]', '[{"x": 1}]', []],
    ["[1, 2]", "[1, 2]", []],
    ["plain [TOOL", "plain [TOOL", []],
  ]);
});
