import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer, type AnswerPart } from "./answer.js";
import { THINK } from "./reasoning.js";
import { HERMES } from "./tools/hermes.js";
import { MISTRAL } from "./tools/mistral.js";
import type { ToolFormat } from "./tools/tool-format.js";

const set = { names: new Set(["add"]), parameter: () => undefined };
const toolsOf = (format: ToolFormat) => ({ format, set });
const CALL = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>';

/** Ids are random: they are looked at, and left out. */
function withoutIds(parts: readonly AnswerPart[], form: RegExp): unknown[] {
  return parts.map((part) => {
    if (part.type !== "call") return part;
    const { id, ...call } = part;
    assert.match(id, form);
    return call;
  });
}

test("an answer is taken apart as it comes: thoughts, text, calls with running indices", () => {
  const answer = new Answer({ reasoning: { tags: THINK, isThinking: true }, tools: toolsOf(HERMES) });
  const parts = [
    ...answer.push(`I think</think>So ${CALL}`),
    ...answer.push(CALL),
    ...answer.push("end <tool"),
    ...answer.flush(),
  ];
  const begin = (index: number) => ({ type: "call", index, name: "add" });
  const rest = (index: number) => ({ type: "arguments", index, text: '{"a": 1}' });
  assert.deepEqual(withoutIds(parts, /^call_[0-9a-f]{24}$/), [
    { type: "reasoning", text: "I think" },
    { type: "text", text: "So" },
    begin(0),
    rest(0),
    begin(1),
    rest(1),
    { type: "text", text: "end" },
    { type: "text", text: " <tool" },
  ]);
  assert.equal(answer.numCalls, 2);
});

test("without tags and tools all is text; what was held back comes at the end, as what it was", () => {
  const plain = new Answer({ reasoning: null, tools: null });
  assert.deepEqual([plain.push(""), plain.push(CALL), plain.flush()], [[], [{ type: "text", text: CALL }], []]);
  const held = (isThinking: boolean, tools: ReturnType<typeof toolsOf> | null) => {
    const answer = new Answer({ reasoning: { tags: THINK, isThinking }, tools });
    return [answer.push("<thin"), answer.flush()];
  };
  assert.deepEqual(held(true, null), [[{ type: "reasoning", text: "<thin" }], []]);
  assert.deepEqual(held(false, null), [[], [{ type: "text", text: "<thin" }]]);
  assert.deepEqual(held(false, toolsOf(HERMES)), [[], [{ type: "text", text: "<thin" }]]);
  const thinking = new Answer({ reasoning: { tags: THINK, isThinking: true }, tools: null });
  assert.deepEqual(
    [thinking.push("a </thi"), thinking.flush()],
    [[{ type: "reasoning", text: "a" }], [{ type: "reasoning", text: " </thi" }]],
  );
});

test("Mistral's ids have nine characters, as its template wants them", () => {
  const answer = new Answer({ reasoning: null, tools: toolsOf(MISTRAL) });
  const parts = answer.push('[TOOL_CALLS]add[ARGS]{"a": 1}');
  assert.equal(withoutIds(parts, /^[0-9a-f]{9}$/).length, 2);
});
