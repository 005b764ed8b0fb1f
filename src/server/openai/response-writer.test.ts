import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine } from "../../engine/types.js";
import type { AnswerDelta } from "../calls/answer-delta.js";
import { asInput, ResponseWriter } from "./response-writer.js";

/** Its tokens are letters. */
const letters = { tokenizer: { bytes: (id: number) => Buffer.from(String.fromCharCode(id)) } } as unknown as Engine;
const entry = (token: string, logprob: number) => ({ token, logprob, bytes: [token.charCodeAt(0)] });

/** Everything that is told of an answer, and the items at its end; ids by the order of their items. */
function written(deltas: readonly (AnswerDelta & { ids?: readonly number[] })[], finish: "stop" | "length") {
  const writer = new ResponseWriter(letters);
  const events = deltas.flatMap(({ ids = [], ...delta }) => [
    ...writer.take({ delta, logprobs: ids.map((id) => ({ id, logprob: -1, top: [{ id: id + 1, logprob: -2 }] })) }),
  ]);
  events.push(...writer.endAll(finish));
  const names = writer.items.map(({ id }) => id);
  const renamed = JSON.stringify({ events, items: asInput(writer.items) }).replaceAll(
    /(msg|rs|fc)_[0-9a-f-]{36}/g,
    (id) => `${id.split("_")[0]}${names.indexOf(id)}`,
  );
  return JSON.parse(renamed) as { events: { type: string; fields: Record<string, unknown> }[]; items: unknown[] };
}

const call = (id: string, name: string, text: string): AnswerDelta => ({
  tool_calls: [{ index: 0, id, type: "function", function: { name, arguments: text } }],
});
const more = (text: string): AnswerDelta => ({ tool_calls: [{ index: 0, function: { arguments: text } }] });

test("thoughts, a text with log-probabilities and calls: every event, in OpenAI's order", () => {
  const { events, items } = written(
    [
      { reasoning_content: "hm" },
      { content: "" },
      { content: "a", ids: [97] },
      { content: "", ids: [98] },
      { content: "b" },
      call("call_1", "add", ""),
      more('{"x":'),
      more("1}"),
      call("call_2", "sub", ""),
    ],
    "stop",
  );
  const logprobs = [
    { ...entry("a", -1), top_logprobs: [entry("b", -2)] },
    { ...entry("b", -1), top_logprobs: [entry("c", -2)] },
  ];
  const thought = { type: "reasoning_text", text: "hm" };
  const text = { type: "output_text", text: "ab", annotations: [], logprobs };
  const reasoning = { id: "rs0", type: "reasoning", summary: [], content: [], status: "in_progress" };
  const message = { id: "msg1", type: "message", role: "assistant", status: "in_progress", content: [] };
  const calls = [
    { id: "fc2", type: "function_call", call_id: "call_1", name: "add", arguments: "", status: "in_progress" },
    { id: "fc3", type: "function_call", call_id: "call_2", name: "sub", arguments: "", status: "in_progress" },
  ];
  const done = [
    { ...reasoning, content: [thought], status: "completed" },
    { ...message, content: [text], status: "completed" },
    { ...calls[0], arguments: '{"x":1}', status: "completed" },
    { ...calls[1], arguments: "{}", status: "completed" },
  ];
  const ids = ["rs0", "msg1", "fc2", "fc3"];
  const at = (index: number, type: string, fields: object) => ({
    ...{ type: `response.${type}`, fields: { item_id: ids[index], output_index: index, ...fields } },
  });
  const added = (index: number, item: unknown) => ({
    ...{ type: "response.output_item.added", fields: { output_index: index, item } },
  });
  const ended = (index: number) => ({
    ...{ type: "response.output_item.done", fields: { output_index: index, item: done[index] } },
  });
  const delta = (index: number, kind: string, fields: object) =>
    at(index, `${kind}.delta`, { content_index: 0, ...fields });
  assert.deepEqual(events, [
    added(0, reasoning),
    at(0, "content_part.added", { content_index: 0, part: { type: "reasoning_text", text: "" } }),
    delta(0, "reasoning_text", { delta: "hm" }),
    at(0, "reasoning_text.done", { content_index: 0, text: "hm" }),
    at(0, "content_part.done", { content_index: 0, part: thought }),
    ended(0),
    added(1, message),
    // The list of its log-probabilities is the item's own, and grows.
    at(1, "content_part.added", { content_index: 0, part: { ...text, text: "" } }),
    delta(1, "output_text", { delta: "a", logprobs: logprobs.slice(0, 1) }),
    delta(1, "output_text", { delta: "", logprobs: logprobs.slice(1) }),
    delta(1, "output_text", { delta: "b", logprobs: [] }),
    at(1, "output_text.done", { content_index: 0, text: "ab", logprobs }),
    at(1, "content_part.done", { content_index: 0, part: text }),
    ended(1),
    added(2, calls[0]),
    at(2, "function_call_arguments.delta", { delta: '{"x":' }),
    at(2, "function_call_arguments.delta", { delta: "1}" }),
    at(2, "function_call_arguments.done", { name: "add", arguments: '{"x":1}' }),
    ended(2),
    added(3, calls[1]),
    at(3, "function_call_arguments.done", { name: "sub", arguments: "{}" }),
    ended(3),
  ]);
  assert.deepEqual(items, done);
});

test("an answer that was cut is incomplete in its last item; one that only thought has a message without a word", () => {
  const kinds = (answer: ReturnType<typeof written>) =>
    (answer.items as { type: string; status: string }[]).map(({ type, status }) => `${type} ${status}`);
  assert.deepEqual(kinds(written([call("1", "f", "{"), { content: "a" }], "length")), [
    "function_call completed",
    "message incomplete",
  ]);
  assert.deepEqual(kinds(written([{ reasoning_content: "a" }], "stop")), ["reasoning completed", "message completed"]);
  assert.deepEqual(kinds(written([], "stop")), ["message completed"]);
  assert.deepEqual(kinds(written([call("1", "f", "{")], "length")), ["function_call incomplete"]);
  assert.deepEqual(kinds(written([{ content: "a" }, { reasoning_content: "b" }, { content: "c" }], "stop")), [
    ...["message completed", "reasoning completed", "message completed"],
  ]);
});
