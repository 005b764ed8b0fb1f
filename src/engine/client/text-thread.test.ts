import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { openChatCheckpoint } from "./chat-checkpoint.js";
import { TextThread } from "./text-thread.js";

const model = writeTinyCheckpoint({ layers: 1 });
const { tokenizer, chatTemplate } = openChatCheckpoint(model);
const options = { addSpecialTokens: false } as const;
const idsOf = (text: string): Int32Array => Int32Array.from(tokenizer!.encode(text, options));

test("texts are encoded in turn, as by the tokenizer; who leaves before its turn is never begun", async () => {
  const thread = new TextThread(model);
  const [stays, leaves, never] = [new AbortController(), new AbortController(), AbortSignal.abort()];
  const order: string[] = [];
  const encoded = (text: string, signal?: AbortSignal) =>
    thread.run("encode", { text, options }, { signal }).finally(() => order.push(text));
  const first = encoded("first", stays.signal);
  const left = assert.rejects(encoded("left", leaves.signal), { code: "aborted" });
  const second = encoded("second");
  await assert.rejects(encoded("never", never), { code: "aborted" });
  leaves.abort();
  await left;
  assert.deepEqual(await first, idsOf("first"));
  assert.deepEqual(await second, idsOf("second"));
  assert.deepEqual(order, ["never", "left", "first", "second"]);
  assert.equal(getEventListeners(stays.signal, "abort").length, 0);
  const messages = [{ role: "user", content: "hi<eos>" }];
  assert.deepEqual(await thread.run("render", { messages, options: {} }), chatTemplate!.renderPrompt(messages));
  const both = ["late", "waiting"].map((text) => assert.rejects(encoded(text), { code: "engine_dead" }));
  await thread.close();
  await Promise.all(both);
  await thread.close();
});

test("clients take turns, however many texts one of them brings", async () => {
  const thread = new TextThread(model);
  const order: string[] = [];
  const encoded = (text: string, client: string) =>
    thread.run("encode", { text, options }, { client }).then(() => order.push(text));
  await Promise.all([
    ...["a1", "a2", "a3", "a4"].map((text) => encoded(text, "a")),
    ...["b1", "b2"].map((text) => encoded(text, "b")),
    encoded("c1", "c"),
  ]);
  assert.deepEqual(order, ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]);
  await thread.close();
});

test("a text whose caller leaves while it is worked on delays nobody; what fails fails alone", async () => {
  const thread = new TextThread(model);
  const leaves = new AbortController();
  const left = assert.rejects(thread.run("encode", { text: "left", options }, { signal: leaves.signal }), {
    code: "aborted",
  });
  const next = thread.run("encode", { text: "next", options });
  leaves.abort();
  await left;
  assert.deepEqual(await next, idsOf("next"));
  const failed = assert.rejects(thread.run("encode", { text: "fails", options: null as never }), {
    code: "file_corrupt",
  });
  const behind = thread.run("encode", { text: "behind", options });
  await failed;
  assert.deepEqual(await behind, idsOf("behind"));
  await thread.close();
});

/** A model whose template and tokenizer do not end, or need more memory than there is, for certain texts. */
function hostileModel(): string {
  const folder = writeTinyCheckpoint({ layers: 1 });
  const template =
    "{% if messages[0].content == 'grow' %}{% set ns = namespace(t=[0, 1, 2, 3]) %}" +
    "{% for i in range(20) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t | length }}{% else %}ok{% endif %}";
  writeFileSync(join(folder, "chat_template.jinja"), template);
  return folder;
}

test("a task that exceeds its time or memory fails alone: the thread is replaced", async () => {
  const short = new TextThread(model, { taskMs: 0, msPerMegabyte: 0, memoryMb: 512 });
  await assert.rejects(short.run("encode", { text: "x".repeat(3_000_000), options }), { code: "text_failed" });
  await short.close();
  const small = new TextThread(hostileModel(), { taskMs: 60_000, msPerMegabyte: 0, memoryMb: 32 });
  const render = (content: string) => small.run("render", { messages: [{ role: "user", content }], options: {} });
  const grown = assert.rejects(render("grow"), { code: "template_failed" });
  const after = render("hi");
  await grown;
  assert.equal((await after).text.endsWith("ok"), true);
  await small.close();
});
