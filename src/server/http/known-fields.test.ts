import assert from "node:assert/strict";
import { test } from "node:test";
import { countTokensSchema } from "../anthropic/schema.js";
import { chatSchema } from "../openai/chat-schema.js";
import { responseSchema } from "../openai/responses-schema.js";
import { parseKnown } from "./known-fields.js";

const messages = [{ role: "user", content: "a" }];
const lenient = { isStrict: false };

test("fields nobody knows are left out and named once, at every depth", () => {
  const tools = ["f", "g"].map((name) => ({ type: "function", function: { name, odd: 1 } }));
  const taken = parseKnown(chatSchema, { messages, tools, cache_prompt: true, temperature: 0.5 }, lenient);
  assert.ok("data" in taken);
  assert.deepEqual(taken.unknown.toSorted(), ["cache_prompt", "tools.*.function.odd"]);
  assert.equal(taken.data.temperature, 0.5);
  assert.deepEqual(
    taken.data.tools,
    ["f", "g"].map((name) => ({ type: "function", function: { name } })),
  );
});

test("inside alternatives too", () => {
  const input = [{ type: "message", role: "user", content: [{ type: "input_text", text: "a", odd: 1 }], more: 1 }];
  const taken = parseKnown(responseSchema, { input, odd_metadata: { a: "b" } }, lenient);
  assert.ok("data" in taken, JSON.stringify(taken));
  assert.deepEqual(taken.unknown.toSorted(), ["input.*.content.*.odd", "input.*.more", "odd_metadata"]);
});

test("null is left out, of known and of unknown fields, and names nothing", () => {
  const tools = [{ name: "f", description: null, input_schema: {} }];
  for (const isStrict of [false, true]) {
    const taken = parseKnown(countTokensSchema, { model: "m", messages, tools, odd: null }, { isStrict });
    assert.ok("data" in taken);
    assert.deepEqual(taken.unknown, []);
    assert.equal("description" in taken.data.tools![0]!, false);
  }
});

test("what is wrong otherwise stays wrong, with the unknown fields beside it", () => {
  const refused = parseKnown(chatSchema, { mesages: messages, temperature: 1 }, lenient);
  assert.ok("issue" in refused);
  assert.deepEqual([refused.issue.path, refused.unknown], [["messages"], ["mesages"]]);
  for (const body of [{ messages: null }, { messages, temperature: "1" }, { messages: [null] }])
    assert.ok("issue" in parseKnown(chatSchema, body, lenient), JSON.stringify(body));
});

test("strict: the first unknown field is the issue", () => {
  const refused = parseKnown(chatSchema, { messages, odd: 1 }, { isStrict: true });
  assert.ok("issue" in refused);
  assert.equal(refused.issue.code, "unrecognized_keys");
});
