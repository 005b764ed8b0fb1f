// The Vercel AI SDK with its openai-compatible provider, unmodified.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";
import { holdAnswers } from "../support/held-answers.js";
import { startServer, type TestServer } from "../support/test-server.js";

const prompt = "Tell me a story about a dragon.";
let host: TestServer;
let provider: ReturnType<typeof createOpenAICompatible>;

before(async () => {
  host = await startServer();
  provider = createOpenAICompatible({
    name: "pagoda",
    baseURL: `${host.url}/v1`,
    supportsStructuredOutputs: true,
    includeUsage: true,
  });
});
after(async () => host?.[Symbol.asyncDispose]());

const model = () => provider("pagoda-stories-16m");

test("generateText and streamText give the same text", async () => {
  const whole = await generateText({ model: model(), prompt, temperature: 0, maxOutputTokens: 24, maxRetries: 0 });
  assert.match(whole.text, /^Once upon a time/);
  assert.equal(whole.finishReason, "length");
  assert.equal(whole.usage.outputTokens, 24);
  const stream = streamText({ model: model(), prompt, temperature: 0, maxOutputTokens: 24, maxRetries: 0 });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).outputTokens, 24);
});

test("generateObject gives a value of the schema", async () => {
  const schema = z.object({
    name: z.string().max(10),
    age: z.int().min(0).max(99),
    tags: z.array(z.enum(["red", "blue"])).max(2),
  });
  const { object } = await generateObject({ model: model(), schema, prompt, temperature: 1, seed: 1, maxRetries: 0 });
  assert.deepEqual(schema.parse(object), object);
});

test("tools: a forced call reaches the tool with checked arguments", async () => {
  const seen: unknown[] = [];
  const weather = tool({
    description: "Weather of a city",
    inputSchema: z.object({ city: z.string().max(12), days: z.int().min(1).max(7) }),
    execute: async (input) => {
      seen.push(input);
      return "sunny";
    },
  });
  const result = await generateText({
    model: model(),
    prompt,
    tools: { weather },
    toolChoice: "required",
    temperature: 1,
    seed: 2,
    maxRetries: 0,
  });
  assert.equal(result.finishReason, "tool-calls");
  assert.ok(seen.length >= 1);
  assert.deepEqual(result.toolCalls[0]!.input, seen[0]);
  assert.equal(result.toolResults[0]!.output, "sunny");
});

test("embed, and an abort", async () => {
  const { embedding } = await embed({
    model: provider.embeddingModel("pagoda-stories-16m"),
    value: "a dragon",
    maxRetries: 0,
  });
  assert.equal(embedding.length, 384);
  const controller = new AbortController();
  const letGo = holdAnswers(host.engine); // no end of its own
  const stream = streamText({
    model: model(),
    prompt,
    maxRetries: 0,
    abortSignal: controller.signal,
    onError: () => undefined,
  });
  let pieces = 0;
  for await (const _ of stream.textStream) {
    pieces++;
    controller.abort();
  }
  letGo();
  assert.ok(pieces >= 1);
});
