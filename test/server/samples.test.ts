// Several prompts and several samples in one request: each is its own, and what they cost is the sum.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startServer, type TestServer } from "../support/test-server.js";

const MODEL = "story";
let host: TestServer;
before(async () => {
  host = await startServer({}, { servedModelName: [MODEL] });
});
after(async () => host?.[Symbol.asyncDispose]());

test("usage of a streamed completion counts every prompt and every sample", async () => {
  const body = {
    model: MODEL,
    prompt: ["Once", "Once upon a time there was", "The dragon"],
    n: 2,
    max_tokens: 5,
    seed: 1,
  };
  const whole = await host.client.completions.create(body);
  const stream = await host.client.completions.create({
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  });
  const seen = new Set<number>();
  let usage: unknown = null;
  for await (const chunk of stream) {
    for (const choice of chunk.choices) seen.add(choice.index);
    usage = chunk.usage ?? usage;
  }
  assert.deepEqual([...seen].sort(), [0, 1, 2, 3, 4, 5]);
  const { prompt_tokens, completion_tokens, total_tokens } = usage as Record<string, number>;
  assert.deepEqual(
    { prompt_tokens, completion_tokens, total_tokens },
    {
      prompt_tokens: whole.usage!.prompt_tokens,
      completion_tokens: whole.usage!.completion_tokens,
      total_tokens: whole.usage!.total_tokens,
    },
  );
  const lengths = body.prompt.map((prompt) => host.engine.tokenizer.encode(prompt).length);
  assert.equal(
    prompt_tokens,
    lengths.reduce((sum, length) => sum + length),
  );
  assert.equal(completion_tokens, 3 * 2 * 5);
});

test("a stop string in one sample ends that sample and no other", async () => {
  const options = { n: 4, maxTokens: 40, temperature: 1, seed: 7, ignoreEos: true };
  const free = (await host.engine.generate("Once upon a time", options).result()).samples;
  const words = free[0]!.text.split(" ").filter((word) => word.length > 2);
  const stop = words.find((word) => free.slice(1).every((sample) => !sample.text.includes(word)))!;
  assert.ok(stop !== undefined, "a word that only the first sample says");
  const stopped = (await host.engine.generate("Once upon a time", { ...options, stop: [stop] }).result()).samples;
  assert.deepEqual([stopped[0]!.finishReason, stopped[0]!.stopReason], ["stop", stop]);
  assert.equal(stopped[0]!.text, free[0]!.text.slice(0, free[0]!.text.indexOf(stop)));
  for (const i of [1, 2, 3]) {
    assert.deepEqual([stopped[i]!.text, stopped[i]!.finishReason], [free[i]!.text, "length"], `sample ${i}`);
  }
});

test("every sample of a constrained request has its constraint to itself", async () => {
  const reply = await host.client.chat.completions.create({
    model: MODEL,
    messages: [{ role: "user", content: "hi" }],
    n: 6,
    temperature: 30,
    seed: 3,
    guided_regex: "(ab|c){4}-(x|yy)",
  } as never);
  const texts = (reply as { choices: { message: { content: string }; finish_reason: string }[] }).choices;
  assert.equal(texts.length, 6);
  for (const { message, finish_reason } of texts) {
    assert.match(message.content, /^(ab|c){4}-(x|yy)$/);
    assert.equal(finish_reason, "stop");
  }
  assert.ok(new Set(texts.map(({ message }) => message.content)).size > 1, "each drew for itself");
});
