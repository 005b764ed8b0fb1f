// Several models in one server: loaded when they are named, unloaded when others need their memory, each with answers of its own.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { basename } from "node:path";
import { test } from "node:test";
import OpenAI from "openai";
import { createEngine } from "../../src/engine/client/engine.js";
import { mergeScrapes } from "../../src/server/metrics/merge-metrics.js";
import type { GuestModel } from "../../src/server/models/guest-model.js";
import { startProcess } from "../support/served-process.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const folders = [1, 2, 3].map((seed) => writeTinyCheckpoint({ seed }));
const [A, B, C] = folders.map((folder) => basename(folder)) as [string, string, string];

function ask(host: { client: OpenAI }, model: string): Promise<string> {
  const body = {
    model,
    messages: [{ role: "user" as const, content: "hello" }],
    max_tokens: 8,
    temperature: 0,
    ignore_eos: true,
  };
  return host.client.chat.completions.create(body).then((reply) => {
    assert.equal(reply.model, model);
    return reply.choices[0]!.message.content!;
  });
}

function guests(loads: string[]): GuestModel[] {
  return folders.slice(1).map((model) => ({
    name: basename(model),
    load: async (onBytes) => {
      loads.push(basename(model));
      onBytes(2 ** 20);
      return createEngine({ model, threads: 1, seed: 1 });
    },
  }));
}

async function loadedOf(host: TestServer): Promise<string[]> {
  const { models } = (await (await fetch(`${host.url}/api/ps`)).json()) as { models: { name: string }[] };
  return models.map(({ name }) => name);
}

test("guests are loaded when named, kept while there is room, and unloaded by age", async () => {
  const loads: string[] = [];
  await using host = await startServer({ model: folders[0]! }, { guests: guests(loads), modelMemoryMb: 1 });
  assert.deepEqual(
    (await host.client.models.list()).data.map(({ id }) => id),
    [A, B, C],
  );
  assert.deepEqual(await loadedOf(host), [A]);
  const answers = [await ask(host, A), await ask(host, B)];
  assert.notEqual(answers[0], answers[1], "each has its own weights");
  assert.deepEqual(await loadedOf(host), [A, B]);
  const [first, second] = await Promise.all([ask(host, B), ask(host, B)]);
  assert.deepEqual([first, second], [answers[1], answers[1]]);
  await ask(host, C); // there is room for one guest
  assert.deepEqual(await loadedOf(host), [A, C]);
  assert.equal(await ask(host, B), answers[1], "as before");
  assert.deepEqual(loads, [B, C, B]);
  const metrics = await (await fetch(`${host.url}/metrics`)).text();
  for (const name of [A, B]) assert.match(metrics, new RegExp(`pagoda_engine_up\\{model_name="${name}"\\} 1`));
  assert.equal(metrics.match(/# TYPE pagoda_engine_up gauge/g)!.length, 1);
  await assert.rejects(ask(host, "nobody"), new RegExp(`Served: ${A}, ${B}, ${C}`));
  const gone = (await (await host.post("/api/generate", { model: B, keep_alive: 0 })).json()) as Record<
    string,
    unknown
  >;
  assert.deepEqual([gone.done, gone.done_reason, await loadedOf(host)], [true, "unload", [A]]);
});

test("a model that a request has chosen is not unloaded before it is answered", async (t) => {
  await using host = await startServer({ model: folders[0]! }, { guests: guests([]), modelMemoryMb: 1 });
  await ask(host, B);
  const { engine } = host.server.context.house.loaded[1]!;
  const tokenize = engine.tokenizeAside.bind(engine);
  const held: (() => void)[] = [];
  t.mock.method(engine, "tokenizeAside", async (...args: Parameters<typeof tokenize>) => {
    await new Promise<void>((resolve) => held.push(resolve)); // not among the model's calls yet
    return tokenize(...args);
  });
  const answer = ask(host, B);
  await until(() => held.length > 0, "the model is chosen");
  assert.equal((await host.post("/api/generate", { model: B, keep_alive: 0 })).status, 409);
  const other = ask(host, C); // needs its memory
  held[0]!();
  assert.notEqual(await answer, "");
  assert.notEqual(await other, "");
  assert.deepEqual(await loadedOf(host), [A, C]);
});

test("with several keys only an admin's unloads a model; a key that is alone may", async () => {
  await using host = await startServer(
    { model: folders[0]! },
    { guests: guests([]), apiKey: ["alice", "bob"], adminKey: ["boss"] },
  );
  const unload = async (path: string, key: string, more: object): Promise<[number, unknown]> => {
    const reply = await host.post(path, { model: B, keep_alive: 0, ...more }, { authorization: `Bearer ${key}` });
    const body = (await reply.json()) as { done_reason?: string; error?: string };
    return [reply.status, body.done_reason ?? body.error];
  };
  await ask(host, B);
  for (const [path, more] of [
    ["/api/generate", {}],
    ["/api/chat", { messages: [] }],
  ] as const) {
    const [status, error] = await unload(path, "bob", more);
    assert.equal(status, 403);
    assert.match(String(error), /takes a key of adminKey/);
    assert.deepEqual(await unload(path, "boss", more), [200, "unload"]);
  }
  await using own = await startServer({ model: folders[0]! }, { guests: guests([]), apiKey: ["alice"] });
  assert.equal((await own.post("/api/generate", { model: B, keep_alive: 0 })).status, 200);
});

test("a guest that cannot be loaded is told to who asked, and to nobody else", async () => {
  const broken: GuestModel = { name: "broken", load: () => createEngine({ model: "/no/such/model" }) };
  await using host = await startServer({ model: folders[0]! }, { guests: [broken] });
  await assert.rejects(ask(host, "broken"), (error: unknown) => {
    assert.ok(error instanceof OpenAI.APIError && error.status === 503);
    assert.match(error.message, /"broken" could not be loaded/);
    return true;
  });
  await ask(host, A);
});

test("pagoda serve --model A --model B, pagoda ps, pagoda stop", async () => {
  await using served = await startProcess(["--model", folders[0]!, "--model", folders[1]!, "--log-level", "silent"]);
  const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
  await ask({ client }, B);
  const pagoda = (...args: string[]) => {
    const run = spawnSync(process.execPath, ["bin/pagoda.js", ...args, "--url", served.url], { encoding: "utf8" });
    return { status: run.status, out: run.stdout + run.stderr };
  };
  assert.match(pagoda("ps").out, new RegExp(`^model[^]*${A}[^]*${B}`));
  assert.deepEqual(pagoda("stop", B), { status: 0, out: `${B} is unloaded; its next request loads it again\n` });
  assert.doesNotMatch(pagoda("ps").out, new RegExp(B));
  assert.equal(pagoda("stop", B).status, 1);
  assert.deepEqual(pagoda("stop", A), { status: 0, out: `${A} is unloaded; its next request loads it again\n` });
  assert.doesNotMatch(pagoda("ps").out, new RegExp(A));
  assert.equal(((await (await fetch(`${served.url}/health`)).json()) as { status: string }).status, "asleep");
  await ask({ client }, A);
  assert.match(pagoda("ps").out, new RegExp(A));
  await ask({ client }, B);
});

test("scrapes are merged metric by metric", () => {
  const a = '# HELP x an x\n# TYPE x gauge\nx{m="a"} 1\n\n# HELP y a y\n# TYPE y counter\ny 2\n';
  const b = '# HELP x an x\n# TYPE x gauge\nx{m="b"} 3\n';
  assert.equal(
    mergeScrapes([a, b]),
    '# HELP x an x\n# TYPE x gauge\nx{m="a"} 1\nx{m="b"} 3\n\n# HELP y a y\n# TYPE y counter\ny 2\n',
  );
});

test("models leave memory when nothing is asked of them, or as keep_alive says, and come back with the next request", async () => {
  await using host = await startServer({ model: folders[0]!, sleepIdleSeconds: 0.05 }, { guests: guests([]) });
  const asleep = (name: string) => until(async () => !(await loadedOf(host)).includes(name), `${name} sleeps`);
  await asleep(A);
  const health = async () => ((await (await fetch(`${host.url}/health`)).json()) as { status: string }).status;
  assert.equal(await health(), "asleep");
  assert.equal((await fetch(`${host.url}/metrics`)).status, 200);
  assert.equal((await fetch(`${host.url}/ready`)).status, 200);
  assert.equal(await health(), "asleep", "looking wakes nobody");
  const [first, again] = [await ask(host, A), await ask(host, A)];
  assert.equal(again, first);
  await asleep(A);
  await ask(host, B);
  const say = (keep_alive: unknown, model = B) => host.post("/api/generate", { model, keep_alive });
  const endOf = async (name: string) => {
    const { models } = (await (await fetch(`${host.url}/api/ps`)).json()) as {
      models: { name: string; expires_at: string }[];
    };
    return Date.parse(models.find((model) => model.name === name)?.expires_at ?? "") - Date.now();
  };
  assert.equal((await say("5m", A)).status, 200);
  assert.equal(await health(), "ok", "asked for without a prompt it is loaded");
  assert.ok(Math.abs((await endOf(A)) - 300_000) < 60_000);
  await say(-1, A);
  assert.ok((await endOf(A)) > 1e12);
  await say("1h0.5m", A);
  assert.ok(Math.abs((await endOf(A)) - 3_630_000) < 60_000);
  assert.equal((await say("soon", A)).status, 400);
  const { response } = (await (
    await host.post("/api/generate", {
      model: B,
      prompt: "a",
      raw: true,
      stream: false,
      keep_alive: 0,
      options: { num_predict: 2 },
    })
  ).json()) as { response: string };
  assert.equal(typeof response, "string");
  await asleep(B);
  assert.notEqual(await ask(host, B), "");
});
