// `pagoda/ai` with the AI SDK itself: text, streams, tools, objects, embeddings, in this process.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { embedMany, generateObject, generateText, rerank, stepCountIs, streamText, tool } from "ai";
import * as ai7 from "ai-7";
import { z } from "zod";
import { createPagoda } from "../src/ai/index.js";
import { createEngine } from "../src/engine/client/engine.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { writeTinyEncoder } from "./support/tiny-encoder.js";

const pagoda = createPagoda({ threads: 1 });
after(() => pagoda.close());
const greedy = { temperature: 0, maxOutputTokens: 20 };

test("text, whole and streamed, is what the engine says", async () => {
  await using engine = await createEngine({ threads: 1, seed: 1 });
  const chat = engine.chat([{ role: "user", content: "Tell me a story." }], { temperature: 0, maxTokens: 20 });
  const expected = (await chat.result()).text;
  const { text, usage, finishReason } = await generateText({ model: pagoda(), prompt: "Tell me a story.", ...greedy });
  assert.equal(text, expected);
  assert.deepEqual([usage.outputTokens, finishReason], [20, "length"]);
  const stream = streamText({ model: pagoda(), prompt: "Tell me a story.", ...greedy });
  let joined = "";
  for await (const piece of stream.textStream) joined += piece;
  assert.equal(joined, expected);
  assert.equal(await stream.finishReason, "length");
});

test("tools are called and their results given back", async () => {
  const asked: string[] = [];
  const weather = tool({
    description: "Weather of a city",
    inputSchema: z.object({ city: z.enum(["Rome", "Oslo"]) }),
    execute: async ({ city }) => {
      asked.push(city);
      return { sky: "clear" };
    },
  });
  const options = { model: pagoda(), prompt: "Weather?", tools: { weather }, seed: 1, maxOutputTokens: 200 };
  const result = await generateText({
    ...options,
    toolChoice: { type: "tool", toolName: "weather" },
    stopWhen: stepCountIs(2),
  });
  assert.ok(asked.length > 0 && asked.every((city) => ["Rome", "Oslo"].includes(city)));
  assert.equal(result.steps[0]!.finishReason, "tool-calls");
  const stream = streamText({ ...options, toolChoice: "required" });
  assert.equal((await stream.toolCalls)[0]!.toolName, "weather");
});

test("objects are held to their schema; settings reach the engine", async () => {
  const schema = z.object({ name: z.string().max(8), age: z.number().int().min(0).max(9) });
  const { object } = await generateObject({
    model: pagoda(undefined, { repetitionPenalty: 1.1 }),
    schema,
    prompt: "Who?",
  });
  assert.ok(schema.safeParse(object).success);
  const constrained = pagoda(undefined, { constraint: { kind: "regex", source: "ab{3}" } });
  assert.equal((await generateText({ model: constrained, prompt: "x" })).text, "abbb");
  await assert.rejects(generateText({ model: pagoda("no/such/folder/at/all"), prompt: "x", maxRetries: 0 }));
});

test("reranking", async () => {
  const model = pagoda.rerankingModel(
    writeTinyEncoder({ architectures: ["BertForSequenceClassification"], num_labels: 1 }),
  );
  const documents = ["the cat sat", "a dog", "on the mat"];
  const { ranking, rerankedDocuments } = await rerank({ model, query: "cat", documents, topN: 2 });
  assert.equal(ranking.length, 2);
  assert.ok(ranking[0]!.score >= ranking[1]!.score);
  assert.deepEqual(
    rerankedDocuments,
    ranking.map(({ originalIndex }) => documents[originalIndex]),
  );
});

test("embeddings, aborting, a file that no model here can read", async () => {
  const model = pagoda.embeddingModel(writeTinyCheckpoint());
  const { embeddings } = await embedMany({ model, values: ["a", "b", "a"] });
  assert.deepEqual(embeddings[0], embeddings[2]);
  assert.ok(Math.abs(Math.hypot(...embeddings[0]!) - 1) < 1e-3);
  const leave = new AbortController();
  const long = generateText({
    model: pagoda(),
    prompt: "x",
    abortSignal: leave.signal,
    providerOptions: { pagoda: { ignoreEos: true } },
  });
  leave.abort();
  await assert.rejects(long);
  const content = [{ type: "file" as const, mediaType: "image/png", data: new Uint8Array(4) }];
  await assert.rejects(generateText({ model: pagoda(), messages: [{ role: "user", content }], maxRetries: 0 }), {
    code: "no_eyes",
  });
});

test("ai 7 takes the same models", async () => {
  const { text } = await ai7.generateText({ model: pagoda(), prompt: "Tell me a story.", ...greedy });
  const stream = ai7.streamText({ model: pagoda(), prompt: "Tell me a story.", ...greedy });
  assert.equal(await stream.text, text);
  const { output } = await ai7.generateText({
    model: pagoda(),
    prompt: "Who?",
    output: ai7.Output.object({ schema: z.object({ age: z.number().int().min(0).max(9) }) }),
  });
  assert.ok(output.age >= 0 && output.age <= 9);
  const { embedding } = await ai7.embed({ model: pagoda.embeddingModel(writeTinyCheckpoint()), value: "a" });
  assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-3);
  const reranker = writeTinyEncoder({ architectures: ["BertForSequenceClassification"], num_labels: 1 });
  const { ranking } = await ai7.rerank({ model: pagoda.rerankingModel(reranker), query: "a", documents: ["b", "c"] });
  assert.equal(ranking.length, 2);
});
