import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { openCheckpoint } from "../checkpoint.js";
import { TokenizerThread } from "./tokenizer-thread.js";

const model = writeTinyCheckpoint({ layers: 1 });
const tokenizer = openCheckpoint(model).tokenizer!;
const options = { addSpecialTokens: false } as const;

test("texts are encoded in turn, as by the tokenizer; who leaves before its turn is never begun", async () => {
  const thread = new TokenizerThread(model);
  const [stays, leaves, never] = [new AbortController(), new AbortController(), AbortSignal.abort()];
  const order: string[] = [];
  const encoded = (text: string, signal?: AbortSignal) =>
    thread.encode(text, options, signal).finally(() => order.push(text));
  const first = encoded("first", stays.signal);
  const left = assert.rejects(encoded("left", leaves.signal), { code: "aborted" });
  const second = encoded("second");
  await assert.rejects(encoded("never", never), { code: "aborted" });
  leaves.abort();
  await left;
  assert.deepEqual(await first, tokenizer.encode("first", options));
  assert.deepEqual(await second, tokenizer.encode("second", options));
  assert.deepEqual(order, ["never", "left", "first", "second"]);
  assert.equal(getEventListeners(stays.signal, "abort").length, 0);
  assert.deepEqual(await thread.encode("again", { ...options, content: [[0, 5]] }), tokenizer.encode("again", options));
  const late = thread.encode("late", options);
  const waiting = thread.encode("waiting", options);
  const both = [late, waiting].map((text) => assert.rejects(text, { code: "engine_dead", message: /it was closed/ }));
  await thread.close();
  await Promise.all(both);
});

test("a text whose caller leaves while it is encoded delays nobody; a thread that fails is replaced", async () => {
  const thread = new TokenizerThread(model);
  const leaves = new AbortController();
  const left = assert.rejects(thread.encode("left", options, leaves.signal), { code: "aborted" });
  const next = thread.encode("next", options);
  leaves.abort();
  await left;
  assert.deepEqual(await next, tokenizer.encode("next", options));
  const failed = assert.rejects(thread.encode("fails", null as never), { code: "engine_dead" });
  const behind = assert.rejects(thread.encode("behind", options), { code: "engine_dead" });
  await Promise.all([failed, behind]);
  assert.deepEqual(await thread.encode("after", options), tokenizer.encode("after", options));
  await thread.close();
  await thread.close();
});
