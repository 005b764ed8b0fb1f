// Conversations through the library: typed parts, calls that are parsed and checked, tools that are run, schemas of three libraries, and the
// conventions of an answer on its way. The models' answers are fixed by their weights and templates; everything in between is the real engine.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { asServed } from "../src/engine/served-engine.js";
import { type ChatMessage, createEngine, type Engine, PagodaError } from "../src/index.js";
import { type Script, type ScriptedOptions, writeScriptedModel } from "./support/scripted-model.js";
import { ENDLESS, writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const call = (name: string, args: unknown): string =>
  `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

const SCRIPTS: readonly Script[] = [
  {
    when: "last.content == 'both'",
    answer: ["Two at once.", call("weather", { city: "Rome" }), call("add", { a: 2, b: 3 })],
  },
  { when: "last.content == 'wrong'", answer: [call("weather", { town: "Rome" })] },
  { when: "last.content == 'unknown'", answer: [call("nobody", {})] },
  { when: "last.content == 'for ever'", answer: ["Again.", call("add", { a: 0, b: 1 })] },
  { when: "last.content == 'think'", answer: ["<think>", "Rome is a ", "city.", "</think>", "\n\nIt is."] },
  { when: "numResults > 1", answer: ["It is sunny, and 5."] },
  { when: "last.role == 'tool' and 'Error' in last.content", answer: ["That went wrong."] },
  { when: "numResults > 0", answer: ["More.", call("add", { a: 0, b: 1 })] },
  { when: "true", answer: ["Hello."] },
];

const start = (options: ScriptedOptions = {}, scripts = SCRIPTS): Promise<Engine> =>
  createEngine({ model: writeScriptedModel(scripts, options), device: "reference", numPages: 400, worker: false });
const engine = await start({ tags: ["<think>", "</think>"] });
after(() => engine.close());

const weather = { description: "Weather of a city", parameters: z.object({ city: z.string() }) };
const add = { parameters: z.object({ a: z.number(), b: z.number() }) };

test("an answer is typed parts: text, and calls with their arguments parsed", async () => {
  const answer = engine.chat("both", { tools: { weather, add } });
  const seen: string[] = [];
  for await (const part of answer) {
    if (part.type === "text") seen.push(part.text);
    else if (part.type === "tool-call" && part.name === "weather") seen.push(part.arguments.city satisfies string);
    else if (part.type === "tool-call") seen.push(String((part.arguments.a satisfies number) + part.arguments.b));
    else assert.fail(part.type);
  }
  assert.deepEqual(seen, ["Two at once.", "Rome", "5"]);
  const { text, reasoning, toolCalls, invalidToolCalls, finishReason, usage, message } = await answer;
  assert.deepEqual([text, reasoning, invalidToolCalls, finishReason], ["Two at once.", "", [], "tool-calls"]);
  assert.deepEqual(
    toolCalls.map(({ name, arguments: args }) => [name, args]),
    [
      ["weather", { city: "Rome" }],
      ["add", { a: 2, b: 3 }],
    ],
  );
  assert.ok(usage.promptTokens > 20 && usage.completionTokens === 4);
  assert.deepEqual(message, { role: "assistant", content: text, toolCalls });
  const ids = toolCalls.map(({ id }) => id);
  assert.equal(new Set(ids).size, 2);
  const again: (string | undefined)[] = [];
  for await (const part of engine.chat("both", { tools: { weather, add } }))
    if (part.type === "tool-call") again.push(part.id);
  assert.ok(
    again.every((id) => !ids.includes(id!)),
    "ids are of one answer",
  );
});

test("a call keeps its id however it is read", async () => {
  const answer = engine.chat("both", { tools: { weather, add } });
  const ids: string[] = [];
  for await (const part of answer) if (part.type === "tool-call") ids.push(part.id);
  assert.deepEqual(
    (await answer.result()).toolCalls.map(({ id }) => id),
    ids,
  );
});

test("without tools what looks like a call is text; thoughts are apart", async () => {
  const { text, toolCalls } = await engine.chat("both");
  assert.deepEqual([text.includes("<tool_call>"), toolCalls], [true, []]);
  const answer = await engine.chat("think");
  assert.deepEqual([answer.reasoning, answer.text, answer.finishReason], ["Rome is a city.", "It is.", "stop"]);
  assert.equal(answer.usage.reasoningTokens, 4);
  assert.deepEqual(answer.message, { role: "assistant", content: "It is.", reasoning: "Rome is a city." });
});

test("calls of other tools, and with other arguments than a schema takes, are told as invalid", async () => {
  const [wrong, unknown] = [
    await engine.chat("wrong", { tools: { weather } }),
    await engine.chat("unknown", { tools: { weather } }),
  ];
  assert.deepEqual([wrong.toolCalls, wrong.finishReason], [[], "tool-calls"]);
  const [bad] = wrong.invalidToolCalls;
  assert.deepEqual([bad!.name, JSON.parse(bad!.argumentsText)], ["weather", { town: "Rome" }]);
  assert.match(bad!.reason, /city/);
  assert.equal(unknown.text.includes("nobody") || unknown.invalidToolCalls[0]?.name === "nobody", true);
});

test("run calls the tools until an answer comes without a call", async () => {
  const asked: unknown[] = [];
  const run = engine.run("both", {
    tools: {
      weather: { ...weather, execute: ({ city }) => asked.push(city satisfies string) && { sky: "sunny" } },
      add: { ...add, execute: async ({ a, b }, { id }) => asked.push(typeof id) && a + b },
    },
  });
  const types: string[] = [];
  for await (const part of run) types.push(part.type);
  const { text, answers, messages, usage, finishReason } = await run;
  assert.deepEqual([text, finishReason, asked], ["It is sunny, and 5.", "stop", ["Rome", "string"]]);
  assert.deepEqual(types, ["text", "tool-call", "tool-call", "tool-result", "tool-result", "text"]);
  assert.deepEqual(
    messages.map(({ role, content }) => [role, content]),
    [
      ["assistant", "Two at once."],
      ["tool", '{"sky":"sunny"}'],
      ["tool", "5"],
      ["assistant", "It is sunny, and 5."],
    ],
  );
  assert.equal(
    usage.completionTokens,
    answers.reduce((sum, { usage }) => sum + usage.completionTokens, 0),
  );
  assert.equal(await engine.run("hello", { tools: {} }).text(), "Hello.");
});

test("a tool that fails, or is called wrongly, is told to the model; a model that calls for ever ends", async () => {
  const failing = { ...add, execute: () => Promise.reject(new Error("no numbers today")) };
  const run = engine.run("for ever", { tools: { add: failing } });
  const { messages, text } = await run;
  assert.equal(messages[1]!.content, "Error: no numbers today");
  assert.equal(text, "That went wrong.");
  const errors: unknown[] = [];
  for await (const part of run) if (part.type === "tool-error") errors.push((part.error as Error).message);
  assert.deepEqual(errors, ["no numbers today"], "who comes later hears everything too");
  const invalid = await engine.run("wrong", { tools: { weather: { ...weather, execute: () => assert.fail() } } });
  assert.match(String(invalid.messages[1]!.content), /^Error: .*city/);
  const adding = { add: { ...add, execute: () => 1 } };
  const bounded = await engine.run("for ever", { tools: adding, maxAnswers: 1 });
  assert.deepEqual([bounded.answers.length, bounded.finishReason], [1, "tool-calls"]);
  const refused = engine.run("both", { tools: { weather, add } });
  await assert.rejects(refused.result(), { code: "invalid_value", param: "tools.weather.execute" });
});

test("a choice that is forced, or none", async () => {
  const tools = { weather: { parameters: z.object({ city: z.enum(["Rome", "Oslo"]) }) }, add };
  const forced = await engine.chat("hello", { tools, toolChoice: { name: "weather" }, temperature: 0, maxTokens: 100 });
  assert.deepEqual(
    forced.toolCalls.map(({ name }) => name),
    ["weather"],
  );
  const none = await engine.chat("both", { tools, toolChoice: "none" });
  assert.deepEqual([none.toolCalls, none.text.startsWith("Two at once.")], [[], true]);
  for (const toolChoice of ["sometimes", { name: "nobody" }])
    await assert.rejects(engine.chat("a", { tools, toolChoice: toolChoice as never }).result(), {
      param: "toolChoice",
    });
});

for (const knows of ["system", "user"] as const) {
  test(`a template that knows no tools is told of them in a message of the ${knows}'s`, async () => {
    await using plain = await start({ knows }, [
      { when: "last.content.startswith('<tool_response>')", answer: ["It is sunny."] },
      { when: "'<tools>' in messages[0].content", answer: [call("weather", { city: "Rome" })] },
      { when: "true", answer: ["Hello."] },
    ]);
    const messages: ChatMessage[] = [
      ...(knows === "system" ? [{ role: "system", content: "Be brief." } as const] : []),
      { role: "user", content: "Weather?" },
    ];
    const prompt = await plain.renderChat(messages, { tools: { weather } });
    assert.match(prompt, /"name":"weather","description":"Weather of a city","parameters":.*"city"/);
    assert.equal(prompt.includes("system: "), knows === "system");
    const { text, messages: said } = await plain.run(messages, {
      tools: { weather: { ...weather, execute: () => "sunny" } },
    });
    assert.equal(text, "It is sunny.");
    assert.deepEqual(
      said.map(({ role }) => role),
      ["assistant", "tool", "assistant"],
    );
    const { tokenIds } = (await plain.generate([...messages, ...said.slice(0, 2)], { temperature: 0 })).samples[0]!;
    assert.ok(tokenIds.length > 0, "results are known without tools, too");
    assert.equal((await plain.chat("hi")).text, "Hello.");
  });
}

test("messages and tools are checked: what they cannot be does not compile, and is refused by its place", async () => {
  const refuses = (messages: unknown, param: string, code = "invalid_value") =>
    assert.rejects(engine.chat(messages as string).result(), { code, param });
  // @ts-expect-error no such role
  await refuses([{ role: "usr", content: "a" }] satisfies ChatMessage[], "messages.0.role");
  await refuses([], "messages");
  await refuses([{ role: "user" }], "messages.0.content");
  await refuses([{ role: "user", content: [] }], "messages.0.content");
  await refuses([{ role: "system", content: [{ type: "image", image: "a" }] }], "messages.0.content");
  await refuses([{ role: "tool", content: "a" }], "messages.0.toolCallId");
  await refuses([{ role: "assistant", tool_calls: [] }], "messages.0.tool_calls", "unknown_field");
  await refuses([{ role: "assistant", toolCalls: [{ name: "a" }] }], "messages.0.toolCalls");
  const tools = (given: unknown, param: string, code = "invalid_value") =>
    assert.rejects(engine.chat("a", { tools: given as never }).result(), { code, param });
  await tools([weather], "tools");
  await tools({ "a b": weather }, "tools.a b");
  await tools({ a: { parameters: 1 } }, "tools.a.parameters", "invalid_schema");
  await tools({ a: { parameters: z.object({ at: z.date() }) } }, "tools.a.parameters", "invalid_schema");
  await assert.rejects(engine.chat("a", { n: 2 } as never).result(), { code: "invalid_value", param: "n" });
  await assert.rejects(engine.chat("a", { thinkingBudget: -1 }).result(), { param: "thinkingBudget" });
});

test("schemas of zod, Valibot and ArkType, and plain JSON schemas, make typed objects", async () => {
  await using own = await createEngine({ model: writeTinyCheckpoint(), worker: false, seed: 1 });
  const messages: ChatMessage[] = [{ role: "user", content: "a pet" }];
  const ask = { messages, temperature: 1, seed: 1 };
  const zod = await own.object({ ...ask, schema: z.object({ kind: z.enum(["cat", "dog"]) }) });
  const valibot = await own.object({
    ...ask,
    schema: toStandardJsonSchema(v.object({ kind: v.picklist(["cat", "dog"]) })),
  });
  const ark = await own.object({ ...ask, schema: type({ kind: "'cat' | 'dog'" }) });
  const kinds: ("cat" | "dog")[] = [zod.object.kind, valibot.object.kind, ark.object.kind];
  assert.ok(kinds.every((kind) => kind === "cat" || kind === "dog"));
  const plain = await own.object({ ...ask, schema: { enum: [7] } });
  assert.deepEqual([plain.object, plain.text, plain.usage.completionTokens], [7, "7", 2]);
  const bare = v.object({ kind: v.string() });
  await assert.rejects(own.object({ ...ask, schema: bare }), { code: "invalid_schema", param: "schema" });
  await assert.rejects(own.object({ ...ask, schema: z.object({ kind: z.literal("cat") }), stop: ["cat"] }), {
    code: "object_cut",
  });
});

test("an answer is awaited, read as text or bytes, and left; what is refused rejects, and never throws", async () => {
  assert.equal((await engine.chat("hello")).text, "Hello.");
  assert.equal(await engine.chat("hello").text(), "Hello.");
  assert.equal(await engine.generate("x", { maxTokens: 0 }).text(), "");
  assert.equal(await new Response(engine.chat("think").toReadableStream()).text(), "It is.");
  await using endless = await createEngine({ model: writeTinyCheckpoint(ENDLESS), worker: false, numPages: 2000 });
  const stopped = { name: "AbortError", code: "aborted" };
  const controller = new AbortController();
  const answers = [
    endless.chat("a", { signal: controller.signal }),
    endless.generate("a", { signal: controller.signal }),
    endless.run("a", { tools: {}, signal: controller.signal }),
  ];
  const ends = answers.map((answer) => assert.rejects(answer.result(), stopped));
  controller.abort();
  await Promise.all(ends);
  {
    await using left = endless.chat("a");
    left.result().catch(() => undefined);
  }
  const stream = endless.chat("a").toReadableStream().getReader();
  await stream.read();
  await stream.cancel();
  for await (const _ of endless.chat("a")) break;
  assert.equal((await asServed(endless).stats()).running, 0);
  for (const signal of [AbortSignal.abort(), AbortSignal.timeout(1)]) {
    await assert.rejects(endless.embed(["a"], { signal: AbortSignal.abort() }), stopped);
    await assert.rejects(endless.chat("a", { signal }).result(), stopped);
  }
  const wrong = engine.chat("a", { temperature: -1 });
  await assert.rejects(wrong.result(), PagodaError);
  await assert.rejects(engine.generate("a", { temprature: 1 } as never).result(), { code: "unknown_field" });
});
