import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer, type AnswerDelta, messageOf } from "./answer.js";
import { THINK } from "./reasoning.js";
import { HERMES } from "./tools/hermes.js";
import { MISTRAL } from "./tools/mistral.js";
import type { ToolFormat } from "./tools/tool-format.js";

const set = { names: new Set(["add"]), parameter: () => undefined };
const toolsOf = (format: ToolFormat) => ({ format, set });
const CALL = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>';

/** Ids are random: they are looked at, and left out. */
function withoutIds(deltas: readonly AnswerDelta[], form: RegExp): AnswerDelta[] {
  return deltas.map((delta) => {
    if (delta.tool_calls === undefined) return delta;
    const tool_calls = delta.tool_calls.map(({ id, ...call }) => {
      if (id !== undefined) assert.match(id, form);
      return call;
    });
    return { tool_calls };
  });
}

test("an answer is taken apart as it comes: thoughts, text, calls with running indices", () => {
  const answer = new Answer({ reasoning: { tags: THINK, isThinking: true }, tools: toolsOf(HERMES) });
  const deltas = [
    ...answer.push(`I think</think>So ${CALL}`),
    ...answer.push(CALL),
    ...answer.push("end <tool"),
    ...answer.flush(),
  ];
  const begin = (index: number) => ({ index, type: "function" as const, function: { name: "add", arguments: "" } });
  const rest = (index: number) => ({ index, function: { arguments: '{"a": 1}' } });
  assert.deepEqual(withoutIds(deltas, /^call_[0-9a-f]{24}$/), [
    { reasoning_content: "I think" },
    { content: "So" },
    { tool_calls: [begin(0)] },
    { tool_calls: [rest(0)] },
    { tool_calls: [begin(1)] },
    { tool_calls: [rest(1)] },
    { content: "end" },
    { content: " <tool" },
  ]);
  assert.equal(answer.numCalls, 2);
});

test("without tags and tools all is text; what was held back comes at the end, as what it was", () => {
  const plain = new Answer({ reasoning: null, tools: null });
  assert.deepEqual([plain.push(""), plain.push(CALL), plain.flush()], [[], [{ content: CALL }], []]);
  const held = (isThinking: boolean, tools: ReturnType<typeof toolsOf> | null) => {
    const answer = new Answer({ reasoning: { tags: THINK, isThinking }, tools });
    return [answer.push("<thin"), answer.flush()];
  };
  assert.deepEqual(held(true, null), [[{ reasoning_content: "<thin" }], []]);
  assert.deepEqual(held(false, null), [[], [{ content: "<thin" }]]);
  assert.deepEqual(held(false, toolsOf(HERMES)), [[], [{ content: "<thin" }]]);
  const thinking = new Answer({ reasoning: { tags: THINK, isThinking: true }, tools: null });
  assert.deepEqual(
    [thinking.push("a </thi"), thinking.flush()],
    [[{ reasoning_content: "a" }], [{ reasoning_content: " </thi" }]],
  );
});

test("Mistral's ids have nine characters, as its template wants them", () => {
  const answer = new Answer({ reasoning: null, tools: toolsOf(MISTRAL) });
  const deltas = answer.push('[TOOL_CALLS]add[ARGS]{"a": 1}');
  assert.equal(withoutIds(deltas, /^[0-9a-f]{9}$/).length, 2);
});

test("deltas make a message; without a word beside its calls it has no content", () => {
  const call = (index: number, id: string, name: string): AnswerDelta => ({
    tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }],
  });
  const more = (index: number, text: string): AnswerDelta => ({
    tool_calls: [{ index, function: { arguments: text } }],
  });
  const whole = (id: string, name: string, text: string) => ({
    ...{ id, type: "function", function: { name, arguments: text } },
  });
  const calls = [call(0, "x", "add"), more(0, '{"a":'), more(0, "1}"), call(1, "y", "sub")];
  const tool_calls = [whole("x", "add", '{"a":1}'), whole("y", "sub", "{}")];
  assert.deepEqual(messageOf(calls), { role: "assistant", content: null, tool_calls });
  assert.deepEqual(
    messageOf([{ content: "a" }, { reasoning_content: "b" }, { content: "c" }, { reasoning_content: "d" }, ...calls]),
    {
      ...{ role: "assistant", content: "ac", reasoning_content: "bd", tool_calls },
    },
  );
  const one = { role: "assistant", content: null, tool_calls: [whole("x", "add", "{}")] };
  assert.deepEqual(messageOf([call(0, "x", "add")]), one);
  assert.deepEqual(messageOf([]), { role: "assistant", content: "" });
});
