// What a watcher sees: the dashboard's data, metrics, traces, logs, the OpenAPI document.

import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { after, before, test } from "node:test";
import { pino } from "pino";
import type { CachePicture, StepPlan, StepRecord } from "../../src/engine/types.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const messages = [{ role: "user", content: "a secret prompt that is long enough for two pages" }];
let host: TestServer;
let logged = "";

before(async () => {
  const sink = new Writable({
    write: (chunk, _, done) => {
      logged += chunk;
      done();
    },
  });
  host = await startServer(
    { model: writeTinyCheckpoint() },
    { logger: pino({ level: "debug" }, sink), streamKeepAliveSeconds: 0.05 },
  );
});
after(async () => host?.[Symbol.asyncDispose]());

/** What was logged of a request. */
function linesOf(requestId: string): { msg: string; status?: number; completionTokens?: number }[] {
  const lines = logged.trim().split("\n");
  return lines.map((line) => JSON.parse(line)).filter((entry) => entry.requestId === requestId);
}

async function get<T>(path: string): Promise<T> {
  const response = await fetch(host.url + path);
  assert.equal(response.status, 200, path);
  return (await response.json()) as T;
}

test("what a GPU tells is in the metrics: its clock in seconds, and counters that go on", async () => {
  const { engine } = host;
  const stats = engine.stats.bind(engine);
  let deviceUsage = { memoryBytes: 8e9, memoryUsedBytes: 3e9, busyMs: 1500, launches: 7, graphReplays: 2 };
  engine.stats = async () => ({ ...(await stats()), deviceUsage }); // no GPU is here
  const read = async (): Promise<number[]> => {
    const text = await (await fetch(`${host.url}/metrics`)).text();
    return ["memory_bytes", "memory_used_bytes", "busy_seconds_total", "launches_total", "graph_replays_total"].map(
      (name) => Number(new RegExp(`^pagoda_gpu_${name}\\{[^}]*\\} (\\S+)$`, "m").exec(text)?.[1]),
    );
  };
  assert.deepEqual(await read(), [8e9, 3e9, 1.5, 7, 2]);
  deviceUsage = { ...deviceUsage, memoryUsedBytes: 4e9, busyMs: 4000, launches: 9 };
  assert.deepEqual(await read(), [8e9, 4e9, 4, 9, 2]);
  engine.stats = stats;
});

test("steps: history first, then each as it happens; the plan of one", async () => {
  await (await host.post("/v1/chat/completions", { messages, max_tokens: 4, temperature: 0 })).json();
  const leave = new AbortController();
  const response = await fetch(`${host.url}/api/steps`, { signal: leave.signal });
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const reader = response.body!.getReader();
  let text = "";
  const read = async (pattern: RegExp): Promise<void> => {
    while (!pattern.test(text)) text += Buffer.from((await reader.read()).value!).toString();
  };
  await read(/event: history\ndata: (.*)\n\n/);
  const history = JSON.parse(/event: history\ndata: (.*)\n\n/.exec(text)![1]!) as StepRecord[];
  assert.ok(history.length >= 4);
  assert.ok(history[0]!.rows[0]!.isPrefill && !history.at(-1)!.rows[0]!.isPrefill);
  const next = host.post("/v1/chat/completions", { messages, max_tokens: 2 });
  await read(/event: step\n/);
  const { id } = (await (await next).json()) as { id: string };
  await read(new RegExp(id));
  await read(/: waiting\n\n/); // silence is broken
  leave.abort();
  const plans = await get<StepPlan[]>(`/api/plan/${history[0]!.step}`);
  assert.equal(plans[0]!.window, 0);
  assert.ok(plans[0]!.items.length > 0 && plans[0]!.items.every((item) => item.kvEnd > item.kvStart && item.row === 0));
  for (const bad of ["999999", "x", "-1"]) assert.equal((await fetch(`${host.url}/api/plan/${bad}`)).status, 404);
  assert.deepEqual((await get<StepRecord[]>("/api/steps?format=json"))[0], history[0]);
});

test("the page map and the trie, with text", async () => {
  const cache = await get<Omit<CachePicture, "nodes"> & { nodes: { id: number; parent: number; text: string }[] }>(
    "/api/cache",
  );
  assert.equal(cache.groups[0]!.pages[0]!.state, "null");
  assert.ok(cache.nodes.length >= 2);
  assert.ok(cache.nodes.some((node) => node.text.includes("a secret")));
  assert.ok(cache.nodes.every((node) => node.parent === 0 || cache.nodes.some((other) => other.id === node.parent)));
  assert.deepEqual(cache.requests, []);
});

test("stats and metrics agree with what was done", async () => {
  const stats = await get<{
    engine: { requestsFinished: number };
    server: { active: number; ttftMs: { count: number } };
  }>("/api/stats");
  assert.ok(stats.engine.requestsFinished >= 2);
  assert.equal(stats.server.active, 0);
  assert.ok(stats.server.ttftMs.count >= 2);
  const text = await (await fetch(`${host.url}/metrics`)).text();
  const value = (name: string) => Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "m").exec(text)?.[1]);
  assert.ok(value("pagoda_generation_tokens_total") >= 6);
  assert.ok(value("pagoda_prefix_cache_hits_total") >= 32, "the second prompt found the first one's pages");
  assert.equal(value("pagoda_time_to_first_token_seconds_count"), stats.server.ttftMs.count);
  const answers = value("pagoda_time_to_first_token_seconds_count");
  assert.equal(value("pagoda_inter_token_seconds_count"), value("pagoda_generation_tokens_total") - answers);
  assert.ok(value("pagoda_step_seconds_count") >= 6);
  assert.equal(value("pagoda_requests_running"), 0);
  assert.match(text, /pagoda_pages\{state="free"[^}]*\} \d+/);
  const again = await (await fetch(`${host.url}/metrics`)).text();
  assert.equal(
    /^pagoda_generation_tokens_total.*$/m.exec(again)![0],
    /^pagoda_generation_tokens_total.*$/m.exec(text)![0],
  );
});

test("a trace when asked for, request ids echoed, no prompt in the log", async () => {
  const plain = (await (await host.post("/v1/chat/completions", { messages, max_tokens: 2 })).json()) as Record<
    string,
    unknown
  >;
  assert.equal(plain.pagoda_trace, undefined);
  const response = await host.post(
    "/v1/chat/completions",
    { messages, max_tokens: 2 },
    { "x-pagoda-trace": "1", "x-request-id": "my-id" },
  );
  const traced = (await response.json()) as { pagoda_trace: { cachedTokens: number; steps: number } };
  assert.ok(traced.pagoda_trace.cachedTokens > 0 && traced.pagoda_trace.steps >= 2);
  assert.equal(response.headers.get("x-request-id"), "my-id");
  const line = linesOf("my-id").find(({ msg }) => msg === "request")!;
  assert.equal(line.status, 200);
  assert.equal(line.completionTokens, 2);
  const streamed = { messages, max_tokens: 3, ignore_eos: true, stream: true };
  await (await host.post("/v1/chat/completions", streamed, { "x-request-id": "my-stream" })).text();
  await until(() => linesOf("my-stream").some(({ msg }) => msg === "stream ended"), "the end of a stream is logged");
  assert.equal(linesOf("my-stream").find(({ msg }) => msg === "stream ended")!.completionTokens, 3);
  assert.ok(!logged.includes("secret"), "prompts are not logged");
});

test("the OpenAPI document lists every endpoint with its body", async () => {
  const document = await get<{ openapi: string; paths: Record<string, Record<string, { requestBody?: unknown }>> }>(
    "/openapi.json",
  );
  assert.equal(document.openapi, "3.1.0");
  for (const path of [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/tokenize",
    "/detokenize",
  ])
    assert.ok(document.paths[path]!.post!.requestBody !== undefined, path);
  for (const path of [
    "/v1/models",
    "/health",
    "/ready",
    "/metrics",
    "/version",
    "/api/stats",
    "/api/steps",
    "/api/cache",
    "/api/plan/{step}",
  ])
    assert.ok(document.paths[path]!.get !== undefined, path);
});

test("tokenize and detokenize", async () => {
  const tokens = (await (await host.post("/tokenize", { prompt: "héllo", return_token_strs: true })).json()) as {
    tokens: number[];
    count: number;
  };
  assert.equal(tokens.count, tokens.tokens.length);
  const { prompt } = (await (await host.post("/detokenize", { tokens: tokens.tokens })).json()) as { prompt: string };
  assert.equal(prompt.replace("<bos>", ""), "héllo");
  const chat = (await (await host.post("/tokenize", { messages })).json()) as { count: number };
  assert.ok(chat.count > 40);
  assert.equal((await host.post("/tokenize", {})).status, 400);
  assert.equal((await host.post("/detokenize", { tokens: [99999] })).status, 400);
});
