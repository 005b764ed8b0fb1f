import { test } from "node:test";
import { check, checkCuts } from "../../../test/support/tool-parser-check.js";
import { HERMES } from "./hermes.js";
import { LLAMA3 } from "./llama3.js";
import { MISTRAL } from "./mistral.js";

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
});
