// The official client, unmodified, against the bundled model.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { holdAnswers } from "../support/held-answers.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const MODEL = "pagoda-stories-16m";
const STORY = [{ role: "user", content: "Tell me a story about a dragon." }] as const;
const messages = [...STORY];
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 12 }, days: { type: "integer", minimum: 1, maximum: 7 } },
      required: ["city", "days"],
      additionalProperties: false,
    },
  },
} as const;

let host: TestServer;
before(async () => {
  host = await startServer();
});
after(async () => host?.[Symbol.asyncDispose]());

async function greedy(): Promise<string> {
  const reply = await host.client.chat.completions.create({ model: MODEL, messages, temperature: 0, max_tokens: 24 });
  return reply.choices[0]!.message.content!;
}

test("chat", async () => {
  const reply = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    temperature: 0,
    max_completion_tokens: 24,
  });
  const [choice] = reply.choices;
  assert.match(choice!.message.content!, /^Once upon a time/);
  assert.equal(choice!.finish_reason, "length");
  assert.equal(choice!.message.role, "assistant");
  assert.match(reply.id, /^chatcmpl-/);
  assert.equal(reply.model, MODEL);
  assert.equal(reply.usage!.prompt_tokens, 15);
  assert.equal(reply.usage!.completion_tokens, 24);
});

test("stream: the same text in pieces, usage in the last chunk", async () => {
  const letGo = holdAnswers(host.engine); // nothing but the beginning comes before it has been read
  const stream = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    temperature: 0,
    max_tokens: 24,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  const finishes: (string | null)[] = [];
  let usage: OpenAI.CompletionUsage | null | undefined = null;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    const [choice] = chunk.choices;
    if (choice === undefined) continue;
    text += choice.delta.content ?? "";
    if (text !== "") letGo();
    if (choice.finish_reason !== null) finishes.push(choice.finish_reason);
  }
  assert.equal(text, await greedy());
  assert.deepEqual(finishes, ["length"]);
  assert.equal(usage!.completion_tokens, 24);
});

test("completions: text, token ids, several prompts, echo", async () => {
  const ids = host.engine.tokenizer.encode("Once upon");
  const reply = await host.client.completions.create({
    model: MODEL,
    prompt: [ids, ids],
    temperature: 0,
    max_tokens: 3,
    echo: true,
  });
  assert.deepEqual(
    reply.choices.map((choice) => choice.text),
    ["Once upon a time,", "Once upon a time,"],
  );
  const stream = await host.client.completions.create({
    model: MODEL,
    prompt: ["Once upon", "Once upon"],
    temperature: 0,
    max_tokens: 3,
    stream: true,
  });
  const texts = ["", ""];
  for await (const chunk of stream) for (const choice of chunk.choices) texts[choice.index] += choice.text;
  assert.deepEqual(texts, [" a time,", " a time,"]);
});

test("logprobs of chat and completions", async () => {
  const chat = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    temperature: 0,
    max_tokens: 4,
    logprobs: true,
    top_logprobs: 3,
  });
  const content = chat.choices[0]!.logprobs!.content!;
  assert.equal(content.map((entry) => entry.token).join(""), chat.choices[0]!.message.content);
  for (const entry of content) {
    assert.equal(entry.top_logprobs.length, 3);
    assert.equal(entry.top_logprobs[0]!.logprob, entry.logprob, "greedy takes the likeliest");
    assert.deepEqual(Buffer.from(entry.bytes!).toString(), entry.token);
  }
  const text = await host.client.completions.create({
    model: MODEL,
    prompt: "Once upon",
    temperature: 0,
    max_tokens: 2,
    logprobs: 2,
    echo: true,
  });
  const logprobs = text.choices[0]!.logprobs!;
  assert.equal(logprobs.token_logprobs![0], null, "nothing comes before the first token");
  assert.equal(logprobs.tokens!.join(""), text.choices[0]!.text);
  assert.deepEqual(logprobs.text_offset, [0, 4, 9, 11]);
});

test("completions that score: max_tokens 0 with echo and logprobs, whole and streamed", async () => {
  const prompt = ["Once upon a time", "There was a big dragon"];
  const ask = { model: MODEL, prompt, temperature: 0, logprobs: 1, echo: true };
  const scored = await host.client.completions.create({ ...ask, max_tokens: 0 });
  const answered = await host.client.completions.create({ ...ask, max_tokens: 1 });
  for (const [i, { text, logprobs, finish_reason }] of scored.choices.entries()) {
    assert.deepEqual([text, finish_reason], [prompt[i], "length"]);
    const numTokens = logprobs!.tokens!.length;
    assert.equal(logprobs!.tokens!.join(""), prompt[i]);
    assert.equal(logprobs!.token_logprobs!.filter((logprob) => logprob === null).length, 1);
    const { token_logprobs, top_logprobs } = answered.choices[i]!.logprobs!;
    assert.deepEqual(logprobs!.token_logprobs, token_logprobs!.slice(0, numTokens));
    assert.deepEqual(logprobs!.top_logprobs, top_logprobs!.slice(0, numTokens));
  }
  const { prompt_tokens, completion_tokens } = scored.usage!;
  assert.deepEqual([prompt_tokens, completion_tokens], [answered.usage!.prompt_tokens, 0]);
  for (const [max_tokens, whole] of [
    [0, scored],
    [1, answered],
  ] as const) {
    const seen = prompt.map(() => ({ text: "", logprobs: [] as (number | null)[], offsets: [] as number[] }));
    const options = { ...ask, max_tokens, stream: true as const, stream_options: { include_usage: true } };
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of await host.client.completions.create(options)) {
      usage = chunk.usage;
      for (const { index, text, logprobs } of chunk.choices) {
        seen[index]!.text += text;
        seen[index]!.logprobs.push(...((logprobs?.token_logprobs ?? []) as (number | null)[]));
        seen[index]!.offsets.push(...(logprobs?.text_offset ?? []));
      }
    }
    assert.deepEqual(
      seen,
      whole.choices.map(({ text, logprobs }) => ({
        text,
        logprobs: logprobs!.token_logprobs,
        offsets: logprobs!.text_offset,
      })),
    );
    assert.equal(usage!.completion_tokens, 2 * max_tokens);
  }
  const full = Array(512).fill(5); // nothing follows, so it may fill the context
  const filled = await host.client.completions.create({ model: MODEL, prompt: full, max_tokens: 0 });
  assert.deepEqual([filled.choices[0]!.text, filled.usage!.prompt_tokens], ["", 512]);
  await assert.rejects(host.client.completions.create({ model: MODEL, prompt: full, max_tokens: 1 }), { status: 400 });
});

test("n = 3, seed: three answers, the same again, others for another seed", async () => {
  const ask = async (seed: number) => {
    const reply = await host.client.chat.completions.create({
      model: MODEL,
      messages,
      n: 3,
      seed,
      temperature: 2,
      top_p: 1,
      max_tokens: 40,
    });
    assert.deepEqual(
      reply.choices.map((choice) => choice.index),
      [0, 1, 2],
    );
    return reply.choices.map((choice) => choice.message.content);
  };
  const first = await ask(1);
  assert.equal(new Set(first).size, 3);
  assert.deepEqual(await ask(1), first);
  assert.notDeepEqual(await ask(2), first);
});

test("stop strings end an answer before them", async () => {
  const reply = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    temperature: 0,
    max_tokens: 50,
    stop: ["little", "zebra"],
  });
  assert.equal(reply.choices[0]!.message.content, "Once upon a time, there was a ");
  assert.equal(reply.choices[0]!.finish_reason, "stop");
});

test("JSON schema: parsed by the client's own helper", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 10 }, age: { type: "integer", minimum: 0, maximum: 99 } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  for (let seed = 0; seed < 3; seed++) {
    const reply = await host.client.chat.completions.create({
      model: MODEL,
      messages,
      temperature: 1,
      seed,
      response_format: { type: "json_schema", json_schema: { name: "person", strict: true, schema } },
    });
    const value = JSON.parse(reply.choices[0]!.message.content!);
    assert.deepEqual(Object.keys(value), ["name", "age"]);
    assert.ok(value.name.length <= 10 && Number.isInteger(value.age) && value.age >= 0 && value.age <= 99);
    assert.equal(reply.choices[0]!.finish_reason, "stop");
  }
  const object = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    temperature: 0,
    max_tokens: 8,
    response_format: { type: "json_object" },
  });
  assert.match(object.choices[0]!.message.content!, /^\{/);
  assert.equal(object.choices[0]!.finish_reason, "length", "cut, and says so");
});

test("guided regex, choice and grammar", async () => {
  const ask = async (extra: Record<string, unknown>) =>
    (
      await host.client.chat.completions.create({
        model: MODEL,
        messages,
        temperature: 1,
        seed: 5,
        ...extra,
      } as OpenAI.ChatCompletionCreateParamsNonStreaming)
    ).choices[0]!.message.content!;
  assert.match(await ask({ guided_regex: "[a-z]{3}-\\d{2}" }), /^[a-z]{3}-\d{2}$/);
  assert.ok(["red", "a+b"].includes(await ask({ guided_choice: ["red", "a+b"] })));
  assert.match(await ask({ guided_grammar: 'root ::= "yes" | "no"' }), /^(yes|no)$/);
});

test("tools: a forced call has arguments valid under the schema", async () => {
  for (const tool_choice of ["required", { type: "function", function: { name: "get_weather" } }] as const) {
    const reply = await host.client.chat.completions.create({
      model: MODEL,
      messages,
      temperature: 1,
      seed: 3,
      tools: [WEATHER],
      tool_choice,
      parallel_tool_calls: false,
    });
    const call = reply.choices[0]!.message.tool_calls![0]!;
    assert.ok(call.type === "function");
    assert.equal(call.function.name, "get_weather");
    const { city, days } = JSON.parse(call.function.arguments);
    assert.ok(typeof city === "string" && days >= 1 && days <= 7);
    assert.equal(reply.choices[0]!.finish_reason, "tool_calls");
    assert.equal(reply.choices[0]!.message.content, null);
  }
});

test("tools: streamed deltas put together by the client's own helper", async () => {
  const letGo = holdAnswers(host.engine, '"city"'); // the rest comes once these have been read
  const runner = host.client.chat.completions.stream({
    model: MODEL,
    messages,
    temperature: 1,
    seed: 4,
    tools: [WEATHER],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  runner.on("tool_calls.function.arguments.delta", letGo);
  const message = await runner.finalMessage();
  const call = message.tool_calls![0]!;
  assert.ok(call.type === "function");
  const { city, days } = JSON.parse(call.function.arguments);
  assert.ok(typeof city === "string" && days >= 1 && days <= 7);
});

test("functions, as tools were called before: one call without an id, whole and streamed; text stays text", async () => {
  const asked = { model: MODEL, messages, temperature: 1, seed: 3, functions: [WEATHER.function] };
  const whole = await host.client.chat.completions.create({ ...asked, function_call: { name: "get_weather" } });
  const { message, finish_reason } = whole.choices[0]!;
  assert.deepEqual([finish_reason, message.tool_calls], ["function_call", undefined]);
  const { city, days } = JSON.parse(message.function_call!.arguments);
  assert.ok(message.function_call!.name === "get_weather" && typeof city === "string" && days >= 1 && days <= 7);
  const runner = host.client.chat.completions.stream({ ...asked, function_call: { name: "get_weather" } });
  assert.deepEqual((await runner.finalMessage()).function_call, message.function_call);
  const text = host.client.chat.completions.stream({ ...asked, temperature: 0, max_tokens: 12 });
  assert.match((await text.finalMessage()).content as string, /^Once upon/);
});

test("tools: with auto the model may answer in text, or call", async () => {
  const text = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    temperature: 0,
    max_tokens: 12,
    tools: [WEATHER],
  });
  assert.match(text.choices[0]!.message.content!, /^Once upon/);
  assert.equal(text.choices[0]!.message.tool_calls, undefined);
  // This model never calls by itself; a grammar makes it write what others would.
  const call =
    'Let me see.\\n<tool_call>\\n{\\"name\\": \\"get_weather\\", \\"arguments\\": {\\"city\\": \\"Rome\\", \\"days\\": 2}}\\n</tool_call>';
  const written = await host.client.chat.completions.create({
    model: MODEL,
    messages,
    tools: [WEATHER],
    tool_choice: "auto",
    guided_grammar: `root ::= "${call}"`,
  } as OpenAI.ChatCompletionCreateParamsNonStreaming);
  const { message, finish_reason } = written.choices[0]!;
  assert.equal(message.content, "Let me see.");
  assert.ok(message.tool_calls?.[0]?.type === "function");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Rome", days: 2 });
  assert.equal(finish_reason, "tool_calls");
});

test("reasoning between think tags comes apart: here the template leaves the model thinking", async () => {
  const model = writeTinyCheckpoint();
  const file = join(model, "tokenizer_config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ ...config, chat_template: `${config.chat_template}<think>\n` }));
  await using thinker = await startServer({ model });
  const ask = async (extra: Record<string, unknown>) => {
    const reply = await thinker.post("/v1/chat/completions", { messages, temperature: 0, max_tokens: 8, ...extra });
    return ((await reply.json()) as { choices: { message: { content: string; reasoning_content?: string } }[] })
      .choices[0]!.message;
  };
  const free = await ask({});
  assert.equal(free.content, "");
  assert.ok(free.reasoning_content!.length > 0);
  const forced = await ask({ guided_regex: "abc" });
  assert.deepEqual(
    [forced.content, forced.reasoning_content],
    ["abc", undefined],
    "a constrained answer has no thoughts",
  );
});

test("abort mid-stream frees the request's pages", async () => {
  const controller = new AbortController();
  const stream = await host.client.chat.completions.create(
    {
      model: MODEL,
      messages,
      temperature: 1,
      stream: true,
      ignore_eos: true,
    } as OpenAI.ChatCompletionCreateParamsStreaming,
    { signal: controller.signal },
  );
  await assert.rejects(async () => {
    for await (const _ of stream) controller.abort();
    if (controller.signal.aborted) throw new Error("aborted");
  });
  await until(async () => {
    const { running, waiting, pagesUsed } = await host.engine.stats();
    return running + waiting + pagesUsed === 0;
  }, "the engine is empty");
  await until(() => host.server.context.gate.active === 0, "its place is free");
});

test("errors in OpenAI's shape: 400 with param, 404, 413", async () => {
  const create = (extra: Record<string, unknown>) =>
    host.client.chat.completions.create({
      model: MODEL,
      messages,
      ...extra,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming);
  const odd = { type: "function", function: { name: "odd", parameters: { type: "integer", multipleOf: 2 } } };
  const cases: [Record<string, unknown>, string, RegExp][] = [
    [{ temperature: -1 }, "temperature", /Too small/],
    [{ max_tokens: 0 }, "max_tokens", /Too small/],
    [{ messages: [] }, "messages", /Too small/],
    [{ min_tokens: 9, max_tokens: 3 }, "min_tokens", /min_tokens is 9; it must be at most max_tokens \(3/],
    [{ messages: [{ role: "user", content: "dragon ".repeat(1000) }] }, "messages", /has \d+ tokens; .* 512 tokens/],
    [{ messages: [{ role: "user", content: "dragon ".repeat(10_000) }] }, "messages", /at least \d+ tokens/],
    [{ messages: [{ role: "user", content: "dragon ".repeat(20_000) }] }, "messages", /at least \d+ tokens/],
    [
      { response_format: { type: "json_schema", json_schema: { schema: { type: "integer", multipleOf: 2 } } } },
      "response_format.json_schema.schema",
      /multipleOf/,
    ],
    [{ guided_regex: "(" }, "guided_regex", /expected/],
    [{ guided_grammar: "root ::= (" }, "guided_grammar", /EBNF parser error/],
    [{ guided_grammar: "root ::= (", stream: true }, "guided_grammar", /EBNF parser error/],
    [{ guided_regex: "a", guided_choice: ["b"] }, "guided_choice", /cannot both be given/],
    [
      { tools: [WEATHER], tool_choice: { type: "function", function: { name: "other" } } },
      "tool_choice",
      /not in tools/,
    ],
    [
      { tools: [WEATHER, odd], tool_choice: { type: "function", function: { name: "odd" } } },
      "tools.1.function.parameters",
      /multipleOf/,
    ],
    [{ logit_bias: { "9999": 1 } }, "logit_bias", /8192/],
  ];
  for (const [extra, param, message] of cases) {
    await assert.rejects(create(extra), (error: unknown) => {
      assert.ok(error instanceof OpenAI.BadRequestError, String(error));
      assert.equal(error.param, param, error.message);
      assert.match(error.message, message);
      assert.equal(error.type, "invalid_request_error");
      return true;
    });
  }
  await assert.rejects(create({ model: "gpt-5" }), (error: unknown) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    return true;
  });
  // Another server: it may end the connection of a body that it refused, which the next test would use.
  await using strict = await startServer({ model: writeTinyCheckpoint() }, { maxBodyMb: 1, servedModelName: [MODEL] });
  const content = "x".repeat(1.5 * 2 ** 20);
  const large = strict.client.chat.completions.create({ model: MODEL, messages: [{ role: "user", content }] });
  await assert.rejects(large, (error: unknown) => {
    assert.ok(error instanceof OpenAI.APIError && error.status === 413, String(error));
    return true;
  });
});

test("responses: whole and streamed", async () => {
  const options = { model: MODEL, input: "Tell me a story about a dragon.", temperature: 0, max_output_tokens: 24 };
  const whole = await host.client.responses.create(options);
  assert.equal(whole.output_text, await greedy());
  assert.equal(whole.status, "incomplete");
  assert.equal(whole.usage!.output_tokens, 24);
  const stream = await host.client.responses.create({ ...options, stream: true });
  let text = "";
  const types: string[] = [];
  for await (const event of stream) {
    types.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, whole.output_text);
  assert.equal(types[0], "response.created");
  assert.equal(types.at(-1), "response.incomplete");
});

test("embeddings: unit length, base64 and floats alike, pooling", async () => {
  const input = ["a dragon", "a dragon", "the sea"];
  const { data, usage } = await host.client.embeddings.create({ model: MODEL, input });
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  assert.equal(data.length, 3);
  assert.ok(Math.abs(dot(data[0]!.embedding, data[0]!.embedding) - 1) < 1e-5);
  assert.deepEqual(data[0]!.embedding, data[1]!.embedding);
  assert.ok(dot(data[0]!.embedding, data[2]!.embedding) < 0.9999);
  assert.equal(
    usage.prompt_tokens,
    input.map((text) => host.engine.tokenizer.encode(text).length).reduce((a, b) => a + b),
  );
  const floats = await host.client.embeddings.create({ model: MODEL, input, encoding_format: "float" });
  assert.deepEqual(floats.data[0]!.embedding.map(Math.fround), data[0]!.embedding.map(Math.fround));
  const mean = await host.client.embeddings.create({
    model: MODEL,
    input,
    pooling: "mean",
  } as OpenAI.EmbeddingCreateParams);
  assert.notDeepEqual(mean.data[0]!.embedding, data[0]!.embedding);
});

test("models", async () => {
  const { data } = await host.client.models.list();
  assert.deepEqual(
    data.map((model) => model.id),
    [MODEL],
  );
  assert.equal((await host.client.models.retrieve(MODEL)).id, MODEL);
  await assert.rejects(host.client.models.retrieve("other"), OpenAI.NotFoundError);
});
