// The server as a function: a Request in, a Response out, by itself and inside other people's applications.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import OpenAI from "openai";
import { createEngine, createHandler, type Handler } from "../../src/index.js";
import { silentLogger } from "../support/silent-logger.js";
import { ENDLESS, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { until } from "../support/until.js";

const engine = await createEngine({ model: writeTinyCheckpoint({ ...ENDLESS, context: 4096 }), threads: 1, seed: 1 });
after(() => engine.close());
const logger = silentLogger;
const messages = [{ role: "user" as const, content: "a" }];
const ask = { messages, max_tokens: 4, temperature: 0 };
const { text: answer } = await engine.chat("a", { maxTokens: 4, temperature: 0 });

const post = (path: string, body: unknown, init: RequestInit = {}): Request =>
  new Request(`http://any.host${path}`, { method: "POST", body: JSON.stringify(body), ...init });

test("a request in, a response out: JSON, streams, errors, keys", async () => {
  await using handler = createHandler(engine, { logger });
  const whole = await handler(post("/v1/chat/completions", ask));
  assert.equal(((await whole.json()) as OpenAI.ChatCompletion).choices[0]!.message.content, answer);
  assert.match(whole.headers.get("x-request-id")!, /^[\w-]+$/);
  const streamed = await handler(post("/v1/chat/completions", { ...ask, stream: true }));
  assert.match(streamed.headers.get("content-type")!, /^text\/event-stream/);
  assert.ok((await streamed.text()).trimEnd().endsWith("data: [DONE]"));
  assert.equal((await handler(post("/v1/nothing", {}))).status, 404);
  assert.equal((await handler(post("/v1/chat/completions", { messages: [] }))).status, 400);
  assert.equal((await handler(new Request("http://any.host/health"))).status, 200);
  await using keyed = createHandler(engine, { logger, apiKey: ["secret"] });
  assert.equal((await keyed(post("/v1/chat/completions", ask))).status, 401);
  const headers = { authorization: "Bearer secret" };
  assert.equal((await keyed(post("/v1/chat/completions", ask, { headers }))).status, 200);
});

test("methods that no server has read name no further samples of the metrics", async () => {
  await using handler = createHandler(engine, { logger });
  for (let i = 0; i < 20; i++)
    assert.equal((await handler(new Request("http://h/health", { method: `M${i}` }))).status, 405);
  const text = await (await handler(new Request("http://h/metrics"))).text();
  assert.deepEqual(text.match(/method="(M\d+|other)"/g), ['method="other"']);
});

test("bodies are bounded, and a request that was read before says so", async () => {
  await using handler = createHandler(engine, { logger, maxBodyMb: 0.001 });
  const long = { ...ask, messages: [{ role: "user", content: "a".repeat(2000) }] };
  assert.equal((await handler(post("/v1/chat/completions", long))).status, 413);
  const read = post("/v1/chat/completions", ask);
  await read.text();
  const refused = await handler(read);
  assert.deepEqual(
    [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
    [400, "invalid_json"],
  );
});

test("a caller that leaves ends its answer; a handler that closes takes no more", async () => {
  const handler = createHandler(engine, { logger });
  const endless = { messages, temperature: 0, stream: true };
  const leaving = new AbortController();
  const response = await handler(post("/v1/chat/completions", endless, { signal: leaving.signal }));
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  await until(async () => (await engine.stats()).running === 0, "the answer is over");
  const whole = handler(post("/v1/chat/completions", { ...endless, stream: false }, { signal: leaving.signal }));
  await until(async () => (await engine.stats()).running === 1, "it runs");
  leaving.abort();
  assert.equal((await whole).status, 499);
  await until(async () => (await engine.stats()).running === 0, "the answer is over");
  assert.equal(await handler.close(1), true);
  assert.equal((await handler(post("/v1/chat/completions", ask))).status, 503);
});

test("hosts and origins are the application's business, unless they are named", async () => {
  await using open = createHandler(engine, { logger });
  const type = { "content-type": "application/json" };
  const from = { headers: { ...type, host: "example.com", origin: "https://elsewhere.example" } };
  assert.equal((await open(post("/v1/chat/completions", ask, from))).status, 200);
  await using bound = createHandler(engine, { logger, allowedHost: ["example.com"] });
  const other = await bound(post("/v1/chat/completions", ask, { headers: { ...type, host: "other.example" } }));
  assert.equal(other.status, 403);
  assert.throws(() => createHandler(engine, { basePath: "api" }), { code: "invalid_option", param: "basePath" });
});

/** What every application below must do: answer OpenAI's own client, whole and streamed, and see it leave. */
async function check(base: string): Promise<void> {
  const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
  const whole = await client.chat.completions.create({ ...ask, model: "" });
  assert.equal(whole.choices[0]!.message.content, answer);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...ask, model: "", stream: true }))
    streamed += chunk.choices[0]?.delta.content ?? "";
  assert.equal(streamed, answer);
  const endless = await client.chat.completions.create({ messages, model: "", temperature: 0, stream: true });
  for await (const _ of endless) break;
  await until(async () => (await engine.stats()).running === 0, "the answer is over");
  await assert.rejects(client.chat.completions.create({ model: "", messages: [] }), { status: 400 });
}

async function listening(listener: RequestListener): Promise<{ url: string; close(): Promise<void> }> {
  const server = createHttpServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

const handlers: Handler[] = [];
const mounted = (options = {}): Handler => {
  const handler = createHandler(engine, { logger, ...options });
  handlers.push(handler);
  return handler;
};
after(() => Promise.all(handlers.map((handler) => handler.close(0))));

test("inside Hono", async () => {
  const app = new Hono().get("/", (c) => c.text("mine")).mount("/llm", mounted());
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await check(`${url}/llm`);
  assert.equal(await (await fetch(url)).text(), "mine");
  server.close();
});

test("inside Express", async () => {
  const app = express().use("/llm", mounted().node).use(express.json());
  app.get("/", (_, response) => void response.send("mine"));
  const { url, close } = await listening(app);
  await check(`${url}/llm`);
  assert.equal(await (await fetch(url)).text(), "mine");
  await close();
  const late = await listening(express().use(express.json()).use("/llm", mounted().node));
  const refused = await fetch(`${late.url}/llm/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(ask),
  });
  assert.deepEqual(
    [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
    [400, "invalid_json"],
  );
  await late.close();
});

test("inside Fastify", async () => {
  const { node } = mounted({ basePath: "/llm" });
  const app = fastify();
  app.get("/", async () => "mine");
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, _body, done) => done(null));
    scope.all("/llm/*", (request, reply) => {
      reply.hijack();
      node(request.raw, reply.raw);
    });
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  await check(`${url}/llm`);
  assert.equal(await (await fetch(url)).text(), "mine");
  await app.close();
});

test("as a route of Next.js, whose requests have their whole path", async () => {
  const POST = mounted({ basePath: "/api/llm" });
  const response = await POST(post("/api/llm/v1/chat/completions", ask));
  assert.equal(((await response.json()) as OpenAI.ChatCompletion).choices[0]!.message.content, answer);
  assert.equal((await POST(new Request("http://any.host/api/llm/health"))).status, 200);
});
