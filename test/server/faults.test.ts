// Faults inside a step, of the engine's thread and of the grammar matcher: others finish, and /health recovers.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { ENDLESS, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const messages = [{ role: "user" as const, content: "hello" }];
const MODEL = "m";
/** Runs until a fault ends it. */
const LONG = ENDLESS.tokens;

function start(): Promise<TestServer> {
  const { context, numPages } = ENDLESS;
  return startServer(
    { model: writeTinyCheckpoint({ context }), numPages },
    { servedModelName: [MODEL], maxConcurrent: 2 },
  );
}

function ask(host: TestServer, extra: Record<string, unknown> = {}): Promise<string> {
  const body = { model: MODEL, messages, temperature: 0, max_tokens: 6, ignore_eos: true, ...extra };
  return host.client.chat.completions
    .create(body as OpenAI.ChatCompletionCreateParamsNonStreaming)
    .then((reply) => reply.choices[0]!.message.content!);
}

function begin(host: TestServer) {
  const body = { model: MODEL, messages, stream: true, max_tokens: LONG, ignore_eos: true };
  return host.client.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsStreaming);
}

test("a fault in a step fails its rows with a clear error; those that wait are served", async () => {
  await using host = await start();
  const expected = await ask(host);
  const inside = [ask(host, { max_tokens: LONG }), ask(host, { max_tokens: LONG })];
  await until(async () => (await host.engine.stats()).running === 2, "two run");
  const waiting = ask(host);
  await until(() => host.server.context.gate.queued === 1, "one waits");
  host.engine.injectFault("step");
  const failsClearly = (call: Promise<string>) =>
    assert.rejects(call, (error: unknown) => {
      assert.ok(error instanceof OpenAI.InternalServerError);
      assert.match(error.message, /The step that ran this request failed: injected fault/);
      return true;
    });
  await Promise.all(inside.map(failsClearly)); // either may be heard first
  assert.equal(await waiting, expected);
  assert.equal((await fetch(`${host.url}/health`)).status, 200);
  assert.equal((await host.engine.stats()).pagesUsed, 0);
});

test("a fault in a step ends a stream with an error event", async () => {
  await using host = await start();
  const stream = await begin(host);
  await assert.rejects(async () => {
    let isInjected = false;
    for await (const _ of stream) {
      if (!isInjected) host.engine.injectFault("step");
      isInjected = true;
    }
  }, /injected fault/);
});

test("a fault of the engine's thread: it restarts, who had not begun is kept, /health tells", async () => {
  await using host = await start();
  const expected = await ask(host);
  const begun = await begin(host);
  const chunks = begun[Symbol.asyncIterator]();
  await chunks.next();
  const other = ask(host, { max_tokens: LONG });
  other.catch(() => undefined);
  const waiting = ask(host);
  await until(() => host.server.context.gate.queued === 1, "one waits");
  const witness = host.engine.generate("a", { maxTokens: LONG, ignoreEos: true });
  await witness[Symbol.asyncIterator]().next();
  host.engine.injectFault("thread");
  await assert.rejects(witness.result(), { code: "engine_dead" });
  // Asked without the network, as soon as the fault is heard of: another thread is there in no time.
  const down = await host.server.app.request("/health", { headers: { host: "127.0.0.1" } });
  assert.equal(down.status, 503);
  await assert.rejects(async () => {
    while ((await chunks.next()).done !== true);
  }, /The engine has stopped/);
  await other.catch(() => undefined);
  assert.equal(await waiting, expected);
  await until(async () => (await fetch(`${host.url}/health`)).status === 200, "healthy again");
  const health = (await (await fetch(`${host.url}/health`)).json()) as { restarts: number };
  assert.equal(health.restarts, 1);
  const { lastError } = ((await (await fetch(`${host.url}/api/stats`)).json()) as { health: { lastError: string } })
    .health;
  assert.match(lastError, /injected fault/);
  assert.equal(await ask(host), expected, "as before");
  assert.match(await (await fetch(`${host.url}/metrics`)).text(), /pagoda_engine_restarts_total\{[^}]*\} 1/);
});

test("a thread that dies again and again is restarted three times, counted anew after an answer, and then given up", async () => {
  await using host = await start();
  const { engine } = host;
  const die = async (): Promise<string> => {
    const { restarts } = engine.health();
    engine.injectFault("thread");
    await until(() => {
      const health = engine.health();
      return health.state === "dead" || (health.state === "ready" && health.restarts > restarts);
    }, "it is back, or given up");
    return engine.health().state;
  };
  assert.equal(await die(), "ready");
  await ask(host);
  for (let i = 0; i < 3; i++) assert.equal(await die(), "ready");
  assert.equal(await die(), "dead");
  await assert.rejects(ask(host), /The engine has stopped: injected fault/);
});

test("a grammar that crashes the matcher fails alone; another constrained answer goes on", async () => {
  await using host = await start();
  const body = { model: MODEL, messages, stream: true as const, max_tokens: 300, guided_regex: "[ab]{200}" };
  const stream = await host.client.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsStreaming);
  const chunks = stream[Symbol.asyncIterator]();
  let text = "";
  const read = async (): Promise<boolean> => {
    const { done, value } = await chunks.next();
    if (done !== true) text += value.choices[0]?.delta.content ?? "";
    return done !== true;
  };
  await read();
  const trap = `root ::= ${"(".repeat(20_000)}"a"${")".repeat(20_000)}`;
  await assert.rejects(ask(host, { guided_grammar: trap }), OpenAI.BadRequestError);
  assert.match(await ask(host, { guided_regex: "x[yz]" }), /^x[yz]$/);
  while (await read());
  assert.match(text, /^[ab]{200}$/);
  assert.equal((await fetch(`${host.url}/health`)).status, 200);
});
