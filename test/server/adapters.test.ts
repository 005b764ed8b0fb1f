// Adapters over HTTP: a model's name picks one on every API, they are listed, loaded from one folder by who may, and measured.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { startServer, type TestServer } from "../support/test-server.js";
import { writeTinyAdapter } from "../support/tiny-adapter.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-served-lora-"));
after(() => rmSync(folder, { recursive: true }));
const adapterDir = join(folder, "allowed");
mkdirSync(adapterDir);
const sql = writeTinyAdapter({ seed: 1 }, folder);
const poet = writeTinyAdapter({ seed: 2, rank: 8 }, adapterDir);
const elsewhere = writeTinyAdapter({ seed: 3 }, folder);
symlinkSync(elsewhere, join(adapterDir, "link"));
writeTinyAdapter({ seed: 4, layers: 3 }, adapterDir);
renameSync(join(adapterDir, "adapter-4"), join(adapterDir, "other-base"));
const model = writeTinyCheckpoint();

/** An answer of any of the APIs. */
interface Answered {
  readonly model: string;
  readonly choices?: { readonly message?: { readonly content: string }; readonly text?: string }[];
  readonly content?: { readonly text: string }[];
  readonly message?: { readonly content: string };
  readonly output?: { readonly content: { readonly text: string }[] }[];
}

const codeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { error: { code: string } }).error.code;

const ASKED = { temperature: 0, max_tokens: 6 };
const messages = [{ role: "user" as const, content: "Tell me of the sea" }];

async function textOf(server: TestServer, path: string, body: Record<string, unknown>): Promise<[string, string]> {
  const response = await server.post(path, body);
  const value = (await response.json()) as Answered;
  assert.equal(response.status, 200, JSON.stringify(value));
  const { choices, content, message, output, model: named } = value;
  const text =
    choices?.[0]?.message?.content ??
    choices?.[0]?.text ??
    content?.[0]?.text ??
    message?.content ??
    output?.at(-1)?.content[0]?.text;
  return [text ?? assert.fail(JSON.stringify(value)), named];
}

test("a model's name picks the adapter on every API, and answers carry it", async () => {
  await using server = await startServer({ model, adapter: [`sql=${sql}`] }, { servedModelName: ["base"] });
  const asks: [string, (model: string) => Record<string, unknown>][] = [
    ["/v1/chat/completions", (model) => ({ model, messages, ...ASKED })],
    ["/v1/completions", (model) => ({ model, prompt: "Tell me of the sea", ...ASKED })],
    ["/v1/messages", (model) => ({ model, messages, ...ASKED })],
    ["/v1/responses", (model) => ({ model, input: "Tell me of the sea", temperature: 0, max_output_tokens: 16 })],
    ["/api/chat", (model) => ({ model, messages, stream: false, options: { temperature: 0, num_predict: 6 } })],
  ];
  for (const [path, body] of asks) {
    const [base, baseName] = await textOf(server, path, body("base"));
    const [adapted, name] = await textOf(server, path, body("sql"));
    assert.deepEqual([baseName, name], ["base", "sql"], path);
    assert.notEqual(adapted, base, path);
    assert.deepEqual(await textOf(server, path, body("sql")), [adapted, name], path);
  }
  const embed = async (model: string) =>
    (await server.client.embeddings.create({ model, input: "sea" })).data[0]!.embedding;
  assert.notDeepEqual(await embed("sql"), await embed("base"));

  const { data } = await server.client.models.list();
  assert.deepEqual(
    data.map((entry) => [entry.id, (entry as unknown as { parent?: string }).parent]),
    [
      ["base", undefined],
      ["sql", "base"],
    ],
  );
  assert.equal((await server.client.models.retrieve("sql")).id, "sql");
  const unknown = await server.post("/v1/chat/completions", { model: "other", messages });
  assert.equal(unknown.status, 404);

  // By number, as llama.cpp has it.
  const ids = (await (await fetch(`${server.url}/lora-adapters`)).json()) as { id: number; name: string }[];
  assert.deepEqual(
    ids.map(({ id, name }) => [id, name]),
    [[0, "sql"]],
  );
  const scaled = (scale: number) =>
    textOf(server, "/v1/completions", { ...asks[1]![1]("base"), lora: [{ id: 0, scale }] });
  assert.equal((await scaled(1))[0], (await textOf(server, "/v1/completions", asks[1]![1]("sql")))[0]);
  assert.equal((await scaled(0))[0], (await textOf(server, "/v1/completions", asks[1]![1]("base")))[0]);
  const several = [
    { id: 0, scale: 1 },
    { id: 1, scale: 1 },
  ];
  assert.equal((await server.post("/v1/completions", { prompt: "a", lora: several })).status, 400);
  assert.equal((await server.post("/v1/completions", { prompt: "a", lora: [{ id: 7, scale: 1 }] })).status, 400);

  const scrape = await (await fetch(`${server.url}/metrics`)).text();
  assert.match(scrape, /pagoda_adapter_requests_finished_total\{adapter="sql",model_name="base"\} \d/);
  assert.match(scrape, /pagoda_lora_requests_info\{running_lora_adapters="",waiting_lora_adapters="",max_lora="\d+"/);
});

test("adapters are loaded from one folder, by who holds an admin's key", async () => {
  const keys = { apiKey: ["user"], adminKey: ["admin"] };
  await using server = await startServer({ model }, { ...keys, adapterDir, servedModelName: ["base"] });
  const admin = { authorization: "Bearer admin" };
  // Where adapters lie on this machine is for administrators.
  await server.engine.loadAdapter("placed", poet);
  for (const [key, isTold] of [
    ["user", false],
    ["admin", true],
  ] as const) {
    const headers = { authorization: `Bearer ${key}` };
    for (const path of ["/lora-adapters", "/v1/models", "/v1/models/placed"]) {
      const told = await (await fetch(server.url + path, { headers })).text();
      assert.equal(told.includes(adapterDir), isTold, `${key} ${path}`);
    }
  }
  await server.engine.unloadAdapter("placed");
  const load = async (name: string, path: string, headers = admin) => {
    const response = await server.post("/v1/load_lora_adapter", { lora_name: name, lora_path: path }, headers);
    return response.status === 200 ? 200 : [response.status, await codeOf(response)];
  };
  const chat = (name: string) => server.post("/v1/chat/completions", { model: name, messages, ...ASKED });
  assert.equal((await chat("poet")).status, 404);
  assert.deepEqual(await load("poet", poet, { authorization: "Bearer user" }), [403, "admin_key_needed"]);
  for (const path of [sql, "../adapter-1", "link", "absent", ".", "/etc/passwd"])
    assert.deepEqual(await load("poet", path), [403, "adapter_not_allowed"], path);
  assert.deepEqual(await load("base", poet), [400, "invalid_value"]);
  assert.deepEqual(await load("poet", "other-base"), [400, "invalid_value"]);
  assert.equal(await load("poet", "adapter-2"), 200);
  assert.deepEqual(await load("poet", poet), [400, "adapter_taken"]);
  assert.equal((await chat("poet")).status, 200);
  const unload = (headers: Record<string, string>) =>
    server.post("/v1/unload_lora_adapter", { lora_name: "poet" }, headers);
  assert.equal((await unload({})).status, 403);
  assert.equal((await unload(admin)).status, 200);
  assert.equal((await unload(admin)).status, 404);
  assert.equal((await chat("poet")).status, 404);
});

test("without a folder no adapter is loaded by request", async () => {
  await using server = await startServer({ model });
  const response = await server.post("/v1/load_lora_adapter", { lora_name: "poet", lora_path: poet });
  assert.deepEqual([response.status, await codeOf(response)], [403, "adapter_not_allowed"]);
});
