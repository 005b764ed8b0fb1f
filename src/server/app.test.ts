// What every request meets around its route: its id, who may ask, the log, the counts, errors in the form of its API.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Said, ToldServer } from "../../test/support/told-server.js";

const chat = "/v1/chat/completions";
const body = { messages: [{ role: "user", content: "a" }] };

const STATS = {
  speculation: { drafts: 0, draftTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
  pictures: { encoded: 0, reused: 0, waiting: 0, bytes: 0 },
  adapters: [],
  ...{ running: 1, waiting: 2, cacheGroups: [], hostTimes: null, pageSize: 16, pagesTotal: 4, pagesUsed: 1 },
};

test("a request keeps the id it brings if that is one, and gets one otherwise; its log lines carry it", async () => {
  await using told = await ToldServer.start();
  const idOf = async (given?: string) => {
    const headers = given === undefined ? {} : { "x-request-id": given };
    return (await told.ask("GET", "/version", undefined, headers)).headers.get("x-request-id");
  };
  for (const id of ["a", "A.b:c-d_9", "x".repeat(128)]) {
    assert.equal(await idOf(id), id);
    assert.equal(told.log.at(-1)!.requestId, id);
  }
  for (const id of [undefined, "", "a b", "x".repeat(129), "a/b"]) assert.match((await idOf(id))!, /^[0-9a-f-]{36}$/);
});

test("only names of this machine or those allowed, only pages of its own or those allowed", async () => {
  const codeOf = async (told: ToldServer, host: string, origin?: string) => {
    const headers = { host, ...(origin === undefined ? {} : { origin }) };
    const reply = await told.ask("GET", "/v1/models", undefined, headers);
    return reply.status === 200 ? 200 : ((await reply.json()) as { error: { code: string } }).error.code;
  };
  await using strict = await ToldServer.start({ allowedHost: ["box"], corsOrigin: ["http://page"] });
  const [badHost, badOrigin] = ["host_not_allowed", "origin_not_allowed"];
  for (const [host, origin, expected] of [
    ["localhost", undefined, 200],
    ["LOCALHOST:80", undefined, 200],
    ["a.localhost", undefined, 200],
    ["127.0.0.1:8000", undefined, 200],
    ["127.255.0.9", undefined, 200],
    ["[::1]:8000", undefined, 200],
    ["box", undefined, 200],
    ["box:99", undefined, 200],
    ["boxes", undefined, badHost],
    ["10.0.0.1", undefined, badHost],
    ["127.0.0.1.evil.org", undefined, badHost],
    ["notlocalhost", undefined, badHost],
    ["", undefined, badHost],
    ["a b", undefined, badHost],
    ["localhost", "http://localhost", 200],
    ["localhost:8", "https://localhost:8", 200],
    ["localhost", "http://localhost:1", badOrigin],
    ["localhost", "http://page", 200],
    ["localhost", "http://pages", badOrigin],
    ["localhost", "null", badOrigin],
    ["evil", "http://evil", badHost],
  ] as const)
    assert.equal(await codeOf(strict, host, origin), expected, `${host} ${origin}`);
  await using open = await ToldServer.start({ allowedHost: ["*"], corsOrigin: ["*"] });
  assert.equal(await codeOf(open, "anything", "http://anywhere"), 200);
  await using far = await ToldServer.start({ host: "0.0.0.0", allowedHost: ["box"] });
  for (const [host, origin, expected] of [
    ["10.0.0.1:8000", undefined, 200],
    ["[fd00::1]:8000", "http://[fd00::1]:8000", 200],
    ["127.0.0.1", "http://127.0.0.1", 200],
    ["localhost:8000", undefined, 200],
    ["box", undefined, 200],
    ["rebound.example", "http://rebound.example", badHost],
    ["10.0.0.1", "http://page.example", badOrigin],
  ] as const)
    assert.equal(await codeOf(far, host, origin), expected, `${host} ${origin}`);
  await using keyed = await ToldServer.start({ host: "0.0.0.0", apiKey: ["secret"] });
  assert.equal(await codeOf(keyed, "anything", "http://anywhere"), "invalid_api_key", "a page has none");
  await using named = await ToldServer.start({ host: "0.0.0.0", apiKey: ["secret"], allowedHost: ["box"] });
  assert.equal(await codeOf(named, "anything"), badHost);
});

test("CORS: what a browser is told about who may read, and which headers", async () => {
  const corsOf = async (corsOrigin: string[], origin: string) => {
    await using told = await ToldServer.start({ corsOrigin });
    const { headers } = await told.ask("GET", "/version", undefined, { origin, host: new URL(origin).host });
    return [headers.get("access-control-allow-origin"), headers.get("access-control-expose-headers")];
  };
  const exposed = "x-request-id,retry-after";
  assert.deepEqual(await corsOf([], "http://localhost"), [null, null]);
  assert.deepEqual(await corsOf(["http://localhost"], "http://localhost"), ["http://localhost", exposed]);
  assert.deepEqual(await corsOf(["http://localhost:2"], "http://localhost:1"), [null, exposed]);
  assert.deepEqual(await corsOf(["http://a", "*"], "http://localhost"), ["*", exposed]);
});

test("lines of the log: probes and watchers quietly, failures of the server loudly, each with what its request cost", async (t) => {
  await using told = await ToldServer.start();
  told.knows = { stats: STATS };
  const levels = { 20: "debug", 30: "info", 50: "error" } as Record<number, string>;
  const lineOf = async (method: string, path: string, given?: unknown) => {
    const reply = await told.ask(method, path, given);
    await reply.text();
    const { level, status, msg, ms } = told.log.at(-1)! as Record<"level" | "status" | "ms", number> & { msg: string };
    assert.ok(ms >= 0 && Math.round(ms * 10) / 10 === ms);
    return `${levels[level]} ${status} ${msg}`;
  };
  for (const path of ["/health", "/ready", "/metrics", "/api/stats", "/api/tags"])
    assert.equal(await lineOf("GET", path), "debug 200 request", path);
  assert.equal(await lineOf("GET", "/v1/models"), "info 200 request");
  assert.equal(await lineOf("POST", "/api/show", { model: "tiny" }), "info 200 request");
  assert.equal(await lineOf("GET", "/nothing"), "info 404 request");
  assert.equal(await lineOf("PUT", "/health"), "debug 405 request");
  told.says = () => ({ text: "", error: { code: "step_failed", details: { reason: "x" } } });
  assert.equal(await lineOf("POST", chat, body), "error 500 request");
  assert.equal(told.log.at(-2)!.msg, "a request failed");
  let nowMs = 500;
  t.mock.method(performance, "now", () => nowMs);
  told.says = () => {
    nowMs = 512.34;
    return { text: "x" };
  };
  await told.post(chat, body);
  assert.equal(told.log.at(-1)!.ms, 12.3);
  t.mock.method(performance, "now", () => nowMs++);
  const [, { total_duration, load_duration }] = await told.post("/api/embed", { model: "tiny", input: "a" });
  assert.deepEqual(
    [total_duration >= 1e6 && total_duration < 4e8, total_duration % 1e6, load_duration],
    [true, 0, 0],
    "in nanoseconds",
  );
});

/** The samples of a scrape that are not zero, without the model's name; times and sizes that differ are left out. */
async function scrape(told: ToldServer): Promise<Record<string, string>> {
  const text = await (await told.ask("GET", "/metrics")).text();
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#") && !line.endsWith(" 0"));
  return Object.fromEntries(
    lines.map((line) =>
      line
        .replace(/,?model_name="tiny"/, "")
        .replace("{}", "")
        .split(/ (?=\S+$)/),
    ),
  );
}

test("requests are counted by route, method and status, answers by how they ended, tokens by the time between them", async (t) => {
  await using told = await ToldServer.start();
  told.knows = { stats: STATS };
  const says = (said: Said) => {
    told.says = () => said;
  };
  let nowMs = 1000;
  t.mock.method(performance, "now", () => nowMs);
  says({ text: "abc", finishReason: "length" });
  await told.post(chat, { ...body, n: 2 });
  says({ text: "ab", rest: "cdef" });
  const reply = await told.ask("POST", chat, { ...body, stream: true });
  for await (const _ of reply.body ?? []) {
    nowMs += 20;
    told.goOn();
  }
  says({ text: "a", rest: "bc" });
  const short = await told.ask("POST", chat, { ...body, stream: true });
  for await (const piece of short.body ?? []) if (Buffer.from(piece).includes('"content":"a"')) told.goOn();
  says({ text: "", error: { code: "no_token_left", details: { index: 0 } } });
  await told.post(chat, body);
  for (const path of ["/v1/models", "/v1/models/tiny", "/v1/models/none", "/v1/responses/none", "/nothing"])
    await (await told.ask("GET", path)).text();
  const found = await scrape(told);
  const http = (route: string, method: string, status: number) =>
    `pagoda_http_requests_total{route="${route}",method="${method}",status="${status}"}`;
  const expected = {
    [http(chat, "POST", 200)]: "3",
    [http(chat, "POST", 400)]: "1",
    [http("/v1/models", "GET", 200)]: "1",
    [http("/v1/models/:model", "GET", 200)]: "1",
    [http("/v1/models/:model", "GET", 404)]: "1",
    [http("/v1/responses/:id", "GET", 404)]: "1",
    [http("other", "GET", 404)]: "1",
    'pagoda_requests_finished_total{finished_reason="length"}': "2",
    'pagoda_requests_finished_total{finished_reason="stop"}': "2",
    'pagoda_requests_finished_total{finished_reason="error"}': "1",
    // Two samples of three tokens at once: all but the first of each followed another; then one of two and four that came after a while,
    // and one of one and two.
    pagoda_inter_token_seconds_count: "11",
    pagoda_request_seconds_count: "3",
  };
  const picked = Object.fromEntries(Object.keys(expected).map((name) => [name, found[name]]));
  assert.deepEqual(picked, expected);
  const between = Number(found.pagoda_inter_token_seconds_sum);
  assert.ok(between >= 0.02 && between < 0.2, `${between}`);
  for (const name of ["process_resident_memory_bytes", "nodejs_heap_size_used_bytes", "nodejs_external_memory_bytes"])
    assert.ok(Number(found[name]) > 1000, name);
});

test("what is open to everybody, and what is not once metrics are not", async () => {
  const keyed = { apiKey: ["k"] };
  for (const [openMetrics, closed] of [
    [true, ["/v1/models", "/api/stats"]],
    [false, ["/v1/models", "/api/stats", "/metrics", "/openapi.json"]],
  ] as const) {
    await using told = await ToldServer.start({ ...keyed, openMetrics });
    const statusOf = async (path: string) => (await told.ask("GET", path)).status;
    const paths = ["/health", "/ready", "/version", "/metrics", "/openapi.json", "/v1/models", "/api/stats"];
    const refused = [];
    for (const path of paths) if ((await statusOf(path)) === 401) refused.push(path);
    assert.deepEqual(refused.sort(), [...closed].sort());
  }
});

test("errors have the form of the API that a path belongs to, and say what it takes", async () => {
  await using told = await ToldServer.start();
  const replyOf = async (method: string, path: string) => {
    const reply = await told.ask(method, path, method === "POST" ? {} : undefined);
    const { error, type } = (await reply.json()) as { error: string | { code?: string; type?: string }; type?: string };
    const form = typeof error === "string" ? "ollama" : type === "error" ? "anthropic" : error.code;
    return [reply.status, form, reply.headers.get("allow")];
  };
  for (const [method, path, ...expected] of [
    ["GET", chat, 405, "method_not_allowed", "POST"],
    ["POST", "/v1/models", 405, "method_not_allowed", "GET"],
    ["POST", "/nothing", 404, "not_found", null],
    ["POST", "/v1/messages", 400, "anthropic", null],
    ["POST", "/v1/messages/batches", 404, "anthropic", null],
    ["POST", "/v1/messagesx", 404, "not_found", null],
    ["POST", "/api/chat", 400, "ollama", null],
    ["POST", "/api/pull", 403, "ollama", null],
    ["POST", "/api/delete", 405, "ollama", "DELETE"],
    ...["push", "create", "copy", "blobs/sha256:0"].map((own) => ["POST", `/api/${own}`, 404, "ollama", null] as const),
    ["POST", "/api/pulls", 404, "not_found", null],
    ["GET", "/../package.json", 404, "not_found", null],
    ["GET", "/%E0%A4%A", 404, "not_found", null],
  ] as const)
    assert.deepEqual(await replyOf(method, path), expected, `${method} ${path}`);
});

test("models: when they came, what is known of those that are loaded", async (t) => {
  await using told = await ToldServer.start();
  const before = Math.floor(told.server.context.startedMs / 1000);
  const { data } = (await (await told.ask("GET", "/v1/models")).json()) as { data: unknown[] };
  const loaded = { object: "model", created: before, owned_by: "pagoda", is_loaded: true };
  const facts = { max_model_len: 512, architecture: "llama" };
  assert.deepEqual(
    data,
    ["tiny", "other"].map((id) => ({ id, ...loaded, ...facts })),
  );
  const [status, { error }] = await told.post("/detokenize", { tokens: [65], model: "large" });
  assert.deepEqual([status, error.code, error.param], [404, "model_not_found", "model"]);
  assert.equal((await told.post("/tokenize", { prompt: "a", model: "large" }))[0], 404);
  assert.equal((await told.post("/detokenize", { tokens: [260] }))[0], 400);
  t.mock.method(Date, "now", () => 1_700_000_000_999);
  assert.equal((await told.post(chat, body))[1].created, 1_700_000_000);
  assert.deepEqual((await told.post("/detokenize", { tokens: [72, 259], model: "other" }))[0], 200);
  assert.deepEqual(
    (await told.post("/detokenize", { tokens: [72, 260] }))[1].error.message,
    "Token id 260 at index 1 is outside the vocabulary 0..259.",
  );
});

test("a request is its model's: a guest's own engine, names and limits; one that unloads it by name is heard", async () => {
  await using guest = await ToldServer.start({}, { maxContext: 64 });
  await using told = await ToldServer.start({ guests: [{ name: "guest", load: async () => guest.engine }] });
  const loaded = async () =>
    ((await (await told.ask("GET", "/v1/models")).json()) as { data: { id: string; is_loaded: boolean }[] }).data.map(
      ({ id, is_loaded }) => `${id} ${is_loaded}`,
    );
  assert.deepEqual(await loaded(), ["tiny true", "other true", "guest false"]);
  guest.says = () => ({ text: "I am the guest" });
  const [status, { choices, model }] = await told.post(chat, { ...body, model: "guest:latest" });
  assert.deepEqual([status, choices[0].message.content, model], [200, "I am the guest", "guest"]);
  assert.deepEqual([told.asked.length, guest.asked.length], [0, 1]);
  assert.deepEqual(await loaded(), ["tiny true", "other true", "guest true"]);
  assert.equal((await told.post("/tokenize", { prompt: "a", model: "guest" }))[1].max_model_len, 64);
  await told.post(chat, body);
  assert.deepEqual([told.asked.length, guest.asked.length], [1, 1]);
  assert.equal((await told.post("/api/generate", { model: "guest", keep_alive: 0 }))[0], 200);
  assert.deepEqual(await loaded(), ["tiny true", "other true", "guest false"]);
  assert.equal((await told.post("/api/generate", { model: "tiny", keep_alive: 0 }))[0], 200);
  assert.deepEqual(await loaded(), ["tiny false", "other false", "guest false"]);
});

test("health and readiness are told from the engine's state, and from the gate's", async (t) => {
  await using told = await ToldServer.start();
  const health = { state: "ready", restarts: 3, lastError: "x" };
  t.mock.method(told.engine, "health", () => health);
  const answer = async (path: string) => {
    const reply = await told.ask("GET", path);
    return [reply.status, await reply.json()];
  };
  for (const [state, status, isUp, isReady] of [
    ["ready", "ok", 200, 200],
    ["asleep", "asleep", 200, 200],
    ["away", "away", 200, 503],
    ["restarting", "restarting", 503, 503],
    ["dead", "dead", 503, 503],
  ] as const) {
    health.state = state;
    assert.deepEqual(await answer("/health"), [isUp, { status, restarts: 3 }]);
    assert.deepEqual(await answer("/ready"), [isReady, { status: state }]);
  }
});

test("with several keys each sees its own requests, and unloading takes an admin's", async () => {
  await using guest = await ToldServer.start();
  const guests = [{ name: "guest", load: async () => guest.engine }];
  await using told = await ToldServer.start({ apiKey: ["one", "two"], adminKey: ["root"], guests });
  const as = (key: string) => ({ authorization: `Bearer ${key}` });
  await told.post(chat, body, as("one"));
  await told.post(chat, body, as("two"));
  const ids = told.asked.map(({ callId }) => callId);
  told.knows = { cache: { pageSize: 16, groups: [], nodes: [], requests: ids.map((id) => ({ id, pages: [1] })) } };
  const seenBy = async (key: string) => {
    const reply = await told.ask("GET", "/api/cache", undefined, as(key));
    return ((await reply.json()) as { requests: { id: string }[] }).requests.map(({ id }) => id);
  };
  assert.deepEqual([await seenBy("one"), await seenBy("two"), await seenBy("root")], [[ids[0]], [ids[1]], ids]);
  const unload = async (key: string) =>
    (await told.post("/api/generate", { model: "guest", keep_alive: 0 }, as(key)))[0];
  assert.deepEqual([await unload("one"), await unload("root")], [403, 200]);
  await using two = await ToldServer.start({ apiKey: ["one", "two"], guests });
  assert.equal((await two.post("/api/generate", { model: "guest", keep_alive: 0 }, as("one")))[0], 403, "nobody is");
  await using single = await ToldServer.start({ apiKey: ["one"], guests });
  assert.equal(
    (await single.post("/api/generate", { model: "guest", keep_alive: 0 }, as("one")))[0],
    200,
    "it has nobody beside it",
  );
});

test("what comes later of the same text or thought is of the same block of a message", async () => {
  await using told = await ToldServer.start();
  for (const [text, rest, types] of [
    ["ab", "cd", ["text_delta ab", "text_delta cd"]],
    ["<think>ab", "cd</think>e", ["thinking_delta ab", "thinking_delta cd", "text_delta e"]],
    ["<think>a</think>b", "cd", ["thinking_delta a", "text_delta b", "text_delta cd"]],
  ] as const) {
    told.says = () => ({ text, rest });
    const asked = { model: "tiny", max_tokens: 9, messages: body.messages, stream: true };
    let events = "";
    for await (const piece of (await told.ask("POST", "/v1/messages", asked)).body ?? []) {
      events += Buffer.from(piece).toString();
      if (events.includes("_delta")) told.goOn();
    }
    const data = [...events.matchAll(/^data: (.*)$/gm)].map(([, line]) => JSON.parse(line!));
    const deltas = data.flatMap(({ type, delta }) =>
      type === "content_block_delta" ? [`${delta.type} ${delta.text ?? delta.thinking}`] : [],
    );
    assert.deepEqual(deltas, types);
    const starts = data.filter(({ type }) => type === "content_block_start");
    assert.equal(starts.length, new Set(types.map((type) => type.split(" ")[0])).size);
  }
});

test("guests have so much memory together: what fits exactly stays, without a limit all do", async () => {
  for (const [modelMemoryMb, isKept] of [
    [1, false],
    [2, true],
    [null, true],
  ] as const) {
    await using one = await ToldServer.start();
    await using two = await ToldServer.start();
    const guests = Object.entries({ one, two }).map(([name, { engine }]) => ({
      name,
      load: async (onBytes: (bytes: number) => void) => {
        onBytes(2 ** 20);
        return engine;
      },
    }));
    await using told = await ToldServer.start({ modelMemoryMb, guests });
    for (const model of ["one", "two"]) assert.equal((await told.post(chat, { ...body, model }))[0], 200);
    const { data } = (await (await told.ask("GET", "/v1/models")).json()) as { data: { is_loaded: boolean }[] };
    assert.deepEqual(
      data.slice(2).map(({ is_loaded }) => is_loaded),
      [isKept, true],
      `${modelMemoryMb}`,
    );
  }
});
