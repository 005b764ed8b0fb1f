// Fields and forms of the routes that no client's own tests ask for: vLLM's prompt_logprobs, Ollama's older forms, what is echoed.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, each looked at below
type Json = any;

let host: TestServer;
before(async () => {
  const model = writeTinyCheckpoint();
  writeFileSync(
    join(model, "generation_config.json"),
    JSON.stringify({ eos_token_id: 257, temperature: 0.6, top_k: 20 }),
  );
  host = await startServer({ model, maxContext: 48 }, { servedModelName: ["tiny"] });
});
after(async () => host?.[Symbol.asyncDispose]());

async function post(path: string, body: object): Promise<[status: number, body: Json]> {
  const reply = await host.post(path, body);
  return [reply.status, await reply.json()];
}

test("completions: prompt_logprobs of every prompt token, only when asked for, and never streamed", async () => {
  const ask = { prompt: [5, 6, 7, 8], max_tokens: 2, temperature: 0 };
  const [status, { choices }] = await post("/v1/completions", { ...ask, prompt_logprobs: 2 });
  assert.equal(status, 200);
  const [first, ...others] = choices[0].prompt_logprobs;
  assert.equal(first, null, "nothing comes before it");
  for (const [i, position] of others.entries()) {
    assert.ok(Object.keys(position).length >= 2);
    assert.ok(position[ask.prompt[i + 1]!].logprob <= 0, "its own token is always there");
  }
  assert.equal(others.length, 3);
  const [, plain] = await post("/v1/completions", ask);
  assert.equal("prompt_logprobs" in plain.choices[0], false);
  assert.equal(plain.choices[0].text, choices[0].text);
  assert.equal(plain.choices[0].logprobs, null);
  for (const [param, more] of [
    ["prompt_logprobs", { stream: true, prompt_logprobs: 1 }],
    ["best_of", { best_of: 3, n: 2 }],
  ] as const) {
    const [refused, { error }] = await post("/v1/completions", { ...ask, ...more });
    assert.deepEqual([refused, error.param], [400, param]);
  }
  assert.equal((await post("/v1/completions", { ...ask, best_of: 2, n: 2 }))[1].choices.length, 2);
});

test("completions: streamed log-probabilities say where each token's text begins in its own sample", async () => {
  const ask = { prompt: ["ab", "c"], n: 2, max_tokens: 4, logprobs: 1, stream: true, ignore_eos: true, seed: 3 };
  const reply = await host.post("/v1/completions", ask);
  const texts = ["", "", "", ""];
  const numTokens = [0, 0, 0, 0];
  for (const line of (await reply.text()).split("\n")) {
    if (!line.startsWith("data: {")) continue;
    const { index, text, logprobs } = JSON.parse(line.slice(6)).choices[0];
    let at = texts[index]!.length;
    for (const [i, token] of logprobs.tokens.entries()) {
      assert.equal(logprobs.text_offset[i], at, `sample ${index}`);
      at += token.length;
    }
    texts[index] += text;
    numTokens[index]! += logprobs.tokens.length;
  }
  assert.deepEqual(numTokens, [4, 4, 4, 4]);
  assert.ok(texts.every((text) => text !== ""));
});

test("who waits goes by priority, which is 0 for those who name none", async () => {
  const { gate, config } = host.server.context;
  const inside = Array.from({ length: config.maxConcurrent }, () => gate.enter(0, new AbortController().signal));
  const leaves = await Promise.all(inside);
  const order: string[] = [];
  const asked = [
    ["last", "/v1/chat/completions", { messages: [{ role: "user", content: "a" }], priority: 1 }],
    ["second", "/v1/responses", { input: "a", store: false }],
    ["first", "/v1/completions", { prompt: "a", priority: -1 }],
  ] as const;
  const answers = [];
  for (const [i, [name, path, body]] of asked.entries()) {
    const limit = path === "/v1/responses" ? { max_output_tokens: 1 } : { max_tokens: 1 };
    answers.push(host.post(path, { ...body, ...limit }).then(({ status }) => order.push(`${name} ${status}`)));
    await until(() => gate.queued === i + 1, "it waits");
  }
  leaves.pop()!();
  await Promise.all(answers);
  for (const leave of leaves) leave();
  assert.deepEqual(order, ["first 200", "second 200", "last 200"]);
});

test("completions: one prompt or several, as text or as tokens", async () => {
  for (const [prompt, count] of [
    ["a", 1],
    [["a", "b"], 2],
    [[5, 6], 1],
    [[[5, 6], [7], [8]], 3],
  ] as const) {
    const [, { choices }] = await post("/v1/completions", { prompt, max_tokens: 1 });
    assert.deepEqual(
      choices.map(({ index }: Json) => index),
      Array.from({ length: count }, (_, i) => i),
    );
  }
});

test("Ollama: keep_alive of nothing unloads; without a prompt the model is only loaded", async () => {
  for (const keep_alive of [0, "0", "0s"]) {
    const [status, body] = await post("/api/generate", { model: "tiny", keep_alive });
    assert.deepEqual([status, body.done_reason], [200, "unload"], `${keep_alive}`);
  }
  for (const keep_alive of [1, "5m", -1]) {
    const [status, body] = await post("/api/generate", { model: "tiny", keep_alive });
    assert.deepEqual([status, body.done_reason, body.response], [200, "load", ""]);
  }
  const [, said] = await post("/api/generate", { model: "tiny", prompt: "a", raw: true, stream: false });
  assert.deepEqual([said.done, said.load_duration, said.eval_count > 0], [true, 0, true]);
  assert.equal((await fetch(`${host.url}/health`)).status, 200);
});

test("Ollama: logprobs of every token, answered, continued and streamed", async () => {
  const ask = { model: "tiny", logprobs: true, top_logprobs: 2, options: { num_predict: 4, temperature: 0 } };
  const messages = [{ role: "user", content: "a" }];
  const [, whole] = await post("/api/chat", { ...ask, messages, stream: false });
  const limits = { max_tokens: 4, temperature: 0, logprobs: true, top_logprobs: 2 };
  const [, openai] = await post("/v1/chat/completions", { messages, ...limits });
  assert.deepEqual(whole.logprobs, openai.choices[0].logprobs.content);
  const lines = (await (await host.post("/api/chat", { ...ask, messages })).text()).trim().split("\n");
  assert.deepEqual(
    lines.flatMap((line) => JSON.parse(line).logprobs ?? []),
    whole.logprobs,
  );
  const raw = { ...ask, prompt: "a", raw: true, stream: false };
  for (const top_logprobs of [2, undefined])
    assert.equal((await post("/api/generate", { ...raw, top_logprobs }))[1].logprobs.length, 4);
  assert.equal("logprobs" in (await post("/api/generate", { ...raw, logprobs: false, top_logprobs: null }))[1], false);
});

test("Ollama: the older way to embed is the newer one of one text, and cuts what is too long; models are shown by either name", async () => {
  const [, older] = await post("/api/embeddings", { model: "tiny", prompt: "a cat" });
  const [, newer] = await post("/api/embed", { model: "tiny", input: "a cat" });
  assert.deepEqual(older.embedding, newer.embeddings[0]);
  assert.ok(Math.abs(Math.hypot(...older.embedding) - 1) < 1e-3);
  const long = "a cat ".repeat(400);
  assert.equal((await post("/api/embeddings", { model: "tiny", prompt: long }))[0], 200);
  assert.equal((await post("/api/embed", { model: "tiny", input: long, truncate: false }))[0], 400);
  assert.equal((await post("/api/show", { model: "tiny" }))[1].parameters, "temperature 0.6\ntop_k 20");
  for (const by of ["model", "name"]) {
    assert.equal((await post("/api/show", { [by]: "tiny" }))[0], 200);
    assert.equal((await post("/api/show", { [by]: "large" }))[0], 404);
  }
});

test("responses: what was asked for is repeated, and nothing is where nothing was; input is listed as items", async () => {
  const ask = { input: "a", store: false };
  const [, limited] = await post("/v1/responses", { ...ask, max_output_tokens: 3, metadata: { a: "b" } });
  assert.deepEqual([limited.max_output_tokens, limited.metadata], [3, { a: "b" }]);
  assert.equal(limited.usage.output_tokens, 3);
  assert.deepEqual(limited.usage.output_tokens_details, { reasoning_tokens: 0 });
  const [, free] = await post("/v1/responses", ask);
  assert.deepEqual([free.max_output_tokens, free.metadata], [null, {}]);
  const [, { id }] = await post("/v1/responses", { input: "a", max_output_tokens: 1 });
  const listed = await (await fetch(`${host.url}/v1/responses/${id}/input_items`)).json();
  const content = [{ type: "input_text", text: "a" }];
  assert.deepEqual((listed as Json).data, [
    { id: "item_0", type: "message", role: "user", status: "completed", content },
  ]);
});

test("every endpoint that takes a model refuses one that is not served, as its API writes errors", async () => {
  const messages = [{ role: "user", content: "a" }];
  for (const [path, body, told] of [
    ["/v1/completions", { prompt: "a" }, (error: Json) => error.message],
    ["/v1/chat/completions", { messages }, (error: Json) => error.message],
    ["/v1/responses", { input: "a" }, (error: Json) => error.message],
    ["/v1/embeddings", { input: "a" }, (error: Json) => error.message],
    ["/v1/rerank", { query: "a", documents: ["b"] }, (error: Json) => error.message],
    ["/v1/messages", { messages, max_tokens: 1 }, (error: Json) => error.message],
    ["/tokenize", { prompt: "a" }, (error: Json) => error.message],
    ["/api/chat", { messages }, (error: Json) => error],
    ["/api/generate", { prompt: "a" }, (error: Json) => error],
    ["/api/embed", { input: "a" }, (error: Json) => error],
    ["/api/embeddings", { prompt: "a" }, (error: Json) => error],
  ] as const) {
    const [status, { error }] = await post(path, { ...body, model: "large" });
    assert.equal(status, 404, path);
    assert.match(told(error), /"large" is not served here/, path);
  }
  // What their clients know and Pagoda has not.
  assert.match((await post("/api/push", { model: "a" }))[1].error, /no POST \/api\/push/);
  assert.equal((await post("/v1/messages/batches", {}))[1].type, "error");
});

test("refusals name fields as the body has them, and say what is wrong with a list's size", async () => {
  const ask = { prompt: "a", max_tokens: 2 };
  for (const [body, said] of [
    [{ min_tokens: 3 }, /^min_tokens is 3; it must be at most max_tokens \(2/],
    [{ logit_bias: { 99999: 1 } }, /^logit_bias is \[\[99999,1\]\]/],
    [{ prompt: Array(129).fill("a") }, /^prompt: Too big: expected array to have <=128 items/],
    [{ structured_outputs: { regex: "(" } }, /^The regular expression cannot be used/],
    [{ structured_outputs: { regexp: "a" } }, /^structured_outputs: takes json/],
    [
      { structured_outputs: { regex: "a", choice: ["b"] } },
      /^structured_outputs\.regex and structured_outputs\.choice cannot both/,
    ],
  ] as const) {
    const [status, { error }] = await post("/v1/completions", { ...ask, ...body });
    assert.equal(status, 400);
    assert.match(error.message, said);
  }
  const [, { choices }] = await post("/v1/completions", { ...ask, structured_outputs: { choice: ["yes", "no"] } });
  assert.match(choices[0].text, /^(y|n)/);
  const zipped = await host.post("/v1/completions", ask, { "content-encoding": "gzip" });
  assert.equal(zipped.status, 415);
  assert.match(await zipped.text(), /content encoding is \\"gzip\\"/);
});

test("a conversation that ends with the assistant's text: its answer is the rest, where the API or the request says so", async () => {
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: "b c" },
  ] as const;
  const text = `${await host.engine.renderChat([messages[0]])}b c`;
  const prompt = host.engine.tokenizer.encode(text, { addSpecialTokens: false });
  const limits = { max_tokens: 4, temperature: 0 };
  const [, { choices }] = await post("/v1/completions", { prompt, ...limits });
  const rest = choices[0].text;
  const answerOf = async (body: object) =>
    (await post("/v1/chat/completions", { messages, ...limits, ...body }))[1].choices[0].message.content;
  assert.equal(await answerOf({ continue_final_message: true, add_generation_prompt: false }), rest);
  assert.notEqual(await answerOf({}), rest);
  const [, { content }] = await post("/v1/messages", { model: "tiny", messages, ...limits });
  assert.equal(content[0].text, rest);
  const options = { num_predict: 4, temperature: 0 };
  assert.equal((await post("/api/chat", { model: "tiny", messages, options, stream: false }))[1].message.content, rest);
  const both = { messages, continue_final_message: true, add_generation_prompt: true };
  assert.equal((await post("/v1/chat/completions", both))[1].error.param, "add_generation_prompt");
});

test("a streamed chat: the role once, and every token's logprobs though its text is held back", async () => {
  const ask = { messages: [{ role: "user", content: "a" }], max_tokens: 6, temperature: 0, logprobs: true };
  const [, whole] = await post("/v1/chat/completions", ask);
  const said: string = whole.choices[0].message.content;
  const body = { ...ask, stream: true, stop: [`${said.slice(0, 4)}\u0001`] };
  const stream = await (await host.post("/v1/chat/completions", body)).text();
  const deltas = [...stream.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!).choices[0]);
  assert.equal(deltas.filter(({ delta }) => "role" in delta).length, 1);
  assert.equal(deltas.map(({ delta }) => delta.content ?? "").join(""), said);
  assert.deepEqual(
    deltas.flatMap(({ logprobs }) => logprobs?.content ?? []),
    whole.choices[0].logprobs.content,
  );
});

test("openapi.json tells which endpoints stream", async () => {
  const { paths } = (await (await fetch(`${host.url}/openapi.json`)).json()) as Json;
  const streams = (path: string) => "text/event-stream" in paths[path].post.responses["200"].content;
  assert.deepEqual(["/v1/chat/completions", "/v1/embeddings"].map(streams), [true, false]);
});

test("echo: the prompt as it was written, whatever the tokenizer puts before it; offsets are places of the text", async () => {
  const model = writeTinyCheckpoint();
  const file = join(model, "tokenizer.json");
  const bos = { id: "<bos>", ids: [256], tokens: ["<bos>"] };
  const post_processor = {
    type: "TemplateProcessing",
    single: [{ SpecialToken: { id: "<bos>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
    pair: [],
    special_tokens: { "<bos>": bos },
  };
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), post_processor }));
  await using server = await startServer({ model }, { servedModelName: ["tiny"] });
  const ask = { model: "tiny", prompt: "ab", max_tokens: 2, temperature: 0, echo: true, logprobs: 0 };
  const plain = await server.client.completions.create({ ...ask, echo: false });
  const { text, logprobs } = (await server.client.completions.create(ask)).choices[0]!;
  assert.equal(text, `ab${plain.choices[0]!.text}`);
  assert.deepEqual(logprobs!.tokens!.slice(0, 3), ["<bos>", "a", "b"]);
  assert.deepEqual(logprobs!.text_offset!.slice(0, 4), [0, 0, 1, 2]);
  let streamed = "";
  const offsets: number[] = [];
  for await (const { choices } of await server.client.completions.create({ ...ask, stream: true })) {
    streamed += choices[0]!.text;
    offsets.push(...(choices[0]!.logprobs?.text_offset ?? []));
  }
  assert.deepEqual([streamed, offsets.slice(0, 4)], [text, [0, 0, 1, 2]]);
  const ids = await server.client.completions.create({ ...ask, prompt: [256, 97, 98] });
  assert.equal(ids.choices[0]!.text, `<bos>${text}`, "ids are shown as they are");
});
