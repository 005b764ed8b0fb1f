// Fields and forms of the routes that no client's own tests ask for: vLLM's prompt_logprobs, Ollama's older forms, what is echoed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startServer, type TestServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, each looked at below
type Json = any;

let host: TestServer;
before(async () => {
  host = await startServer({ model: writeTinyCheckpoint(), maxContext: 48 }, { servedModelName: ["tiny"] });
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
    ["echo", { stream: true, echo: true, logprobs: 1 }],
    ["best_of", { best_of: 3, n: 2 }],
  ] as const) {
    const [refused, { error }] = await post("/v1/completions", { ...ask, ...more });
    assert.deepEqual([refused, error.param], [400, param]);
  }
  assert.equal((await post("/v1/completions", { ...ask, best_of: 2, n: 2 }))[1].choices.length, 2);
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

test("Ollama: keep_alive of nothing unloads, which the first model is never; without a prompt the model is only loaded", async () => {
  for (const keep_alive of [0, "0", "0s"])
    assert.equal((await post("/api/generate", { model: "tiny", keep_alive }))[0], 409, `${keep_alive}`);
  for (const keep_alive of [1, "5m", -1]) {
    const [status, body] = await post("/api/generate", { model: "tiny", keep_alive });
    assert.deepEqual([status, body.done_reason, body.response], [200, "load", ""]);
  }
  const [, said] = await post("/api/generate", { model: "tiny", prompt: "a", raw: true, stream: false });
  assert.deepEqual([said.done, said.load_duration, said.eval_count > 0], [true, 0, true]);
  assert.equal((await fetch(`${host.url}/health`)).status, 200);
});

test("Ollama: the older way to embed is the newer one of one text, and cuts what is too long; models are shown by either name", async () => {
  const [, older] = await post("/api/embeddings", { model: "tiny", prompt: "a cat" });
  const [, newer] = await post("/api/embed", { model: "tiny", input: "a cat" });
  assert.deepEqual(older.embedding, newer.embeddings[0]);
  assert.ok(Math.abs(Math.hypot(...older.embedding) - 1) < 1e-3);
  const long = "a cat ".repeat(400);
  assert.equal((await post("/api/embeddings", { model: "tiny", prompt: long }))[0], 200);
  assert.equal((await post("/api/embed", { model: "tiny", input: long, truncate: false }))[0], 400);
  for (const by of ["model", "name"]) {
    assert.equal((await post("/api/show", { [by]: "tiny" }))[0], 200);
    assert.equal((await post("/api/show", { [by]: "large" }))[0], 404);
  }
});

test("responses: what was asked for is repeated, and nothing is where nothing was", async () => {
  const ask = { input: "a", store: false };
  const [, limited] = await post("/v1/responses", { ...ask, max_output_tokens: 3, metadata: { a: "b" } });
  assert.deepEqual([limited.max_output_tokens, limited.metadata], [3, { a: "b" }]);
  assert.equal(limited.usage.output_tokens, 3);
  const [, free] = await post("/v1/responses", ask);
  assert.deepEqual([free.max_output_tokens, free.metadata], [null, {}]);
});
