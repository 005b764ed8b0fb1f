import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { after, before, describe, test } from "node:test";
import { Worker } from "node:worker_threads";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { until } from "../../../test/support/until.js";
import { engineConfig } from "../../config/engine-config.js";
import type { ChatMessage } from "../chat-types.js";
import { type FromEngine, toWire } from "../messages.js";
import { asServed, type ServedEngine } from "../served-engine.js";
import type { GenerateOptions } from "../types.js";
import { createEngine } from "./engine.js";
import { hostOf, startHost } from "./host.js";
import { HostedEngine } from "./hosted-engine.js";

const CONTEXT = 16_384; // more than an answer has by the time its caller acts, on however busy a machine
const model = writeTinyCheckpoint({ context: CONTEXT });
const greedy = { temperature: 0, ignoreEos: true } as const;

describe("an engine in its worker thread", () => {
  let engine: ServedEngine;
  before(async () => {
    engine = asServed(await createEngine({ model, device: "reference", numPages: 1 + CONTEXT / 16, seed: 5 }));
  });
  after(() => engine.close());

  test("streams chunks whose text and tokens join to the result", async () => {
    const startMs = performance.now();
    const generation = engine.generate("Hello there", { ...greedy, maxTokens: 20 });
    let text = "";
    const ids: number[] = [];
    let finish: string | null = null;
    for await (const chunk of generation) {
      text += chunk.text;
      ids.push(...chunk.tokenIds);
      finish = chunk.finishReason;
    }
    const result = await generation.result();
    assert.equal(text, result.text);
    assert.deepEqual(ids, result.samples[0]!.tokenIds);
    assert.equal(ids.length, 20);
    assert.equal(finish, "length");
    assert.equal(result.trace.promptTokens, 11);
    assert.equal(result.trace.completionTokens, 20);
    assert.ok(result.trace.steps >= 20 && result.trace.timeToFirstTokenMs > 0 && result.trace.tokensPerSecond > 0);
    const { acceptedMs, queuedMs, timeToFirstTokenMs, totalMs } = result.trace;
    const order = [0, acceptedMs, queuedMs, timeToFirstTokenMs, totalMs, performance.now() - startMs + 1];
    assert.deepEqual(
      order,
      order.toSorted((a, b) => a - b),
      "each after the one before it",
    );
  });

  test("long texts are tokenised elsewhere, many short ones in turns, both as by tokenize", async () => {
    const long = "Hello <eos> wörld. ".repeat(20_000);
    const options = { addSpecialTokens: false, content: [[0, 12]] } as const;
    let numTurns = 0;
    let isCounting = true;
    const count = (): void => {
      numTurns++;
      if (isCounting) setImmediate(count);
    };
    count();
    const leaving = new AbortController();
    const first = engine.tokenizeAside(long, options);
    const left = assert.rejects(engine.tokenizeAside(long, options, leaving.signal), { code: "aborted" });
    leaving.abort();
    await left;
    assert.deepEqual(await first, engine.tokenizer.encode(long, options));
    assert.ok(numTurns > 0, "the thread went on meanwhile");
    numTurns = 0;
    const short = "x".repeat(10_000);
    const all = await Promise.all(Array.from({ length: 10 }, () => engine.tokenizeAside(short)));
    isCounting = false;
    assert.ok(numTurns >= 3, "and had its turns");
    for (const ids of all) assert.deepEqual(ids, engine.tokenizer.encode(short));
  });

  test("a conversation that takes more than a moment is rendered elsewhere, as by renderPrompt", async () => {
    const messages = Array.from({ length: 8000 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: `${i}` }));
    let numTurns = 0;
    const timer = setInterval(() => numTurns++, 1);
    const prompt = await engine.renderAside(messages);
    clearInterval(timer);
    assert.ok(numTurns > 0, "the thread went on meanwhile");
    assert.deepEqual(prompt, engine.renderPrompt(messages));
    const few = messages.slice(0, 2);
    assert.deepEqual(await engine.renderAside(few), engine.renderPrompt(few));
    await assert.rejects(engine.renderAside(messages, {}, { signal: AbortSignal.abort() }), { code: "aborted" });
  });

  test("chat renders the template", async () => {
    const messages: ChatMessage[] = [{ role: "user", content: "hi" }];
    assert.equal(await engine.renderChat(messages), "<|user|>hi<eos><|assistant|>");
    const begun: ChatMessage[] = [...messages, { role: "assistant", content: "so" }];
    assert.equal(await engine.renderChat(begun), "<|user|>hi<eos><|assistant|>so<eos><|assistant|>");
    assert.equal(await engine.renderChat(begun, { continueFinalMessage: true }), "<|user|>hi<eos><|assistant|>so");
    const { usage, text, finishReason } = await engine.chat(messages, { maxTokens: 3, ...greedy });
    assert.deepEqual([usage.promptTokens, usage.completionTokens, finishReason], [5, 3, "length"]);
    assert.equal((await engine.generate(messages, { maxTokens: 3, ...greedy })).text, text);
  });

  test("a seed repeats the answer, another one does not, and requests without one differ", async () => {
    const run = async (seed?: number) => {
      const options: GenerateOptions = {
        maxTokens: 16,
        temperature: 2,
        ignoreEos: true,
        ...(seed === undefined ? {} : { seed }),
      };
      return (await engine.generate("abc", options).result()).samples[0]!.tokenIds.join();
    };
    assert.equal(await run(3), await run(3));
    assert.notEqual(await run(3), await run(4));
    assert.notEqual(await run(), await run());
  });

  test("a stop string cuts the text before it, across tokens, and frees the request", async () => {
    const { text } = await engine.generate("stop here", { ...greedy, maxTokens: 30 }).result();
    const stop = text.slice(10, 13);
    const cut = text.indexOf(stop);
    const result = await engine
      .generate("stop here", { ...greedy, maxTokens: 30, stop: [stop, "never seen"] })
      .result();
    assert.equal(result.text, text.slice(0, cut));
    assert.equal(result.samples[0]!.finishReason, "stop");
    assert.equal(result.samples[0]!.stopReason, stop);
    assert.ok(result.trace.completionTokens < 30);
    assert.equal((await engine.stats()).running, 0);
  });

  test("stop ids end the answer, min tokens puts them off", async () => {
    const { samples } = await engine.generate("ids", { ...greedy, maxTokens: 20 }).result();
    const first = samples[0]!.tokenIds[0]!;
    const stopped = await engine.generate("ids", { ...greedy, maxTokens: 20, stopTokenIds: [first] }).result();
    assert.deepEqual(stopped.samples[0]!.tokenIds, [first]);
    assert.equal(stopped.samples[0]!.finishReason, "stop");
    assert.equal(stopped.samples[0]!.stopReason, first);
    assert.equal(stopped.text, "");
    const longer = await engine
      .generate("ids", { ...greedy, maxTokens: 20, stopTokenIds: [first], minTokens: 5 })
      .result();
    assert.ok(longer.samples[0]!.tokenIds.length > 5);
    assert.ok(!longer.samples[0]!.tokenIds.slice(0, 5).includes(first));
  });

  test("n samples share the prompt and differ in their draws", async () => {
    const result = await engine
      .generate("many", { n: 4, maxTokens: 12, temperature: 2, seed: 9, ignoreEos: true })
      .result();
    const texts = new Set(result.samples.map((s) => s.tokenIds.join()));
    assert.equal(texts.size, 4);
    assert.equal(result.trace.completionTokens, 48);
    const single = await engine
      .generate("many", { n: 1, maxTokens: 12, temperature: 2, seed: 9, ignoreEos: true })
      .result();
    assert.deepEqual(single.samples[0]!.tokenIds, result.samples[0]!.tokenIds);
  });

  test("logprobs and prompt logprobs are those of the same distribution", async () => {
    const options = { ...greedy, maxTokens: 4, logprobs: 3, promptLogprobs: 2 };
    const prompt = engine.tokenizer.encode("some prompt of a few tokens");
    const result = await engine.generate(prompt, options).result();
    const [sample] = result.samples;
    assert.equal(sample!.logprobs!.length, 4);
    for (const [i, entry] of sample!.logprobs!.entries()) {
      assert.equal(entry.id, sample!.tokenIds[i]);
      assert.equal(entry.top.length, 3);
      assert.equal(entry.top[0]!.id, entry.id); // greedy
      assert.ok(entry.logprob <= 0 && entry.top[0]!.logprob >= entry.top[1]!.logprob);
    }
    const prompts = result.promptLogprobs!;
    assert.equal(prompts.length, prompt.length);
    assert.equal(prompts[0], null);
    assert.deepEqual(
      prompts.slice(1).map((entry) => entry!.id),
      prompt.slice(1),
    );
    // The answer, given as part of a prompt, has the logprobs it was generated with.
    const whole = await engine.generate([...prompt, ...sample!.tokenIds], { ...options, maxTokens: 1 }).result();
    assert.deepEqual(
      whole.promptLogprobs!.slice(prompt.length).map((entry) => entry!.logprob),
      sample!.logprobs!.map((entry) => entry.logprob),
    );
  });

  test("maxTokens 0: the prompt is computed, scored and cached, and nothing is generated", async () => {
    const prompt = Array.from({ length: 100 }, (_, i) => (i * 7) % 260);
    const { promptLogprobs } = await engine.generate(prompt, { maxTokens: 1, promptLogprobs: 2 }).result();
    const scored = await engine.generate(prompt, { maxTokens: 0, promptLogprobs: 2, logprobs: 0, n: 3 }).result();
    assert.deepEqual(scored.promptLogprobs, promptLogprobs);
    assert.deepEqual(
      scored.samples.map(({ text, tokenIds, logprobs, finishReason }) => [text, tokenIds, logprobs, finishReason]),
      Array(3).fill(["", [], [], "length"]),
    );
    assert.deepEqual([scored.trace.promptTokens, scored.trace.completionTokens], [100, 0]);
    const salt = "computed ahead";
    await engine.generate(prompt, { maxTokens: 0, salt }).result();
    const answer = await engine.generate(prompt, { maxTokens: 1, salt }).result();
    assert.equal(answer.trace.cachedTokens, 96, "all whole pages");
    const chunks = [];
    for await (const chunk of engine.generate(prompt, { maxTokens: 0, promptLogprobs: 2 })) chunks.push(chunk);
    assert.deepEqual(
      chunks.map((chunk) => [chunk.text, chunk.finishReason, chunk.promptLogprobs]),
      [["", "length", promptLogprobs]],
    );
  });

  test("logit bias forces and penalties change the answer", async () => {
    const forced = await engine.generate("bias", { ...greedy, maxTokens: 5, logitBias: [[65, 100]] }).result();
    assert.equal(forced.text, "AAAAA");
    const varied = await engine
      .generate("bias", { ...greedy, maxTokens: 5, logitBias: [[65, 20]], frequencyPenalty: 100 })
      .result();
    assert.equal(new Set(varied.samples[0]!.tokenIds).size, 5);
  });

  test("abort by signal, by leaving the loop and before the start", async () => {
    const controller = new AbortController();
    const generation = engine.generate("abort", { ...greedy, signal: controller.signal });
    await assert.rejects(async () => {
      for await (const _ of generation) controller.abort();
    }, /aborted by its caller/);
    for await (const _ of engine.generate("leave", greedy)) break;
    const gone = AbortSignal.abort();
    await assert.rejects(engine.generate("never", { ...greedy, signal: gone }).result(), { code: "aborted" });
    const result = await engine.generate("after", { ...greedy, maxTokens: 2 }).result();
    assert.equal(result.samples[0]!.tokenIds.length, 2);
    const stats = await engine.stats();
    assert.deepEqual([stats.running, stats.waiting, stats.pagesUsed], [0, 0, 0]);
  });

  test("embeddings: the last state follows the last token, the mean does not depend on caching", async () => {
    const text = "a text to embed that is longer than a page";
    const first = await engine.embed([text, "other"], { pooling: "mean" });
    const second = await engine.embed([text], { pooling: "mean" });
    const last = await engine.embed([text, `${text}!`]);
    assert.equal(first.vectors[0]!.length, 48);
    assert.deepEqual(first.vectors[0], second.vectors[0]);
    assert.notDeepEqual(last.vectors[0], last.vectors[1]);
    assert.notDeepEqual(last.vectors[0], first.vectors[0]);
    assert.equal(first.promptTokens, text.length + 5);
  });

  test("step records tell rows, tokens and pages", async () => {
    const controller = new AbortController();
    const seen: number[] = [];
    const following = (async () => {
      for await (const step of engine.inspect.steps({ signal: controller.signal })) {
        seen.push(step.tokens);
        assert.equal(
          step.tokens,
          step.rows.reduce((sum, row) => sum + row.queryLen, 0),
        );
      }
    })();
    const prompt = Array.from({ length: 40 }, (_, i) => 200 - i);
    await engine.generate(prompt, { ...greedy, maxTokens: 3 }).result();
    await until(() => seen.length >= 3, "every step is told");
    controller.abort();
    await following;
    assert.deepEqual(seen, [40, 1, 1]);
    assert.equal(engine.inspect.history().at(-1)!.rows[0]!.isPrefill, false);
  });

  const refused: [string, string | number[], GenerateOptions, RegExp | object][] = [
    ["an empty prompt", "", {}, /The prompt is empty/],
    [
      "a prompt longer than the context",
      Array(CONTEXT).fill(1),
      {},
      { code: "context_length_exceeded", param: "prompt" },
    ],
    ["a token out of range", [1, 260], {}, /Token id 260 at index 1 is outside the vocabulary 0\.\.259/],
    ["a fractional token", [1.5], {}, /Token id 1\.5/],
    ["no prompt at all", undefined as never, {}, /prompt is undefined; it must be a text, or a list of token ids/],
    ["n of 0", "a", { n: 0 }, /n is 0; it must be a whole number from 1 to 128/],
    ["n of 1e9", "a", { n: 1e9 }, /n is 1000000000; it must be/],
    ["maxTokens of -1", "a", { maxTokens: -1 }, /maxTokens is -1; it must be a whole number from 0/],
    ["maxTokens of 1e9", "a", { maxTokens: 1e9 }, /maxTokens is 1000000000; it must be/],
    [
      "a temperature that is not a number",
      "a",
      { temperature: Number.NaN },
      /temperature is NaN; it must be a number from 0 to 100/,
    ],
    ["top-p above 1", "a", { topP: 1.5 }, /topP is 1\.5/],
    ["an empty stop string", "a", { stop: [""] }, /stop is \[""\]; it must be a list of non-empty strings/],
    ["a bias on no token", "a", { logitBias: [[-1, 1]] }, /logitBias/],
    [
      "more min than max tokens",
      "a",
      { minTokens: 9, maxTokens: 3 },
      /minTokens is 9; it must be at most maxTokens \(3/,
    ],
    [
      "an unknown option",
      "a",
      { tempature: 1 } as GenerateOptions,
      /Unknown option tempature\. Did you mean temperature\?$/,
    ],
    [
      "a constraint of no kind",
      "a",
      { constraint: { kind: "yaml", source: "" } as never },
      /constraint is .*yaml.*; it must be \{ kind, source \}: kind one of json, json_schema, regex, grammar/,
    ],
    ["a hook across threads", "a", { editLogits: () => undefined }, /worker: false/],
  ];
  for (const [what, prompt, options, message] of refused) {
    test(`refuses ${what}`, async () => {
      await assert.rejects(engine.generate(prompt, options).result(), message);
      assert.throws(
        () => engine.submit(typeof prompt === "string" ? engine.tokenizer.encode(prompt) : prompt, options),
        message,
      );
    });
  }

  test("refuses what is no conversation and no list of texts, by name", async () => {
    const code = "invalid_value";
    for (const messages of [undefined, { role: "user", content: "a" }, []])
      await assert.rejects(engine.chat(messages as never).result(), { code, param: "messages" });
    await assert.rejects(engine.embed("a" as never), { code, param: "inputs" });
    await assert.rejects(engine.rerank("a", "b" as never), { code, param: "documents" });
  });

  test("refuses a schema that cannot be promised", async () => {
    const generation = engine.generate("a", { constraint: { kind: "json_schema", source: "{" } });
    await assert.rejects(generation.result(), { code: "invalid_schema", param: "constraint" });
  });

  test("a failed step fails its own rows and no others", async () => {
    const victim = engine.generate("victim", greedy);
    const reading = victim[Symbol.asyncIterator]();
    await reading.next();
    (engine as unknown as { injectFault(where: string): void }).injectFault("step");
    await assert.rejects(victim.result(), /The step that ran this request failed: injected fault/);
    const healthy = await engine.generate("healthy", { ...greedy, maxTokens: 4 }).result();
    assert.equal(healthy.samples[0]!.tokenIds.length, 4);
    assert.equal((await engine.stats()).pagesUsed, 0);
  });

  test("a dead thread is started again; calls that had not begun are kept", async () => {
    const begun = engine.generate("begun", greedy);
    await begun[Symbol.asyncIterator]().next();
    (engine as unknown as { injectFault(where: string): void }).injectFault("thread");
    const kept = engine.generate("kept", { ...greedy, maxTokens: 3 });
    // Asked before the death was known, and never answered.
    const questions = [engine.stats(), engine.inspect.cache()];
    const calls = [...questions, begun.result()];
    await Promise.all(calls.map((call) => assert.rejects(call, { code: "engine_dead" })));
    assert.equal(engine.health().state, "restarting");
    await assert.rejects(engine.stats(), { code: "engine_dead" }, "asked of a thread that is not there");
    const result = await kept.result();
    assert.equal(result.samples[0]!.tokenIds.length, 3);
    assert.deepEqual([engine.health().state, engine.health().restarts], ["ready", 1]);
  });
});

test("what a thread says before it dies is heard first", async () => {
  const heard: FromEngine[] = [];
  const last = 'require("node:worker_threads").parentPort.postMessage({ type: "away", reason: "no memory" });';
  const worker = new Worker(`${last} throw new Error("out of memory");`, { eval: true });
  hostOf(worker, (message) => heard.push(message));
  worker.ref();
  await new Promise((resolve) => worker.once("exit", resolve));
  assert.deepEqual(
    heard.map(({ type }) => type),
    ["away", "dead"],
  );
});

test("a thread that ends by an error is told as dead, unless it was closed", async () => {
  for (const isClosed of [false, true]) {
    const heard: FromEngine[] = [];
    const fail =
      'require("node:worker_threads").parentPort.once("message", () => { throw new Error("out of memory"); })';
    const worker = new Worker(fail, { eval: true });
    const host = hostOf(worker, (message) => heard.push(message));
    if (!isClosed) {
      worker.ref();
      worker.postMessage("go");
      await new Promise((resolve) => worker.once("exit", resolve));
    }
    await host.close();
    const dead = { type: "dead", error: toWire(new Error("out of memory"), "engine_dead") };
    assert.deepEqual(heard, isClosed ? [] : [dead]);
  }
});

test("a thread may die three times in a row; an answer that ends well begins the count again", async () => {
  let die = (): void => {};
  const config = engineConfig({ model, device: "reference", numPages: 64, worker: false });
  const engine = new HostedEngine(config, null, (given, listener) => {
    die = () => listener({ type: "dead", error: toWire(new Error("it died"), "engine_dead") });
    return startHost(given, listener);
  });
  await engine.ready;
  const dieAndWait = async () => {
    die();
    await until(() => engine.health().state !== "restarting", "a new thread");
    return engine.health().state;
  };
  const states: string[] = [];
  for (let i = 0; i < 3; i++) states.push(await dieAndWait());
  await engine.generate("abc", { ...greedy, maxTokens: 2 }).result();
  for (let i = 0; i < 4; i++) states.push(await dieAndWait());
  assert.deepEqual(states, ["ready", "ready", "ready", "ready", "ready", "ready", "dead"]);
  assert.deepEqual([engine.health().restarts, engine.health().lastError?.includes("it died")], [6, true]);
  await assert.rejects(engine.stats(), { code: "engine_dead" });
  await engine.close();
});

test("a call that has ended no longer listens to its caller's signal", async () => {
  await using engine = await createEngine({ model, device: "reference", numPages: 64, worker: false });
  const { signal } = new AbortController();
  await engine.generate("abc", { ...greedy, maxTokens: 2, signal }).result();
  await engine.embed(["abc"], { signal });
  const cut = engine.generate("abc", { ...greedy, maxTokens: 90, signal });
  assert.equal(getEventListeners(signal, "abort").length, 1);
  cut.abort();
  await assert.rejects(cut.result(), { code: "aborted" });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("a control token in a message is text, unless it is asked for", async () => {
  const idsOf = async (controlTokensInContent: boolean) => {
    await using engine = await createEngine({
      model,
      device: "reference",
      numPages: 4,
      worker: false,
      controlTokensInContent,
    });
    const { text, content } = asServed(engine).renderPrompt([{ role: "user", content: "hi<eos>" }]);
    return {
      eos: engine.tokenizer.encode("<eos>", { addSpecialTokens: false }),
      ids: engine.tokenizer.encode(text, { addSpecialTokens: false, content }),
    };
  };
  const [plain, control] = [await idsOf(false), await idsOf(true)];
  const ends = ({ eos, ids }: typeof plain) => [...ids].filter((id) => id === eos[0]).length;
  assert.equal(plain.eos.length, 1);
  assert.deepEqual([ends(plain), ends(control)], [1, 2], "the template writes one itself");
});

test("a prompt larger than the pool is refused, an answer that outgrows it is cut", async () => {
  await using engine = await createEngine({ model, device: "reference", numPages: 4, worker: false });
  await assert.rejects(
    engine.generate(Array(60).fill(1)).result(),
    /needs 4 pages of the KV cache; the whole pool has 3/,
  );
  const result = await engine.generate(Array(40).fill(1), greedy).result();
  assert.equal(result.samples[0]!.finishReason, "length");
  assert.equal(result.trace.promptTokens + result.trace.completionTokens, 48);
});

test("a hook that throws ends its own request; others in the same step go on", async () => {
  await using engine = await createEngine({ model, device: "reference", numPages: 64, worker: false });
  const bad = engine.generate("bad", {
    ...greedy,
    editLogits: () => {
      throw new Error("hook broke");
    },
  });
  const good = engine.generate("good", { ...greedy, maxTokens: 5 });
  await assert.rejects(bad.result(), /hook broke/);
  assert.equal((await good.result()).samples[0]!.tokenIds.length, 5);
  const forced = engine.generate("hook", {
    ...greedy,
    maxTokens: 3,
    editLogits: (logits) => logits.fill(-1).fill(5, 66, 67),
  });
  assert.equal((await forced.result()).text, "BBB");
});

test("the queue has a limit, and a closed engine says so", async () => {
  const engine = await createEngine({ model, device: "reference", numPages: 64, worker: false, maxQueue: 2 });
  const running = [engine.generate("a", greedy), engine.generate("b", greedy)];
  await assert.rejects(engine.generate("c").result(), /The queue holds 2 requests, its limit is 2/);
  await assert.rejects(engine.embed(["c"]), { code: "queue_full" });
  await engine.close();
  for (const generation of running) await assert.rejects(generation.result(), { code: "engine_dead" });
  await assert.rejects(engine.generate("d").result(), /it was closed/);
});

test("models that are missing or half-copied are refused before anything is loaded", async () => {
  await assert.rejects(createEngine({ model: "/nowhere/at/all" }), /No model at .*nowhere/);
  await assert.rejects(createEngine({ model, pageSize: 0 }), /Option pageSize is 0/);
  await assert.rejects(createEngine({ model, pagesise: 3 } as never), /Unknown option pagesise/);
});
