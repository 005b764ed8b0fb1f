import assert from "node:assert/strict";
import { test } from "node:test";
import type { InputItem } from "./schemas/responses.js";
import { itemsFrom, laterStarts } from "./truncation.js";

const say = (role: "user" | "assistant" | "developer", content: string): InputItem => ({ role, content });
const call = (call_id: string): InputItem => ({ type: "function_call", call_id, name: "f", arguments: "{}" });
const output = (call_id: string): InputItem => ({ type: "function_call_output", call_id, output: "x" });

test("a conversation begins again with a user's message, or after the last one with a step of the assistant", () => {
  const turns = [
    say("developer", "d"),
    say("user", "1"),
    say("assistant", "2"),
    say("user", "3"),
    call("a"),
    output("a"),
  ];
  assert.deepEqual(laterStarts(turns), [1, 3, 4]);
  const steps = [say("user", "1"), call("a"), call("b"), output("a"), output("b"), call("c"), output("c")];
  assert.deepEqual(laterStarts(steps), [1, 5], "never between the calls of a step and their outputs");
});

test("instructions stay; outputs leave with their calls", () => {
  const items = [
    say("user", "1"),
    say("developer", "d"),
    call("a"),
    say("user", "2"),
    output("a"),
    call("b"),
    output("b"),
  ];
  assert.deepEqual(itemsFrom(items, 3), [items[1], items[3], items[5], items[6]]);
  assert.equal(itemsFrom(items, 0), items);
});
