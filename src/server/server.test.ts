// A server on loopback: where it listens, what is said when it cannot, how it ends.

import assert from "node:assert/strict";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ToldServer } from "../../test/support/told-server.js";
import type { PagodaError } from "../core/errors.js";
import { staticFile } from "./dashboard/static-files.js";
import { checkAddress, unavailable } from "./http/address.js";
import { LogSink } from "./http/log-sink.js";
import { createServer } from "./server.js";

const REASONS = {
  EADDRINUSE: "something listens there already",
  EADDRNOTAVAIL: "this machine does not have that address",
  ENOTFOUND: "there is no host of that name",
  EACCES: "it needs privileges that this user does not have",
};

test("an address that cannot be had is told with the reason, before anything else is done", async () => {
  for (const [code, reason] of Object.entries(REASONS)) {
    const error = unavailable("host", 80, Object.assign(new Error("odd"), { code }));
    assert.deepEqual((error as PagodaError).details, { value: "host:80", reason });
  }
  const odd = unavailable("host", 80, new Error("odd")) as PagodaError;
  assert.deepEqual(odd.details, { value: "host:80", reason: "odd" });
  const taken = createNetServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const { port } = taken.address() as { port: number };
  const inUse = { code: "address_unavailable", details: { value: `127.0.0.1:${port}`, reason: REASONS.EADDRINUSE } };
  await assert.rejects(checkAddress("127.0.0.1", port), inUse);
  await using told = await ToldServer.start({ host: "127.0.0.1", port });
  await assert.rejects(told.server.listen(), inUse);
  await new Promise((resolve) => taken.close(resolve));
  await checkAddress("127.0.0.1", port);
  await checkAddress("127.0.0.1", port); // it does not keep it
});

test("it answers where it says; one that closes takes nothing new, lets what is inside finish, or cuts it with a word", async () => {
  await using told = await ToldServer.start({ host: "127.0.0.1", port: 0 });
  const { url, port, host } = await told.server.listen();
  assert.deepEqual([url, host], [`http://127.0.0.1:${port}`, "127.0.0.1"]);
  const ask = () => told.ask("POST", "/v1/completions", { prompt: "a", stream: true });
  assert.equal((await fetch(`${url}/health`)).status, 200);
  told.says = () => ({ text: "x", rest: "y" });
  const finishing = await ask();
  const closing = told.server.close(600);
  const refused = await told.ask("POST", "/v1/completions", { prompt: "a" });
  assert.equal(refused.status, 503);
  assert.equal(((await refused.json()) as { error: { code: string } }).error.code, "draining");
  assert.deepEqual((await (await told.ask("GET", "/ready")).json()) as object, { status: "draining" });
  await new Promise((resolve) => setTimeout(resolve, 5)); // time to end it, if that were done
  let text = "";
  for await (const piece of finishing.body ?? []) {
    text += Buffer.from(piece).toString();
    told.goOn();
  }
  assert.match(text, /"text":"y"[\s\S]*\[DONE\]/);
  assert.equal(await closing, true, "all finished in time");
  await assert.rejects(fetch(`${url}/health`));

  await using cut = await ToldServer.start();
  cut.says = () => ({ text: "x", rest: "y" });
  const reply = await cut.ask("POST", "/v1/completions", { prompt: "a", stream: true });
  const reader = reply.body!.getReader();
  await reader.read();
  assert.equal(await cut.server.close(0), false);
  let rest = "";
  for (let piece = await reader.read(); !piece.done; piece = await reader.read())
    rest += Buffer.from(piece.value).toString();
  assert.match(rest, /"code":"cut_by_shutdown"/);
  assert.match(cut.aborted.join(), / -1$/, "the engine is told");
  assert.deepEqual([cut.server.context.calls.size, cut.server.context.gate.queued], [0, 0]);
});

test("a library's server refuses wrong options at once, and loads what serves when it is called", async () => {
  await using told = await ToldServer.start();
  assert.throws(() => createServer(told.engine, { port: -1 }), { code: "invalid_option" });
  assert.throws(() => createServer(told.engine, { prot: 1 } as object), { code: "unknown_option" });
  const options = { port: 0, logLevel: "silent" } as const;
  assert.equal(await createServer(told.engine, options).close(), true, "one that never listened");
  const server = createServer(told.engine, options);
  const [{ url, port }, service] = await Promise.all([server.listen(), server.service()]);
  assert.equal(await server.service(), service, "there is one");
  assert.equal((await fetch(`${url}/health`)).status, 200);
  await using other = createServer(told.engine, { ...options, port });
  await assert.rejects(other.listen(), { code: "address_unavailable" });
  assert.equal(await server.close(), true);
  await assert.rejects(fetch(`${url}/health`));
});

test("a model is served by the names that are given, or by its own", async () => {
  for (const servedModelName of [["one"], ["one", "two"], []]) {
    await using told = await ToldServer.start({ servedModelName });
    const { modelNames } = told.server.context;
    assert.deepEqual(modelNames, servedModelName.length === 0 ? [told.engine.model.name] : servedModelName);
  }
});

test("a client that leaves gives its place back, and the engine stops", async () => {
  await using told = await ToldServer.start({ maxConcurrent: 1, maxQueued: 1 });
  told.says = () => ({ text: "x", rest: "y" });
  const streamed = await told.ask("POST", "/v1/completions", { prompt: "a", stream: true });
  const reader = streamed.body!.getReader();
  await reader.read();
  assert.equal(told.server.context.calls.size, 1);
  const waiting = told.ask("POST", "/v1/completions", { prompt: "b" });
  while (told.server.context.gate.queued === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(told.asked.length, 1, "one waits until there is room");
  const third = await told.ask("POST", "/v1/completions", { prompt: "c" });
  assert.equal(third.status, 429);
  told.says = () => ({ text: "z" });
  await reader.cancel();
  assert.equal(((await (await waiting).json()) as { choices: { text: string }[] }).choices[0]!.text, "z");
  assert.deepEqual([told.asked.length, told.aborted.length, told.server.context.calls.size], [2, 1, 0]);
});

test("log lines go to a file at once; those that it does not take are counted, and the count is told when one gets through", () => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-log-"));
  const path = join(dir, "log");
  const fd = openSync(path, "w");
  const sink = new LogSink(fd, null);
  sink.write("one\n");
  closeSync(fd);
  for (const line of ["two\n", "three\n"]) sink.write(line);
  assert.equal(sink.lost, 2, "nothing is open under this number");
  const again = openSync(path, "a");
  assert.equal(again, fd);
  for (const line of ["four\n", "five\n"]) sink.write(line);
  const lines = readFileSync(path, "utf8").trim().split("\n");
  const { level, msg, time } = JSON.parse(lines[1]!) as { level: number; msg: string; time: number };
  assert.deepEqual([lines[0], lines.slice(2), level, msg], ["one", ["four", "five"], 40, "2 log lines were lost"]);
  assert.ok(Math.abs(time - Date.now()) < 600_000);
  assert.equal(sink.lost, 2);
  closeSync(again);
  rmSync(dir, { recursive: true });
});

test("log lines to a reader that takes nothing wait in a queue, up to its size; a write that fails is one line lost", () => {
  const written: string[] = [];
  const answers: ((error?: Error | null) => void)[] = [];
  const heard: string[] = [];
  const queue = {
    writableLength: 0,
    on: (event: string, listener: () => void) => {
      heard.push(event);
      listener();
    },
    write: (text: string, done: (error?: Error | null) => void) => {
      written.push(text.includes("log lines were lost") ? (JSON.parse(text) as { msg: string }).msg : text);
      answers.push(done);
    },
  };
  const sink = new LogSink(-1, queue as unknown as ConstructorParameters<typeof LogSink>[1]);
  assert.deepEqual(heard, ["error"]);
  queue.writableLength = 2 ** 20 - 1;
  sink.write("a");
  queue.writableLength = 2 ** 20;
  for (const line of ["b", "c"]) sink.write(line);
  assert.deepEqual([written.splice(0), sink.lost], [["a"], 2]);
  queue.writableLength = 0;
  sink.write("d");
  assert.deepEqual(written.splice(0), ["2 log lines were lost", "d"]);
  answers[1]!(new Error("closed")); // the word of two lines is lost with this one
  answers[2]!(null);
  sink.write("e");
  assert.deepEqual([written.splice(0), sink.lost], [["2 log lines were lost", "e"], 2]);
  answers[4]!(new Error("closed"));
  sink.write("f");
  assert.deepEqual([written, sink.lost], [["1 log lines were lost", "f"], 3]);
});

test("files of the page: those that are there and of a known kind, each with its type; nothing beside their folder", async () => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-files-"));
  const root = `${join(dir, "web")}/`;
  mkdirSync(join(root, "assets"), { recursive: true });
  mkdirSync(join(root, "folder.js"));
  const names = ["index.html", "a.js", "a b.svg", "assets/a.css", "assets/a.woff2", "notes.txt"];
  for (const name of names) writeFileSync(join(root, name), `of ${name}`);
  writeFileSync(join(dir, "beside.js"), "not this");
  const forever = "public, max-age=31536000, immutable";
  for (const [path, type, kept, text] of [
    ["/", "text/html; charset=utf-8", "no-cache", "of index.html"],
    ["/index.html", "text/html; charset=utf-8", "no-cache", "of index.html"],
    ["//a.js", "text/javascript; charset=utf-8", "no-cache", "of a.js"],
    ["/assets/../a.js", "text/javascript; charset=utf-8", "no-cache", "of a.js"],
    ["/a%20b.svg", "image/svg+xml", "no-cache", "of a b.svg"],
    ["/assets/a.css", "text/css; charset=utf-8", forever, "of assets/a.css"],
    ["/assets/a.woff2", "font/woff2", forever, "of assets/a.woff2"],
  ] as const) {
    const reply = staticFile(path, root)!;
    assert.deepEqual([reply.headers.get("content-type"), reply.headers.get("cache-control")], [type, kept], path);
    assert.deepEqual([await reply.text(), reply.headers.get("x-content-type-options")], [text, "nosniff"]);
    assert.match(reply.headers.get("content-security-policy")!, /^default-src 'none'; script-src 'self';/);
  }
  for (const path of [
    "/none.js",
    "/notes.txt",
    "/folder.js",
    "/assets",
    "/../beside.js",
    "/%2e%2e/beside.js",
    "/%E0%A4%A",
  ])
    assert.equal(staticFile(path, root), null, path);
  rmSync(dir, { recursive: true });
});
