import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError } from "../../core/errors.js";
import type { InputItem } from "../openai/responses-schema.js";
import type { ChatPlan } from "./chat-plan.js";
import { itemsFrom, laterStarts, planFitting } from "./truncation.js";

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
  const led = [say("developer", "d"), say("user", "1"), say("developer", "e"), say("user", "2")];
  assert.deepEqual(itemsFrom(led, 3), [led[0], led[2], led[3]]);
  assert.deepEqual(itemsFrom(led, 1), led);
});

/** A plan whose prompt has as many tokens as its items have characters, a hundred for what is no text; longer ones are refused. */
async function fitted(items: readonly InputItem[], maxLength: number, refusedFrom = 1e9): Promise<[string, number]> {
  const tried: string[] = [];
  const plan = async (kept: readonly InputItem[]): Promise<ChatPlan> => {
    const text = kept.map((item) => ("role" in item ? item.content : "c".repeat(100))).join("");
    tried.push(text);
    if (text.length >= refusedFrom) throw new RequestError("context_length_exceeded", { value: text.length, limit: 9 });
    return { prompt: Array.from(text, () => 1), options: {}, answer: { reasoning: null, tools: null } };
  };
  const { prompt } = await planFitting(items, maxLength, plan);
  return [tried.find((text) => text.length === prompt.length)!, tried.length];
}

test("the longest end of a conversation that leaves room for an answer is taken, found by halving", async () => {
  const turns = ["a", "b", "c", "d", "e", "f", "g", "h"].map((text) => say("user", text));
  for (let maxLength = 2; maxLength <= 8; maxLength++) {
    for (const refusedFrom of [maxLength, 1e9]) {
      const [text, numTried] = await fitted(turns, maxLength, refusedFrom);
      assert.equal(text, "abcdefgh".slice(9 - maxLength), "one token less than the context: there is to be an answer");
      assert.ok(numTried <= 4, "of seven starts, after all of it");
    }
  }
  assert.deepEqual(await fitted(turns, 9), ["abcdefgh", 1]);
});

test("where nothing fits, all of it is refused as it would be without truncation; other errors are told at once", async () => {
  const turns = [say("user", "aaa"), say("user", "bbb")];
  assert.deepEqual(await fitted(turns, 3), ["aaabbb", 3], "the plan of all items");
  await assert.rejects(fitted(turns, 3, 1), { code: "context_length_exceeded" });
  const failing = planFitting(turns, 3, async () => {
    throw new RequestError("template_failed");
  });
  await assert.rejects(failing, { code: "template_failed" });
});
