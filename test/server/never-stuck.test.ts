// Nothing outside stops the service: a full disk or a stuck reader behind its log, signals, streams at the end of the drain,
// addresses that are taken, clients that hang up in the middle of a body.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { pino } from "pino";
import { type ServedProcess, startProcess } from "../support/served-process.js";
import { startServer, until } from "../support/test-server.js";
import { ENDLESS, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const MODEL = writeTinyCheckpoint({ context: ENDLESS.context });
const SERVED = ["--model", MODEL, "--num-pages", String(ENDLESS.numPages)];
const max_tokens = ENDLESS.tokens;
const headers = { "content-type": "application/json" };

function ask(url: string, extra: Record<string, unknown> = {}): Promise<Response> {
  const body = { messages: [{ role: "user", content: "hello" }], max_tokens: 3, ignore_eos: true, ...extra };
  return fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
}

async function lostLines(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^pagoda_log_lines_lost_total\{.*\} (\d+)$/m.exec(text)![1]);
}

async function endsOnSignal({ child, exit }: ServedProcess): Promise<void> {
  child.kill("SIGTERM");
  assert.equal(await exit, 0);
}

const noFullDevice = process.platform === "linux" ? false : "needs /dev/full";
test("the log's disk is full: requests are answered, lost lines counted, SIGTERM obeyed", {
  skip: noFullDevice,
}, async () => {
  const full = openSync("/dev/full", "w");
  await using served = await startProcess(SERVED, full);
  closeSync(full);
  for (let i = 0; i < 5; i++) assert.equal((await ask(served.url)).status, 200);
  await until(async () => (await lostLines(served.url)) >= 5, "the lines are counted");
  await endsOnSignal(served);
});

test("the log's reader takes nothing: requests are answered, lines beyond the queue lost", async () => {
  await using served = await startProcess([...SERVED, "--log-prompts"], "pipe");
  // Logged whole, and not rendered by the template: long lines at little cost.
  const messages = [{ role: "user", content: "hi", name: "x".repeat(200_000) }];
  for (let i = 0; i < 10; i++) assert.equal((await ask(served.url, { messages, max_tokens: 1 })).status, 200);
  await until(async () => (await lostLines(served.url)) > 0, "lines were lost");
  await endsOnSignal(served);
});

test("the log's reader is gone: requests are answered", async () => {
  await using served = await startProcess(SERVED, "pipe");
  served.child.stderr!.destroy();
  for (let i = 0; i < 5; i++) assert.equal((await ask(served.url)).status, 200);
  await endsOnSignal(served);
});

test("a stream at the end of the drain gets an error event; a whole answer gets 503", async () => {
  await using served = await startProcess([...SERVED, "--drain-seconds", "0.3"]);
  const stream = await ask(served.url, { stream: true, max_tokens });
  const streamed = stream.text(); // read from now on: last words need room on their way
  const whole = ask(served.url, { max_tokens });
  for (const answer of [streamed, whole]) answer.catch(() => undefined); // told below
  await until(
    async () =>
      ((await (await fetch(`${served.url}/api/stats`)).json()) as { engine: { running: number } }).engine.running === 2,
    "both run",
  );
  served.child.kill("SIGTERM");
  const text = await streamed;
  const last = JSON.parse(text.trimEnd().split("\n\n").at(-1)!.slice(6)) as { error: Record<string, string> };
  assert.equal(last.error.code, "cut_by_shutdown");
  assert.match(last.error.message!, /0\.3 s/);
  const reply = await whole;
  assert.equal(reply.status, 503);
  assert.equal(((await reply.json()) as typeof last).error.code, "cut_by_shutdown");
  assert.equal(await served.exit, 1);
});

test("a second signal ends at once", async () => {
  await using served = await startProcess([...SERVED, "--drain-seconds", "3600"]);
  const stream = await ask(served.url, { stream: true, max_tokens });
  served.child.kill("SIGTERM");
  await until(async () => (await fetch(`${served.url}/ready`)).status === 503, "it drains");
  served.child.kill("SIGINT");
  assert.equal(await served.exit, 130);
  await assert.rejects(stream.text());
});

test("an address that cannot be had is told in one line, before the model is looked for", async (t) => {
  const taken = createServer().listen(0, "127.0.0.1");
  t.after(() => taken.close());
  await once(taken, "listening");
  const { port } = taken.address() as { port: number };
  const serve = (...args: string[]) => {
    const bin = join(process.cwd(), "bin", "pagoda.js");
    const run = spawnSync(process.execPath, [bin, "serve", "--model", "./no-such-model", ...args], {
      encoding: "utf8",
    });
    return { status: run.status, stderr: run.stderr };
  };
  const inUse = serve("--port", String(port));
  assert.deepEqual(inUse, {
    status: 2,
    stderr: `pagoda: Cannot listen on 127.0.0.1:${port}: something listens there already. Choose another address with --host and --port.\n`,
  });
  const elsewhere = serve("--port", "0", "--host", "203.0.113.1"); // of a range that no machine has
  assert.equal(elsewhere.status, 2);
  assert.match(
    elsewhere.stderr,
    /^pagoda: Cannot listen on 203\.0\.113\.1:0: this machine does not have that address\..*\n$/,
  );
});

test("clients that hang up in their body or in their answer are no errors of the server", async () => {
  const lines: { level: number; status?: number; failure?: { status: number } }[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  await using host = await startServer({ model: MODEL, numPages: ENDLESS.numPages }, { logger });
  const inBody = request(`${host.url}/v1/chat/completions`, {
    method: "POST",
    headers: { ...headers, "content-length": 1000, expect: "100-continue" },
  });
  inBody.on("error", () => undefined);
  await once(inBody, "continue"); // the server reads the body now
  inBody.write('{"messages": [');
  inBody.destroy();
  const inAnswer = new AbortController();
  const answer = ask(host.url, { max_tokens });
  answer.catch(() => undefined); // it is under way to the end
  const cut = fetch(`${host.url}/v1/chat/completions`, {
    method: "POST",
    headers,
    body: JSON.stringify({ messages: [{ role: "user", content: "hi" }], max_tokens, ignore_eos: true }),
    signal: inAnswer.signal,
  });
  await until(() => host.server.context.gate.active === 2, "two run");
  inAnswer.abort();
  await assert.rejects(cut);
  await until(() => lines.length >= 2, "both are logged");
  for (const line of lines) assert.ok(line.level < 50 && (line.status ?? 0) < 500, JSON.stringify(line));
});

test("a grammar without end is refused by its field, and nobody else notices", async () => {
  const hostile = { guided_regex: "(.|..|...){3000}x".repeat(12) };
  const constrained = { guided_regex: "[ab]{3}" };
  {
    // While it is compiled: it may take longer than everything else here.
    await using patient = await startServer({ model: MODEL, numPages: ENDLESS.numPages, grammarSeconds: 600 });
    assert.equal((await ask(patient.url, constrained)).status, 200);
    const compiled = ask(patient.url, hostile).catch(() => undefined);
    await until(() => patient.server.context.gate.active === 1, "it is there");
    const others = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        ask(patient.url, i % 2 === 0 ? {} : i % 3 === 0 ? constrained : { guided_regex: `x{${i}}` }),
      ),
    );
    for (const reply of others) assert.equal(reply.status, 200);
    assert.equal(patient.server.context.gate.active, 1, "the others were done first");
    await patient.server.close(0);
    await compiled;
  }
  await using host = await startServer({ model: MODEL, numPages: ENDLESS.numPages, grammarSeconds: 1 });
  const reply = await ask(host.url, hostile);
  assert.equal(reply.status, 400);
  const { error } = (await reply.json()) as { error: Record<string, string> };
  assert.deepEqual([error.code, error.param], ["invalid_grammar", "guided_regex"]);
  assert.match(error.message!, /takes longer than 1 s to compile/);
});

test("three hundred optional properties are compiled within the limits", async () => {
  await using host = await startServer();
  const properties = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`property_${i}`, { type: "string" }]));
  const reply = await ask(host.url, { guided_json: { type: "object", properties } });
  assert.equal(reply.status, 200, await reply.text());
});
