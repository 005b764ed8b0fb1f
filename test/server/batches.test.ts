// Batches with OpenAI's own client, whose they are, how they end, and that a restart goes on with them.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import OpenAI, { toFile } from "openai";
import { runBatchCommand } from "../../src/cli/run-batch.js";
import { serverConfig } from "../../src/config/server-config.js";
import { FileStore } from "../../src/server/batch/file-store.js";
import { WebService } from "../../src/server/web-service.js";
import { silentLogger } from "../support/silent-logger.js";
import { startServer, type TestServer, until } from "../support/test-server.js";

const MODEL = "story";
const URL = "/v1/chat/completions";

let folder: string;
let host: TestServer;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "pagoda-batches-"));
  const options = {
    servedModelName: [MODEL],
    apiKey: ["one", "two"],
    batchDir: join(folder, "served"),
    batchFileMb: 4,
    maxBodyMb: 1,
    maxImageBodyMb: 1,
    maxConcurrent: 16,
  };
  host = await startServer({}, options);
});
after(async () => {
  await host?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const line = (id: number | string, body: object = {}, url = URL) => ({
  custom_id: `line-${id}`,
  method: "POST",
  url,
  body: {
    model: MODEL,
    ...(url === URL
      ? { messages: [{ role: "user", content: `Tell me of ${id}.` }], max_tokens: 4, temperature: 0 }
      : {}),
    ...body,
  },
});
const jsonl = (lines: readonly (object | string)[]) =>
  lines.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join("\n");

async function sent(lines: readonly (object | string)[], client = host.client) {
  const file = await client.files.create({
    file: await toFile(Buffer.from(jsonl(lines)), "in.jsonl"),
    purpose: "batch",
  });
  return client.batches.create({
    input_file_id: file.id,
    endpoint: URL,
    completion_window: "24h",
    metadata: { of: "test" },
  });
}

async function ended(id: string, client = host.client) {
  let batch = await client.batches.retrieve(id);
  await until(async () => {
    batch = await client.batches.retrieve(id);
    return ["completed", "failed", "cancelled"].includes(batch.status);
  }, "the batch ends");
  return batch;
}

async function linesOf(
  id: string | null | undefined,
  client = host.client,
): Promise<{ custom_id: string; response: { status_code: number; request_id: string; body: never } }[]> {
  const text = await (await client.files.content(id!)).text();
  return text
    .trim()
    .split("\n")
    .map((one) => JSON.parse(one));
}

test("a batch answers each line as the route does, what it refuses apart; its files are the client's", async () => {
  const wrong = line("wrong", { temperature: -1 });
  const batch = await ended((await sent([line(1), "", line(2), wrong])).id);
  assert.deepEqual(
    [batch.status, batch.request_counts, batch.metadata],
    ["completed", { total: 3, completed: 2, failed: 1 }, { of: "test" }],
  );
  const answers = await linesOf(batch.output_file_id);
  assert.deepEqual(answers.map(({ custom_id }) => custom_id).sort(), ["line-1", "line-2"]);
  for (const { custom_id, response } of answers) {
    const direct = (await (await host.post(URL, line(custom_id.slice(5)).body)).json()) as OpenAI.ChatCompletion;
    assert.deepEqual((response.body as OpenAI.ChatCompletion).choices, direct.choices);
    assert.equal(response.status_code, 200);
    assert.ok(response.request_id.length > 10);
  }
  const [refused] = await linesOf(batch.error_file_id);
  assert.deepEqual([refused!.custom_id, refused!.response.status_code], ["line-wrong", 400]);
  assert.equal((refused!.response.body as { error: { param: string } }).error.param, "temperature");

  const other = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: "two", maxRetries: 0 });
  assert.deepEqual([(await other.batches.list()).data.length, (await other.files.list()).data.length], [0, 0]);
  for (const asked of [
    other.batches.retrieve(batch.id),
    other.batches.cancel(batch.id),
    other.files.content(batch.output_file_id!),
  ])
    await assert.rejects(asked, { status: 404, code: "file_not_found" });
  const listed = (await host.client.files.list()).data.map(({ id }) => id);
  assert.deepEqual(listed.toSorted(), [batch.input_file_id, batch.output_file_id!, batch.error_file_id!].toSorted());
  assert.equal((await host.client.files.delete(batch.input_file_id)).deleted, true);
  await assert.rejects(host.client.files.retrieve(batch.input_file_id), { status: 404 });
  assert.equal((await host.client.batches.list()).data[0]!.id, batch.id);
});

test("a file is looked at whole before any line of it is asked", async () => {
  const lines = [
    line(1),
    "no json",
    line(1),
    { ...line(2), url: "/v1/files" },
    line(3, {}, "/v1/embeddings"),
    line(4, { stream: true }),
  ];
  const batch = await ended((await sent([...lines, { ...line(5), custom_id: undefined }])).id);
  assert.deepEqual([batch.status, batch.output_file_id], ["failed", null]);
  assert.deepEqual(
    batch.errors!.data!.map(({ code, line: number }) => [number, code]),
    [
      [2, "invalid_json_line"],
      [3, "duplicate_custom_id"],
      [4, "invalid_url"],
      [5, "mismatched_url"],
      [6, "stream_unsupported"],
      [7, "missing_required_parameter"],
    ],
  );
  assert.equal((await ended((await sent([])).id)).errors!.data![0]!.code, "empty_file");
});

test("what is no batch is refused: its file, its form, its size, and all of it without a folder", async () => {
  const { files, batches } = host.client;
  const file = await toFile(Buffer.from("x"), "x");
  await assert.rejects(files.create({ file, purpose: "assistants" }), { status: 400, param: "purpose" });
  await assert.rejects(files.create({ file: await toFile(Buffer.alloc(2 ** 22 + 1), "x"), purpose: "batch" }), {
    status: 413,
  });
  const asked = { endpoint: URL, completion_window: "24h" } as const;
  await assert.rejects(batches.create({ ...asked, input_file_id: "file-0" }), { status: 404, param: "input_file_id" });
  const headers = { authorization: "Bearer one" };
  for (const [type, body, status] of [
    ["application/json", "{}", 415],
    ["multipart/form-data; boundary=b", "--b\r\n", 400],
    [
      "multipart/form-data; boundary=b",
      '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--',
      400,
    ],
  ] as const) {
    const reply = await fetch(`${host.url}/v1/files`, {
      method: "POST",
      headers: { ...headers, "content-type": type },
      body,
    });
    assert.equal(reply.status, status);
  }
  assert.equal(
    (await files.list()).data.filter(({ filename }) => filename === "x").length,
    0,
    "nothing is left of them",
  );
  const bare = new WebService(host.engine, serverConfig({}), { logger: silentLogger });
  const reply = await bare.app.fetch(
    new Request("http://localhost/v1/batches", { headers: { host: "localhost" } }),
    {},
  );
  assert.deepEqual(
    [reply.status, ((await reply.json()) as { error: { code: string } }).error.code],
    [501, "batches_off"],
  );
});

test("what a file may cost is bounded: its lines, their length and shape, the form around it, its label", async () => {
  const failed = async (lines: readonly (object | string)[]) => {
    const { status, errors } = await ended((await sent(lines)).id);
    return [status, ...(errors?.data ?? []).map(({ code }) => code)];
  };
  assert.deepEqual(await failed([line(1), line(2, { stop: "x".repeat(1_100_000) })]), ["failed", "line_too_long"]);
  assert.deepEqual(
    await failed([line(1), `{"custom_id":"a","url":"${URL}","body":{"a":${"[".repeat(300)}${"]".repeat(300)}}}`]),
    ["failed", "invalid_json_line"],
  );
  const many = Array.from({ length: 50_001 }, (_, i) => `{"custom_id":"${i}","url":"${URL}","body":{}}`);
  assert.deepEqual(await failed(many), ["failed", "too_many_lines"]);
  const field = (i: number) => `--b\r\nContent-Disposition: form-data; name="f${i}"\r\n\r\nx\r\n`;
  const form = `${Array.from({ length: 1000 }, (_, i) => field(i)).join("")}--b--`;
  const headers = { authorization: "Bearer one", "content-type": "multipart/form-data; boundary=b" };
  assert.equal((await fetch(`${host.url}/v1/files`, { method: "POST", headers, body: form })).status, 400);
  const metadata = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"]));
  const asked = { input_file_id: "file-0", endpoint: URL, completion_window: "24h", metadata } as const;
  await assert.rejects(host.client.batches.create(asked), { status: 400, param: "metadata" });
});

test("files on their way count too, and so do empty ones", async () => {
  const store = new FileStore(join(folder, "small"), 100_000);
  const tenant = { name: "a", salt: "a", isAdmin: false };
  const add = (bytes: number) =>
    store.add(tenant, async (write) => {
      for (let i = 0; i < bytes; i += 1000) await write(Buffer.alloc(1000));
      return { filename: "x", purpose: "batch" };
    });
  const both = await Promise.allSettled([add(50_000), add(50_000), add(50_000)]);
  assert.ok(both.filter(({ status }) => status === "fulfilled").length <= 1);
  for (const { id } of store.list(tenant)) store.remove(tenant, id);
  const empty = await Promise.allSettled(Array.from({ length: 10 }, () => add(0)));
  const kept = empty.filter(({ status }) => status === "fulfilled").length;
  assert.ok(kept >= 1 && kept < 10, String(kept));
  await assert.rejects(add(1000), { code: "files_full" });
  for (const { id } of store.list(tenant)) store.remove(tenant, id);
  await add(50_000);
});

test("a batch that is cancelled keeps the answers that are there; everybody else goes first meanwhile", async () => {
  const many = Array.from({ length: 60 }, (_, i) => line(i, { max_tokens: 24, ignore_eos: true }));
  const { id } = await sent(many);
  await until(async () => (await host.client.batches.retrieve(id)).request_counts!.completed > 0, "an answer is there");
  await until(async () => (await host.engine.stats()).running === 8, "half of what may run");
  const { choices } = (await (await host.post(URL, line("now").body)).json()) as OpenAI.ChatCompletion;
  assert.ok(choices[0]!.message.content);
  assert.equal((await host.client.batches.retrieve(id)).status, "in_progress", "it was not waited for");
  await host.client.batches.cancel(id);
  const batch = await ended(id);
  assert.equal(batch.status, "cancelled");
  const answers = await linesOf(batch.output_file_id);
  assert.equal(answers.length, batch.request_counts!.completed);
  assert.ok(answers.length < 60);
  await until(async () => (await host.engine.stats()).running === 0, "nothing runs");
});

test("a restart goes on with a batch: lines that have an answer are not asked again, and one that was not written to its end is", async () => {
  const config = serverConfig({ servedModelName: [MODEL], batchDir: join(folder, "restarted"), maxConcurrent: 4 });
  const open = () => new WebService(host.engine, config, { logger: silentLogger });
  const first = open();
  const tenant = first.context.keys.tenantOf(null)!;
  const { files, batches } = first.context.batches!;
  const lines = Array.from({ length: 12 }, (_, i) => line(i, { max_tokens: 16, ignore_eos: true }));
  const file = await files.add(tenant, async (write) => {
    await write(Buffer.from(jsonl(lines)));
    return { filename: "in.jsonl", purpose: "batch" };
  });
  const asked = { endpoint: URL, input_file_id: file.id, completion_window: "24h", metadata: null };
  const { id } = batches.create(tenant, asked);
  await until(async () => batches.get(tenant, id)!.request_counts.completed >= 3, "three are there");
  await first.drain(0);
  const part = join(folder, "restarted", "batches", `${id}.output.jsonl`);
  const before = readFileSync(part, "utf8").trim().split("\n");
  assert.ok(before.length >= 3 && before.length < 12);
  assert.equal(batches.get(tenant, id)!.status, "in_progress");
  writeFileSync(part, `${before.join("\n")}\n{"custom_id":"line-11","respo`);

  const second = open();
  const again = second.context.batches!;
  await until(async () => again.batches.get(tenant, id)!.status === "completed", "it ends");
  const { request_counts, output_file_id } = again.batches.get(tenant, id)!;
  assert.deepEqual(request_counts, { total: 12, completed: 12, failed: 0 });
  const results = readFileSync(again.files.pathOf(output_file_id!), "utf8").trim().split("\n");
  assert.deepEqual(results.slice(0, before.length), before);
  const ids = results.map((text) => (JSON.parse(text) as { custom_id: string }).custom_id);
  assert.deepEqual(new Set(ids).size, 12);
  assert.equal(ids.length, 12);
  assert.ok(!existsSync(part));
  await second.drain(0);
  assert.equal(open().context.batches!.batches.get(tenant, id)!.status, "completed");
});

test("a restart leaves a batch whose key is gone; it goes on once the key is back, with what the key may do then", async () => {
  const left: unknown[] = [];
  const logger = { ...silentLogger, warn: (fields: { batch?: string }) => void left.push(fields.batch) };
  const opened = (keys: { apiKey?: string[]; adminKey?: string[] }) => {
    const room = { servedModelName: [MODEL], batchDir: join(folder, "revoked"), maxConcurrent: 2 };
    return new WebService(host.engine, serverConfig({ ...room, ...keys }), { logger });
  };
  const first = opened({ adminKey: ["one"] });
  const tenant = first.context.keys.tenantOf("one")!;
  const { files, batches } = first.context.batches!;
  const lines = Array.from({ length: 8 }, (_, i) => line(i, { max_tokens: 16, ignore_eos: true }));
  const file = await files.add(tenant, async (write) => {
    await write(Buffer.from(jsonl(lines)));
    return { filename: "in.jsonl", purpose: "batch" };
  });
  const asked = { endpoint: URL, input_file_id: file.id, completion_window: "24h", metadata: null };
  const { id } = batches.create(tenant, asked);
  await until(async () => batches.get(tenant, id)!.request_counts.completed >= 1, "one is there");
  await first.drain(0);
  const { completed } = batches.get(tenant, id)!.request_counts;
  assert.ok(completed < 8);

  for (const keys of [{ apiKey: ["two"] }, {}]) {
    const without = opened(keys);
    assert.deepEqual(left.splice(0), [id]);
    await without.drain(0);
    assert.equal(without.context.batches!.batches.get(tenant, id)!.request_counts.completed, completed);
  }
  const again = opened({ apiKey: ["one", "two"] });
  const own = again.context.keys.tenantOf("one")!;
  assert.equal(own.isAdmin, false);
  await until(async () => again.context.batches!.batches.get(own, id)!.status === "completed", "it ends");
  await again.drain(0);
});

test("run-batch answers a file without a server, and goes on where it was stopped", async (t) => {
  const said: string[] = [];
  t.mock.method(process.stderr, "write", (text: string) => said.push(text) > 0);
  const [file, output] = [join(folder, "q.jsonl"), join(folder, "q.out.jsonl")];
  writeFileSync(file, jsonl([line("a"), line("b"), line("e", { input: "hello" }, "/v1/embeddings")]));
  const run = (...more: string[]) => runBatchCommand([file, "--threads", "1", "--served-model-name", MODEL, ...more]);
  assert.equal(await run(), 0);
  const whole = readFileSync(output, "utf8").trim().split("\n");
  assert.equal(whole.length, 3);
  writeFileSync(output, `${whole[0]}\n${whole[1]!.slice(0, 30)}`);
  assert.equal(await run(), 0);
  const again = readFileSync(output, "utf8").trim().split("\n");
  assert.equal(again[0], whole[0]);
  const idsOf = (texts: readonly string[]) => texts.map((text) => JSON.parse(text).custom_id as string).toSorted();
  assert.deepEqual(idsOf(again), idsOf(whole));
  assert.equal(await run(), 0, "nothing is left to ask");
  writeFileSync(file, jsonl([line("x", { model: "none" })]));
  assert.equal(await run("--output", join(folder, "bad.jsonl")), 1);
  writeFileSync(file, "{}");
  await assert.rejects(run(), { code: "wrong_usage" });
  await assert.rejects(run("--output", file), { code: "wrong_usage" });
});
