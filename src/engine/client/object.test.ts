import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { overriding } from "../../../test/support/overriding.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import type { ChatMessage } from "../chat-types.js";
import { createEngine } from "./engine.js";
import { generateObject } from "./object.js";

test("a schema goes in, a typed value comes out; refinements and cut answers are told", async () => {
  await using engine = await createEngine({ model: writeTinyCheckpoint(), worker: false, seed: 1 });
  const schema = z.object({
    name: z.string().min(1).max(6),
    kind: z.enum(["cat", "dog"]),
    legs: z
      .int()
      .min(0)
      .max(8)
      .transform((legs) => legs * 2),
    owner: z.object({ age: z.number().min(0).max(1) }).optional(),
  });
  const messages: ChatMessage[] = [{ role: "user", content: "a pet" }];
  const { object, trace } = await engine.object({ messages, schema, temperature: 1, seed: 1 });
  const kind: "cat" | "dog" = object.kind; // typed
  assert.ok(["cat", "dog"].includes(kind));
  assert.ok(object.legs % 2 === 0 && object.legs <= 16);
  assert.ok(trace.completionTokens > 10);
  assert.deepEqual((await engine.object({ prompt: "a pet", schema: z.literal("x") })).object, "x");

  await assert.rejects(engine.object({ messages, schema, maxTokens: 3 }), /cut after 3 tokens/);
  const impossible = z
    .string()
    .max(3)
    .refine(() => false, "never good");
  await assert.rejects(engine.object({ messages, schema: impossible }), /never good/);
  await assert.rejects(engine.object({ messages, schema: z.number().multipleOf(7) }), /multipleOf is not supported/);
  await assert.rejects(engine.object({ schema }), { param: "prompt" });
  await assert.rejects(engine.object({ schema, messages, prompt: "a" }), { param: "prompt" });

  const seen: object[] = [];
  const watched = overriding(engine, {
    chat: (told, options = {}) => {
      seen.push(options);
      return engine.chat(told, options);
    },
  });
  const template = { thinkingBudget: 3, templateArgs: { mood: "good" } };
  for (const more of [{}, template]) await generateObject(watched, { messages, schema: z.literal("x"), ...more });
  const given = seen.map((options) => Object.fromEntries(Object.entries(options).filter(([key]) => key in template)));
  assert.deepEqual(given, [{}, template]);
});
