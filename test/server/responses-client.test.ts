// The Responses API with the clients people bring, each unmodified: OpenAI's, the AI SDK's, the Agents SDK, LangChain.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { generateText, stepCountIs, streamText, tool } from "ai";
import type OpenAI from "openai";
import { z } from "zod";
import { ResponseStore } from "../../src/server/openai/response-store.js";
import { loadClient } from "../support/clients.js";
import { startServer, type TestServer } from "../support/test-server.js";

const MODEL = "story";
const greedy = { model: MODEL, temperature: 0, max_output_tokens: 24 };
const WEATHER = {
  type: "function" as const,
  name: "get_weather",
  description: "Weather of a city",
  strict: true,
  parameters: { type: "object", properties: { city: { enum: ["Rome", "Oslo"] } }, required: ["city"] },
};

let host: TestServer;
let client: OpenAI;
before(async () => {
  host = await startServer({}, { servedModelName: [MODEL], apiKey: ["one", "two"] });
  client = host.client;
});
after(async () => host?.[Symbol.asyncDispose]());

test("an answer, whole and streamed, and every event in its order", async () => {
  const whole = await client.responses.create({ ...greedy, input: "Tell me a story.", instructions: "Be brief." });
  assert.equal(whole.status, "incomplete");
  assert.deepEqual(whole.incomplete_details, { reason: "max_output_tokens" });
  assert.ok(whole.output_text.length > 10);
  const types: string[] = [];
  let numbers = -1;
  let text = "";
  let last: OpenAI.Responses.Response | null = null;
  const stream = await client.responses.create({
    ...greedy,
    input: "Tell me a story.",
    instructions: "Be brief.",
    stream: true,
  });
  for await (const event of stream) {
    assert.equal(event.sequence_number, ++numbers);
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.incomplete") last = event.response;
    if (types.at(-1) !== event.type) types.push(event.type);
  }
  assert.equal(text, whole.output_text);
  assert.equal(last!.output_text ?? text, whole.output_text);
  assert.deepEqual(types, [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.incomplete",
  ]);
});

test("truncation: what is too long is refused, or its oldest items leave until it fits", async () => {
  const words = ["One", "Two", "Three", "Four", "Five", "Six"];
  const input = words.flatMap((word): OpenAI.Responses.ResponseInputItem[] => [
    { role: "user", content: `${word} ${"once upon a time ".repeat(20)}` },
    { role: "assistant", content: "The end." },
  ]);
  input.push({ role: "user", content: "And then?" });
  const ask = { ...greedy, max_output_tokens: 4, instructions: "Be brief." };
  const tooLong = { status: 400, code: "context_length_exceeded" };
  for (const truncation of ["disabled", null] as const)
    await assert.rejects(client.responses.create({ ...ask, input, truncation }), tooLong);
  const cut = await client.responses.create({ ...ask, input, truncation: "auto" });
  assert.equal(cut.truncation, "auto");
  let longest: OpenAI.Responses.Response | null = null;
  for (let from = 2; longest === null; from += 2)
    longest = await client.responses.create({ ...ask, input: input.slice(from) }).catch(() => null);
  assert.deepEqual([cut.usage!.input_tokens, cut.output_text], [longest.usage!.input_tokens, longest.output_text]);
  const next = { ...ask, input: "So?", previous_response_id: cut.id };
  await assert.rejects(client.responses.create(next), tooLong, "all of the conversation is kept");
  assert.ok((await client.responses.create({ ...next, truncation: "auto" })).output_text.length > 0);
  const hopeless = { ...ask, input: "once upon a time ".repeat(200), truncation: "auto" as const };
  await assert.rejects(client.responses.create(hopeless), tooLong);
});

test("stored responses: continued, retrieved, deleted; another key's and unstored ones are not there", async () => {
  const first = await client.responses.create({ ...greedy, input: "Tell me a story." });
  const second = await client.responses.create({ ...greedy, input: "And then?", previous_response_id: first.id });
  const spelled = await client.responses.create({
    ...greedy,
    input: [
      { role: "user", content: "Tell me a story." },
      ...(first.output as OpenAI.Responses.ResponseInputItem[]),
      { role: "user", content: "And then?" },
    ],
  });
  assert.equal(second.output_text, spelled.output_text, "the same conversation");
  assert.equal(second.usage!.input_tokens, spelled.usage!.input_tokens);
  assert.equal((await client.responses.retrieve(second.id)).output_text ?? "", second.output_text);
  const { data } = await client.responses.inputItems.list(second.id);
  assert.equal(data.length, 1);
  const other = client.withOptions({ apiKey: "two" });
  await assert.rejects(other.responses.retrieve(second.id), /There is no response/);
  await assert.rejects(other.responses.create({ ...greedy, input: "x", previous_response_id: first.id }), {
    status: 404,
  });
  const deleted = (await client.responses.delete(second.id)) as unknown;
  assert.deepEqual(deleted, { id: second.id, object: "response", deleted: true });
  await assert.rejects(client.responses.retrieve(second.id), { status: 404 });
  const unstored = await client.responses.create({ ...greedy, input: "x", store: false });
  assert.equal((unstored as { store?: boolean }).store, false);
  await assert.rejects(client.responses.retrieve(unstored.id), { status: 404 });
});

test("what is stored is bounded in number and size; who stores most gives way, oldest first", () => {
  const store = new ResponseStore({ responses: 20, bytes: 6400 });
  const tenantOf = (name: string) => ({ name, salt: name, isAdmin: false });
  const [few, many] = [tenantOf("few"), tenantOf("many")];
  const put = (tenant: typeof few, id: string, text = "") =>
    store.put(tenant, { response: { id, text }, items: [], numInput: 0 });
  put(few, "a", "longer than any of the many");
  for (let i = 0; i < 21; i++) put(many, `m${i}`);
  const kept = (ids: string[]) => ids.filter((id) => store.get(many, id) !== null);
  assert.deepEqual(kept(["m0", "m1", "m2", "m20"]), ["m2", "m20"]);
  const long = "x".repeat(600); // two bytes a character
  for (let i = 0; i < 6; i++) put(many, `l${i}`, long);
  assert.deepEqual(kept(["m20", "l0", "l1", "l5"]), ["l1", "l5"]);
  assert.notEqual(store.get(few, "a"), null);
  const empty = new ResponseStore({
    responses: 20,
    bytes: 2 * (JSON.stringify({ id: "b", text: "" }).length + 2 + 10),
  });
  for (const [length, isKept] of [
    [10, true],
    [11, false],
  ] as const) {
    empty.put(few, { response: { id: `${length}`.slice(1), text: "x".repeat(length) }, items: [], numInput: 0 });
    assert.equal(empty.get(few, `${length}`.slice(1)) !== null, isKept);
  }
});

test("tools: a forced call streamed, its output given back, allowed tools", async () => {
  const request = { model: MODEL, tools: [WEATHER], tool_choice: "required" as const, parallel_tool_calls: false };
  const types = new Set<string>();
  let done = "";
  for await (const event of await client.responses.create({ ...request, input: "Weather?", stream: true })) {
    types.add(event.type);
    if (event.type === "response.function_call_arguments.done") done = event.arguments;
  }
  assert.ok(types.has("response.function_call_arguments.delta"));
  assert.ok(["Rome", "Oslo"].includes(JSON.parse(done).city));
  const called = await client.responses.create({ ...request, input: "Weather?" });
  const call = called.output.find((item) => item.type === "function_call")!;
  assert.equal(called.status, "completed");
  const after = await client.responses.create({
    ...greedy,
    tools: [WEATHER],
    tool_choice: "auto",
    previous_response_id: called.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }],
  });
  assert.ok(after.usage!.input_tokens > called.usage!.input_tokens);
  const allowed = await client.responses.create({
    ...request,
    tools: [WEATHER, { ...WEATHER, name: "other" }],
    tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "other" }] },
    input: "Weather?",
  });
  assert.equal(allowed.output.find((item) => item.type === "function_call")!.name, "other");
});

test("logprobs, formats and errors by their fields", async () => {
  const scored = await client.responses.create({
    ...greedy,
    input: "hi",
    max_output_tokens: 3,
    top_logprobs: 2,
    include: ["message.output_text.logprobs"],
  });
  const [message] = scored.output;
  assert.ok(message?.type === "message" && message.content[0]?.type === "output_text");
  assert.equal(message.content[0].logprobs!.length, 3);
  assert.equal(message.content[0].logprobs![0]!.top_logprobs.length, 2);
  const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
  const format = { type: "json_schema" as const, name: "x", schema };
  const object = await client.responses.create({ model: MODEL, input: "ok?", text: { format } });
  assert.equal(typeof JSON.parse(object.output_text).ok, "boolean");
  const refused: [Record<string, unknown>, string][] = [
    [{ text: { format: { ...format, schema: { type: "integer", multipleOf: 2 } } } }, "text.format.schema"],
    [{ input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] }, "messages"],
    [{ text: { format: { type: "xml" } } }, "text.format.type"],
    [{ input: [{ type: "item_reference", id: "msg_1" }] }, "input.0.id"],
  ];
  for (const [extra, param] of refused)
    await assert.rejects(
      client.responses.create({ ...greedy, input: "x", ...extra } as never),
      (error: { param: string; message: string }) => {
        assert.equal(error.param, param, error.message);
        return true;
      },
    );
});

const aiSdk = await loadClient("@ai-sdk/openai");
test("AI SDK: openai.responses()", { skip: aiSdk.skip }, async () => {
  const openai = aiSdk.client.createOpenAI({ baseURL: `${host.url}/v1`, apiKey: "one" });
  const model = openai.responses(MODEL);
  const { text } = await generateText({ model, prompt: "Tell me a story.", temperature: 0, maxOutputTokens: 24 });
  const streamed = streamText({ model, prompt: "Tell me a story.", temperature: 0, maxOutputTokens: 24 });
  let joined = "";
  for await (const piece of streamed.textStream) joined += piece;
  assert.ok(text.length > 10);
  assert.equal(joined, text);
  let asked = "";
  const weather = tool({
    description: "Weather",
    inputSchema: z.object({ city: z.enum(["Rome", "Oslo"]) }),
    execute: async ({ city }) => {
      asked = city;
      return "sunny";
    },
  });
  await generateText({
    model,
    prompt: "Weather?",
    tools: { weather },
    toolChoice: "required",
    stopWhen: stepCountIs(1),
  });
  assert.ok(["Rome", "Oslo"].includes(asked));
});

const agents = await loadClient("@openai/agents");
test("Agents SDK: an agent with a tool", { skip: agents.skip }, async () => {
  const { Agent, OpenAIProvider, Runner, setTracingDisabled, tool: agentTool } = agents.client;
  setTracingDisabled(true);
  const provider = new OpenAIProvider({ baseURL: `${host.url}/v1`, apiKey: "one", useResponses: true });
  const runner = new Runner({ modelProvider: provider });
  let asked = "";
  const look = agentTool({
    name: "look",
    description: "Look",
    parameters: z.object({ at: z.enum(["sea", "sky"]) }),
    execute: async ({ at }: { at: string }) => {
      asked = at;
      return "waves";
    },
  });
  const agent = new Agent({
    name: "story",
    model: MODEL,
    instructions: "Be brief.",
    tools: [look],
    modelSettings: { toolChoice: "required", parallelToolCalls: false, maxTokens: 200 },
    toolUseBehavior: "stop_on_first_tool",
  });
  const result = await runner.run(agent, "Look around.");
  assert.ok(["sea", "sky"].includes(asked));
  assert.equal(result.finalOutput, "waves");
});

const langchain = await loadClient("@langchain/openai");
test("LangChain: ChatOpenAI with useResponsesApi", { skip: langchain.skip }, async () => {
  const model = new langchain.client.ChatOpenAI({
    model: MODEL,
    temperature: 0,
    maxTokens: 24,
    apiKey: "one",
    useResponsesApi: true,
    configuration: { baseURL: `${host.url}/v1` },
  });
  const whole = await model.invoke("Tell me a story.");
  let joined = "";
  for await (const chunk of await model.stream("Tell me a story.")) joined += chunk.text;
  assert.ok(whole.text.length > 10);
  assert.equal(joined, whole.text);
});
