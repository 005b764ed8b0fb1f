// Models fetched, served and deleted while the server runs, by Ollama's own client, from a hub on this machine.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { loadClient } from "../support/clients.js";
import { startHub } from "../support/hub-server.js";
import { startServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const { client: sdk, skip } = await loadClient("ollama");
const NAME = "org/model";
const GUEST = "org/guest";
const messages = [{ role: "user", content: "hello" }];
const options = { num_predict: 4, temperature: 0 };

async function aHub(t: { after(work: () => unknown): void }) {
  const tiny = writeTinyCheckpoint();
  const hub = await startHub(
    Object.fromEntries(readdirSync(tiny).map((name) => [name, readFileSync(join(tiny, name))])),
  );
  const cache = mkdtempSync(join(tmpdir(), "pagoda-hub-models-"));
  Object.assign(process.env, { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache });
  t.after(async () => {
    await hub.close();
    for (const folder of [tiny, cache]) rmSync(folder, { recursive: true });
  });
  return hub;
}

test("pulled with progress, named, asked, kept over a restart, deleted", { skip }, async (t) => {
  const hub = await aHub(t);
  {
    // A guest of the operator's that is in no cache keeps its name, whatever is deleted.
    const guests = [{ name: GUEST, load: () => Promise.reject(new Error("never asked")) }];
    await using host = await startServer({}, { servedModelName: ["story"], hubModels: true, guests });
    const client = new sdk!.Ollama({ host: host.url });
    const names = async (): Promise<string[]> => (await client.list()).models.map(({ name }: { name: string }) => name);
    await assert.rejects(client.chat({ model: NAME, messages, options }), { status_code: 404 });
    const lines: { status: string; total?: number; completed?: number }[] = [];
    for await (const line of await client.pull({ model: `hf.co/${NAME}`, stream: true })) lines.push(line);
    assert.deepEqual([lines[0]!.status, lines.at(-1)!.status], ["pulling manifest", "success"]);
    assert.deepEqual(await names(), ["story", GUEST, NAME]);
    const [first, again] = [await client.chat({ model: NAME, messages, options }), await client.pull({ model: NAME })];
    assert.deepEqual([first.model, first.eval_count, again.status], [NAME, 4, "success"]);
    await assert.rejects(client.pull({ model: "org/none" }), { status_code: 404 });
    await assert.rejects(client.delete({ model: "story" }), { status_code: 404 });
    await assert.rejects(client.delete({ model: GUEST }), { status_code: 404 });
    assert.deepEqual(await names(), ["story", GUEST, NAME]);
    hub.faults.status = 500;
    await assert.rejects(async () => {
      for await (const line of await client.pull({ model: "org/other", stream: true })) assert.ok(line.status);
    });
  }
  await using host = await startServer({}, { servedModelName: ["story"], hubModels: true });
  const client = new sdk!.Ollama({ host: host.url });
  assert.equal((await client.chat({ model: NAME, messages, options })).eval_count, 4);
  await client.delete({ model: NAME });
  assert.equal((await client.list()).models.length, 1);
  await assert.rejects(client.delete({ model: NAME }), { status_code: 404 });
  await assert.rejects(client.chat({ model: NAME, messages, options }), { status_code: 404 });
});

test("nothing is fetched or deleted unless the operator allowed it, and with keys by admins only", async (t) => {
  const hub = await aHub(t);
  const failureOf = async (response: Response): Promise<unknown[]> => [
    response.status,
    ((await response.json()) as { error: string }).error.length > 0,
  ];
  {
    await using host = await startServer({});
    assert.deepEqual(await failureOf(await host.post("/api/pull", { model: NAME })), [403, true]);
  }
  await using host = await startServer({}, { hubModels: true, apiKey: ["user"], adminKey: ["admin"] });
  for (const path of ["/api/pull", "/api/delete"]) {
    const method = path === "/api/pull" ? "POST" : "DELETE";
    const headers = { authorization: "Bearer user", "content-type": "application/json" };
    const refused = await fetch(host.url + path, { method, headers, body: JSON.stringify({ model: NAME }) });
    assert.deepEqual(await failureOf(refused), [403, true]);
  }
  assert.deepEqual(hub.requests, []);
  for (const model of ["../../etc", "llama3.2", "/etc/passwd", ""])
    assert.equal((await host.post("/api/pull", { model }, { authorization: "Bearer admin" })).status, 404, model);
  const fetched = await host.post("/api/pull", { model: NAME, stream: false }, { authorization: "Bearer admin" });
  assert.deepEqual(await fetched.json(), { status: "success" });
});
