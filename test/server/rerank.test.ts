// /v1/rerank, /v2/rerank, /rerank and /v1/score in the shapes that clients of Cohere, Jina and vLLM expect; /v1/embeddings of a model
// that embeds; what other models answer.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startServer, type TestServer } from "../support/test-server.js";
import { writeTinyEncoder } from "../support/tiny-encoder.js";

// biome-ignore lint/suspicious/noExplicitAny: bodies are read field by field
type Json = any;

let ranker: TestServer;
let embedder: TestServer;
before(async () => {
  const engine = { device: "reference", worker: false } as const;
  const classifier = { architectures: ["BertForSequenceClassification"], num_labels: 1 };
  ranker = await startServer({ ...engine, model: writeTinyEncoder(classifier) }, { servedModelName: ["ranker"] });
  const settings = { prompts: { query: "query: ", document: "" } };
  const model = writeTinyEncoder({}, { "config_sentence_transformers.json": settings });
  embedder = await startServer({ ...engine, model }, { servedModelName: ["embedder"] });
});
after(async () => {
  await ranker[Symbol.asyncDispose]();
  await embedder[Symbol.asyncDispose]();
});

const post = async (host: TestServer, path: string, body: unknown): Promise<{ status: number; body: Json }> => {
  const response = await host.post(path, body);
  return { status: response.status, body: await response.json() };
};

const DOCUMENTS = ["the cat sat", "a dog", "on the mat far"];

test("rerank: best first, with indices, scores, texts, usage and meta", async () => {
  const { status, body } = await post(ranker, "/v1/rerank", { model: "ranker", query: "cat", documents: DOCUMENTS });
  assert.equal(status, 200, JSON.stringify(body));
  const scores = body.results.map((result: Json) => result.relevance_score);
  assert.deepEqual(
    scores,
    [...scores].sort((a, b) => b - a),
  );
  for (const { index, relevance_score, document } of body.results) {
    assert.equal(document.text, DOCUMENTS[index]);
    assert.ok(relevance_score > 0 && relevance_score < 1);
  }
  assert.ok(body.usage.total_tokens > 9 && body.meta.billed_units.search_units === 1 && body.id.startsWith("rerank-"));

  const objects = DOCUMENTS.map((text) => ({ text }));
  const second = await post(ranker, "/v2/rerank", { model: "ranker", query: "cat", documents: objects, top_n: 2 });
  assert.deepEqual(
    second.body.results,
    body.results.slice(0, 2).map(({ document: _, ...result }: Json) => result),
  );
  assert.equal(second.body.meta.api_version.version, "2");
  for (const [top_n, expected] of [
    [1, 1],
    [0, DOCUMENTS.length],
  ] as const) {
    const few = await post(ranker, "/v2/rerank", { model: "ranker", query: "cat", documents: objects, top_n });
    assert.equal(few.body.results.length, expected, `top_n ${top_n}`);
  }
  const bare = await post(ranker, "/rerank", { query: "cat", documents: DOCUMENTS, return_documents: false });
  assert.deepEqual(Object.keys(bare.body.results[0]), ["index", "relevance_score"]);
});

test("score: one text with several, pairs, lists that do not fit", async () => {
  const several = await post(ranker, "/v1/score", { text_1: "cat", text_2: DOCUMENTS });
  assert.equal(several.body.usage.completion_tokens, 0);
  assert.deepEqual(
    several.body.data.map(({ index, object }: Json) => [index, object]),
    [
      [0, "score"],
      [1, "score"],
      [2, "score"],
    ],
  );
  const pairs = await post(ranker, "/v1/score", { text_1: ["cat", "cat"], text_2: DOCUMENTS.slice(0, 2) });
  assert.deepEqual(pairs.body.data, several.body.data.slice(0, 2));
  const raw = await post(ranker, "/v1/score", { text_1: "cat", text_2: "a dog", use_activation: false });
  assert.ok(Math.abs(1 / (1 + Math.exp(-raw.body.data[0].score)) - several.body.data[1].score) < 1e-6);
  const wrong = await post(ranker, "/v1/score", { text_1: ["a", "b"], text_2: DOCUMENTS });
  assert.deepEqual([wrong.status, wrong.body.error.param], [400, "text_2"]);
});

test("texts that are too long are refused, or cut when asked", async () => {
  const documents = ["mat ".repeat(100)];
  const long = await post(ranker, "/v1/rerank", { query: "cat", documents });
  assert.deepEqual([long.status, long.body.error.code], [400, "text_too_long"]);
  const cut = await post(ranker, "/v1/rerank", { query: "cat", documents, truncate_prompt_tokens: -1 });
  assert.deepEqual([cut.status, cut.body.usage.total_tokens], [200, 64]);
});

test("tasks that a model is not for are refused", async () => {
  const chat = await post(ranker, "/v1/chat/completions", { messages: [{ role: "user", content: "hi" }] });
  assert.equal(chat.status, 400);
  const completion = await post(ranker, "/v1/completions", { prompt: "hi" });
  assert.deepEqual([completion.status, completion.body.error.code], [400, "task_unsupported"]);
});

test("embeddings as a checkpoint makes them, with OpenAI's client", async () => {
  const { data } = await embedder.client.embeddings.create({ model: "embedder", input: ["the cat", "dog"] });
  assert.equal(data.length, 2);
  const [own] = (await embedder.engine.embed(["the cat"], { normalize: true })).vectors;
  for (const [i, value] of data[0]!.embedding.entries()) assert.ok(Math.abs(value - own![i]!) < 1e-6);
  const short = await embedder.client.embeddings.create({ model: "embedder", input: "the cat", dimensions: 7 });
  assert.equal(short.data[0]!.embedding.length, 7);
  assert.ok(Math.abs(Math.hypot(...short.data[0]!.embedding) - 1) < 1e-5);
  const asked = await post(embedder, "/v1/embeddings", { input: "cat", input_type: "query" });
  const written = await post(embedder, "/v1/embeddings", { input: "query: cat" });
  assert.deepEqual(asked.body.data, written.body.data);
  const tooMany = await post(embedder, "/v1/embeddings", { input: "cat", dimensions: 33 });
  assert.deepEqual([tooMany.status, tooMany.body.error.param], [400, "dimensions"]);
  const ollama = await post(embedder, "/api/embed", { model: "embedder", input: "mat ".repeat(100), dimensions: 4 });
  assert.deepEqual([ollama.body.embeddings[0].length, ollama.body.prompt_eval_count], [4, 64]);
  const older = await post(embedder, "/api/embeddings", { model: "embedder", prompt: "the cat" });
  assert.deepEqual(older.body.embedding.map(Math.fround), [...own!]);
});
