// Keys, tenants, draining, CORS, the command line.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import OpenAI from "openai";
import { asServed } from "../../src/engine/served-engine.js";
import { holdAnswers } from "../support/held-answers.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { ENDLESS, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const long = {
  messages: [{ role: "user", content: "the same long prompt ".repeat(10) }],
  max_tokens: 2,
  temperature: 0,
};

async function cachedTokens(host: TestServer, key: string, extra: Record<string, unknown> = {}): Promise<number> {
  const response = await host.post("/v1/chat/completions", { ...long, ...extra }, { authorization: `Bearer ${key}` });
  assert.equal(response.status, 200);
  const body = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
  return body.usage.prompt_tokens_details.cached_tokens;
}

test("a wrong or missing key is 401; health, readiness and metrics need none", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint() }, { apiKey: ["alpha", "beta"] });
  const wrong = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: "gamma", maxRetries: 0 });
  await assert.rejects(wrong.models.list(), (error: unknown) => {
    assert.ok(error instanceof OpenAI.AuthenticationError);
    assert.equal(error.code, "invalid_api_key");
    return true;
  });
  for (const path of ["/v1/models", "/api/stats", "/api/cache", "/api/steps"])
    assert.equal((await fetch(host.url + path)).status, 401, path);
  for (const path of ["/health", "/ready", "/metrics", "/version", "/openapi.json"])
    assert.equal((await fetch(host.url + path)).status, 200, path);
  assert.equal((await fetch(`${host.url}/v1/models`, { headers: { "x-api-key": "beta" } })).status, 200);
  assert.equal((await host.client.models.list()).data.length, 1);
});

test("one key's cached prefix never serves another; a salt parts further", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint() }, { apiKey: ["alpha", "beta"] });
  assert.equal(await cachedTokens(host, "alpha"), 0);
  assert.ok((await cachedTokens(host, "alpha")) > 100, "its own prefix is cached");
  assert.equal(await cachedTokens(host, "beta"), 0, "another key's is not");
  assert.equal(await cachedTokens(host, "alpha", { cache_salt: "s" }), 0);
  assert.ok((await cachedTokens(host, "alpha", { cache_salt: "s" })) > 100);
  const cache = (await (
    await fetch(`${host.url}/api/cache`, { headers: { authorization: "Bearer beta" } })
  ).json()) as {
    nodes: { tokens: number[]; text?: string }[];
  };
  assert.ok(cache.nodes.length > 0 && cache.nodes.every((node) => node.tokens.length === 0 && node.text === undefined));
});

test("the engine is told whose a request is: its key's, or without keys its address's", async () => {
  const model = writeTinyCheckpoint();
  const clientsOf = async (host: TestServer, keys: readonly string[]): Promise<(string | undefined)[]> => {
    const clients: (string | undefined)[] = [];
    const engine = asServed(host.engine);
    const submit = engine.submit.bind(engine);
    engine.submit = (prompt, options) => {
      clients.push(options?.client);
      return submit(prompt, options);
    };
    for (const key of keys) await cachedTokens(host, key);
    return clients;
  };
  await using keyed = await startServer({ model }, { apiKey: ["alpha", "beta"] });
  const [alpha, beta, again] = await clientsOf(keyed, ["alpha", "beta", "alpha"]);
  assert.ok(alpha && beta && alpha !== beta && again === alpha, `${alpha} ${beta} ${again}`);
  await using open = await startServer({ model });
  assert.match((await clientsOf(open, ["none"]))[0]!, /127\.0\.0\.1$/);
});

test("CORS is off unless origins are named", async () => {
  await using closed = await startServer({ model: writeTinyCheckpoint() });
  const origin = { origin: "https://example.com" };
  assert.equal(
    (await fetch(`${closed.url}/health`, { headers: origin })).headers.get("access-control-allow-origin"),
    null,
  );
  await using open = await startServer({ model: writeTinyCheckpoint() }, { corsOrigin: ["https://example.com"] });
  const allowed = await fetch(`${open.url}/v1/models`, {
    method: "OPTIONS",
    headers: { ...origin, "access-control-request-method": "GET" },
  });
  assert.equal(allowed.headers.get("access-control-allow-origin"), "https://example.com");
  const other = await fetch(`${open.url}/health`, { headers: { origin: "https://evil.example" } });
  assert.equal(other.headers.get("access-control-allow-origin"), null);
});

test("draining: 503 to newcomers, those inside finish; a deadline ends the rest", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint() });
  const letGo = holdAnswers(host.engine);
  const inside = host.post("/v1/chat/completions", long);
  await until(() => host.server.context.gate.active === 1, "one inside");
  const closing = host.server.close(30);
  const refused = await host.post("/v1/chat/completions", long);
  assert.equal(refused.status, 503);
  assert.ok(refused.headers.has("retry-after"));
  assert.equal((await fetch(`${host.url}/ready`)).status, 503);
  letGo();
  assert.equal((await inside).status, 200);
  assert.equal(await closing, true);
  await assert.rejects(fetch(`${host.url}/health`));
});

test("draining past its deadline ends what is left", async () => {
  const { context, numPages, tokens } = ENDLESS;
  await using host = await startServer({ model: writeTinyCheckpoint({ context }), numPages });
  const endless = host.post("/v1/chat/completions", { ...long, max_tokens: tokens - 500, ignore_eos: true }).then(
    (response) => response.status,
    () => "cut",
  );
  await until(() => host.server.context.gate.active === 1, "one inside");
  assert.equal(await host.server.close(0.05), false);
  assert.equal(await endless, 503);
  await until(async () => (await host.engine.stats()).pagesUsed === 0, "its pages are free");
});

test("pagoda serve: options from file, environment and flags; SIGTERM drains and ends", async () => {
  const model = writeTinyCheckpoint();
  const config = join(model, "pagoda.json");
  writeFileSync(config, JSON.stringify({ model, port: 1, servedModelName: ["from-file"], apiKey: ["file-key"] }));
  const child = spawn(process.execPath, ["bin/pagoda.js", "serve", "--config", config, "--port", "0"], {
    env: { ...process.env, PAGODA_API_KEY: "env-key", PAGODA_LOG_LEVEL: "silent" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.on("data", (data) => {
    output += data;
  });
  const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
  try {
    await until(() => /OpenAI API\s+http:\S+/.test(output), "it listens");
    const url = /OpenAI API\s+(\S+)/.exec(output)![1]!;
    assert.equal((await fetch(`${url}/models`, { headers: { authorization: "Bearer file-key" } })).status, 401);
    const models = await fetch(`${url}/models`, { headers: { authorization: "Bearer env-key" } });
    assert.match(await models.text(), /"from-file"/);
    const running = fetch(`${url}/chat/completions`, {
      method: "POST",
      headers: { authorization: "Bearer env-key", "content-type": "application/json" },
      body: JSON.stringify({ ...long, max_tokens: 60, ignore_eos: true }),
    });
    const isRunning = async (): Promise<boolean> => {
      const stats = await fetch(new URL("/api/stats", url), { headers: { authorization: "Bearer env-key" } });
      const { server } = (await stats.json()) as { server: { active: number } };
      return server.active > 0;
    };
    await Promise.race([running, until(isRunning, "the call runs")]);
    child.kill("SIGTERM");
    assert.equal((await running).status, 200, "it finished before the end");
    assert.equal(await exit, 0, output);
  } finally {
    child.kill("SIGKILL");
  }
});
