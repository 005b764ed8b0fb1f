import assert from "node:assert/strict";
import { test } from "node:test";
import { type AnswerDelta, deltaOf, messageOf } from "./answer-delta.js";

test("parts are deltas: a call begins with its name, and its arguments follow", () => {
  assert.deepEqual(
    [
      deltaOf({ type: "text", text: "a" }),
      deltaOf({ type: "reasoning", text: "b" }),
      deltaOf({ type: "call", index: 1, id: "x", name: "add" }),
      deltaOf({ type: "arguments", index: 1, text: "{}" }),
    ],
    [
      { content: "a" },
      { reasoning_content: "b" },
      { tool_calls: [{ index: 1, id: "x", type: "function", function: { name: "add", arguments: "" } }] },
      { tool_calls: [{ index: 1, function: { arguments: "{}" } }] },
    ],
  );
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
