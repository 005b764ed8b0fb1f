// The engine as its callers see it, on a host that writes down what it is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OutputWriter } from "../../../test/support/outputs.js";
import { overriding } from "../../../test/support/overriding.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { until } from "../../../test/support/until.js";
import { engineConfig } from "../../config/engine-config.js";
import { ChatTemplate } from "../../tokenizer/chat-template.js";
import type { AddMessage, EngineFacts, FromEngine, ToEngine } from "../messages.js";
import type { StepColumns } from "../outputs.js";
import { openChatCheckpoint } from "./chat-checkpoint.js";
import { HostedEngine } from "./hosted-engine.js";

const model = writeTinyCheckpoint({ layers: 1 });
const checkpoint = openChatCheckpoint(model);
const FACTS = {
  ...{ architecture: "A", vocabSize: 260, maxContext: 64, poolTokens: 48, pageSize: 16, task: "generate", device: "d" },
  ...{ isBidirectional: false, numLabels: 0, scorePooling: "last", hiddenSize: 48 },
} as EngineFacts;

function hosted(options: Record<string, unknown> = {}, facts: Partial<EngineFacts> = {}, opened = checkpoint) {
  const posted: ToEngine[] = [];
  let say!: (message: FromEngine) => void;
  const engine = new HostedEngine(
    engineConfig({ model, worker: false, ...options }),
    null,
    (_config, listener) => {
      say = listener;
      return { post: (message) => posted.push(message), close: async () => {} };
    },
    opened,
  );
  say({ type: "ready", facts: { ...FACTS, ...facts } });
  return { engine, posted, say, last: () => posted.at(-1) as AddMessage & Record<string, unknown> };
}

test("what is asked of an engine crosses to its host", async () => {
  const { engine, posted, say } = hosted();
  engine.warm();
  const asked = [
    engine.stats(),
    engine.inspect.cache(),
    engine.lendPages(Int32Array.of(1), "s", 2, 9),
    engine.takePages(Int32Array.of(1), "s", Uint8Array.of(4)),
  ];
  engine.injectFault("step");
  assert.deepEqual(posted.splice(0), [
    { type: "warm" },
    { type: "query", seq: 0, what: "stats", rows: [] },
    { type: "query", seq: 1, what: "cache", rows: [] },
    { type: "lend_pages", seq: 2, prompt: Int32Array.of(1), salt: "s", from: 2, maxBytes: 9 },
    { type: "take_pages", seq: 3, prompt: Int32Array.of(1), salt: "s", bytes: Uint8Array.of(4) },
    { type: "fault", where: "step" },
  ]);
  for (const seq of [0, 1, 2, 3]) say({ type: "reply", seq, value: seq });
  assert.deepEqual(await Promise.all(asked), [0, 1, 2, 3]);
  const columns = { handles: Int32Array.of(0), starts: Int32Array.of(3), queryLens: Int32Array.of(2) };
  const step = { step: 7, ...columns } as unknown as StepColumns;
  say(new OutputWriter().message([{ callId: "a" }], step));
  const rows = [{ id: "a", start: 3, queryLen: 2, contextLen: 5, isPrefill: false }];
  assert.deepEqual({ ...engine.inspect.history()[0] }, { step: 7, rows });
  assert.equal(await engine.inspect.plan(8), null);
  const plan = engine.inspect.plan(7);
  assert.deepEqual(posted.at(-1), { type: "query", seq: 4, what: "plan", rows });
  say({ type: "reply", seq: 4, value: "plans" });
  assert.equal(await plan, "plans");
  const embedder = hosted({}, { task: "embed" });
  embedder.engine.warm();
  assert.deepEqual(embedder.posted, [], "a model that does not generate has no grammars");
  await assert.rejects(embedder.engine.generate("a").result(), { code: "task_unsupported" });
  const { name, maxLength, maxContext, hasChatTemplate } = engine.model;
  assert.deepEqual([name, maxLength, maxContext, hasChatTemplate], [checkpoint.name, 48, 64, true]);
  assert.equal(engine.chatTemplate, checkpoint.chatTemplate!.source);
  assert.deepEqual(engine.eosIds, [257]);
  assert.deepEqual([engine.tokenizer.decode([104, 105]), [...engine.tokenizer.bytes(104)]], ["hi", [104]]);
  await engine.close();
});

test("a prompt is a text or its ids, a chat is rendered; special tokens are hidden unless asked for", async () => {
  const { engine, last, say } = hosted();
  const give = (...tokens: number[]) => {
    const { callId } = last();
    const trace = { completionTokens: 1 } as never;
    say(new OutputWriter().message([{ callId, tokens, finishReason: "length", trace }]));
  };
  engine.generate("hi");
  assert.deepEqual([last().kind, [...last().prompt]], ["generate", [104, 105]]);
  engine.generate([5, 6]);
  assert.deepEqual([...last().prompt], [5, 6]);
  const asked = async (id: string, messages: Parameters<typeof engine.chat>[0], options = {}) => {
    void engine.chat(messages, { id, ...options });
    await until(() => last().callId === id, "it is asked");
    return [...last().prompt];
  };
  assert.deepEqual(await asked("a", "hi"), [258, 104, 105, 257, 259]);
  const begun = await asked("b", [{ role: "user", content: "<eos>" }], { continueFinalMessage: true });
  assert.deepEqual(begun, [258, ...[..."<eos>"].map((c) => c.charCodeAt(0))], "a message is text");
  await assert.rejects(engine.chat([{ content: "a" } as never]).result(), { param: "messages.0.role" });
  const source = "{% if tools %}T{{ tools | length }}{% endif %}{{ mood }}{{ messages[0].content }}";
  const templated = hosted(
    {},
    {},
    {
      ...checkpoint,
      chatTemplate: new ChatTemplate(new Map([["default", source]]), {}, ""),
      requireTokenizer: () =>
        overriding(checkpoint.tokenizer!, {
          encode: (text, { addSpecialTokens = true } = {}) => [addSpecialTokens ? 1 : 0, ...Buffer.from(text)],
        }),
    },
  ).engine;
  const tools = [{ name: "f" }, { name: "g" }];
  assert.equal(templated.renderPrompt([{ role: "user", content: "x" }]).text, "x");
  const rendered = templated.renderPrompt([{ role: "user", content: "x" }], {
    tools,
    templateArgs: { mood: "!" },
  }).text;
  assert.equal(rendered, "T2!x");
  templated
    .chat("x")
    .result()
    .catch(() => {});
  await templated.close();
  const hidden = engine.generate("a");
  give(104, 259, 105);
  assert.equal((await hidden.result()).text, "hi");
  const shown = engine.generate("a", { skipSpecialTokens: false, logprobs: null });
  give(104, 259, 105);
  const { text, samples } = await shown.result();
  assert.deepEqual([text, samples[0]!.logprobs], ["h<|assistant|>i", null]);
  const reported = engine.generate("a", { logprobs: 1 });
  give(104);
  assert.deepEqual((await reported.result()).samples[0]!.logprobs, []);
  await engine.close();
});

test("calls without a seed draw theirs from the engine's, in order of arrival", async () => {
  const seedsOf = async (seed: number) => {
    const { engine, last } = hosted({ seed });
    const seeds = [0, 1, 2].map(() => {
      engine
        .generate("a")
        .result()
        .catch(() => {});
      return last().sampling.seed;
    });
    await engine.close();
    return seeds;
  };
  const first = await seedsOf(5);
  assert.deepEqual(await seedsOf(5), first);
  assert.equal(new Set([...first, ...(await seedsOf(6))]).size, 6);
  assert.ok(first.every((seed) => Number.isSafeInteger(seed) && seed! > 2 ** 40));
});

test("a relayed call has its fields; one of its samples is aborted, or all", async () => {
  const { engine, posted, last, say } = hosted();
  const heard: string[] = [];
  const deliver = (output: object, isLast: boolean) =>
    heard.push(`${"code" in output ? String(output.code) : "output"}${isLast ? " last" : ""}`);
  const call = { kind: "generate", prompt: [1], options: { id: "r", n: 2 }, resumed: null } as const;
  const abort = engine.relay(call, deliver);
  assert.deepEqual([last().callId, last().sampling.n, "resumed" in last()], ["r", 2, false]);
  abort(0);
  assert.deepEqual([posted.at(-1), heard], [{ type: "abort", callId: "r", index: 0 }, []]);
  abort(1);
  abort(-1);
  assert.deepEqual([posted.at(-1), heard], [{ type: "abort", callId: "r", index: -1 }, ["aborted last"]]);
  const end = (callId: string, index: number) =>
    say(new OutputWriter().message([{ callId, index, finishReason: "stop" }]));
  engine.relay({ ...call, options: { id: "t", n: 2 } }, deliver);
  end("t", 0);
  end("t", 1);
  assert.deepEqual(heard.splice(0), ["aborted last", "output", "output last"]);
  const resumed = { index: 1, tokens: Int32Array.of(3) };
  const text = { kind: "pool", prompt: [1], options: { id: "p" }, resumed: null, pooling: "mean" } as const;
  engine.relay({ ...call, options: { id: "s" }, resumed }, deliver);
  assert.deepEqual(last().resumed, resumed);
  engine.relay(text, deliver);
  assert.deepEqual([last().kind, last().pooling], ["pool", "mean"]);
  end("p", 0);
  assert.deepEqual(heard, ["output last"], "of a text there is one");
  assert.throws(() => engine.relay({ ...text, options: { id: "q" }, resumed }, deliver), { param: "resumed" });
  const embedding = engine.embed(["ab"], { salt: "s", client: "c" }).catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([last().kind, last().sampling.maxTokens, last().salt, last().client], ["embed", 1, "s", "c"]);
  const watched: unknown[] = [];
  engine.watchPrefixes((change) => watched.push(change));
  assert.equal(posted.at(-1)!.type, "watch_prefixes");
  await engine.close();
  await embedding;
});
