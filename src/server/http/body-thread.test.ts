import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { chatSchema } from "../openai/chat-schema.js";
import { BodyThread } from "./body-thread.js";
import { parseBody } from "./parse-body.js";

const IS_STRICT = false;
/** With a buffer of its own, which can be moved. */
const ownBytes = (text: string): Buffer => Buffer.from(new TextEncoder().encode(text).buffer);
const bytesOf = (value: unknown): Buffer => ownBytes(JSON.stringify(value));
const chat = (count: number) => ({
  messages: Array.from({ length: count }, (_, i) => ({ role: "user", content: `${i}`, name: null })),
  logit_bias: { 1: 2 },
  odd: { a: 1 },
});

test("a body is parsed in the thread as it is on the caller's, and its bytes are moved there", async () => {
  const bodies = new BodyThread();
  const bytes = bytesOf(chat(3));
  const here = parseBody(chatSchema, bytes, IS_STRICT);
  const parsing = bodies.parse(chatSchema, bytes, IS_STRICT, {});
  assert.equal(bytes.length, 0);
  assert.deepEqual(await parsing, here);
  assert.deepEqual(here.unknown, ["odd"]);
  await bodies.close();
});

test("what is wrong with a body is told as on the caller's thread", async () => {
  const bodies = new BodyThread();
  const bodiesWrong = [bytesOf({ ...chat(1), temperature: "hot" }), ownBytes('{"messages": ')];
  for (const bytes of bodiesWrong) {
    const faultOf = (error: unknown): unknown => {
      const { code, message, param } = error as Record<string, unknown>;
      return { code, message, param };
    };
    let here: unknown;
    try {
      parseBody(chatSchema, Buffer.from(bytes), IS_STRICT);
    } catch (error) {
      here = faultOf(error);
    }
    assert.notEqual(here, undefined);
    const there = await bodies.parse(chatSchema, bytes, IS_STRICT, {}).catch(faultOf);
    assert.deepEqual(there, here);
  }
  const small = z.object({ a: z.string() });
  await assert.rejects(bodies.parse(small, bytesOf({ a: "x" }), IS_STRICT, {}), { code: "body_too_large" });
  await bodies.close();
});

test("clients take turns, however many bodies one of them sends; one whose client has left is skipped", async () => {
  const bodies = new BodyThread();
  const order: string[] = [];
  const parsed = (name: string, signal?: AbortSignal) =>
    bodies.parse(chatSchema, bytesOf(chat(2)), IS_STRICT, { client: name[0]!, signal }).then(
      () => order.push(name),
      (error) => order.push(`${name} ${error.code}`),
    );
  const leaves = new AbortController();
  const all = Promise.all([
    ...["a1", "a2", "a3"].map((name) => parsed(name)),
    parsed("b1"),
    parsed("b2", leaves.signal),
    parsed("c1"),
  ]);
  leaves.abort();
  await all;
  assert.deepEqual(order, ["b2 aborted", "a1", "a2", "b1", "c1", "a3"]);
  await bodies.close();
});
