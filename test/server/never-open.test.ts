// Doors that stay shut: names and pages from elsewhere, bodies that a browser sends unasked, empty and misspelt settings, other
// tenants' requests, fields that nobody reads.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { fromConfigFile } from "../../src/config/config-file.js";
import { fromEnvironment, parseText, refuseUnknownVariables } from "../../src/config/options.js";
import { SERVER_OPTIONS, serverConfig } from "../../src/config/server-config.js";
import { startServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const model = writeTinyCheckpoint();
const body = { messages: [{ role: "user", content: "hi" }], max_tokens: 2, ignore_eos: true };

/** fetch() sets its own Host. */
function statusOf(url: string, headers: Record<string, string>, sent?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(url, { method: sent === undefined ? "GET" : "POST", headers, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    call.on("error", reject);
    call.end(sent);
  });
}

test("a loopback server answers to names of this machine, and to pages of its own", async () => {
  await using host = await startServer({ model }, { corsOrigin: ["https://friend.example"], allowedHost: ["box.lan"] });
  const { port } = new URL(host.url);
  const status = (headers: Record<string, string>) => statusOf(`${host.url}/v1/models`, headers);
  for (const name of ["localhost", "127.0.0.1", `localhost:${port}`, "[::1]:1", "app.localhost", "box.lan"])
    assert.equal(await status({ host: name }), 200, name);
  for (const name of [
    "evil.example",
    `evil.example:${port}`,
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "0.0.0.0",
  ])
    assert.equal(await status({ host: name }), 403, name);
  const own = { host: `localhost:${port}` };
  for (const origin of [`http://localhost:${port}`, "https://friend.example"])
    assert.equal(await status({ ...own, origin }), 200, origin);
  for (const origin of ["http://evil.example", "null", "http://localhost:1", `http://localhost:${port}.evil.example`])
    assert.equal(await status({ ...own, origin }), 403, origin);
});

test("bodies that a page sends are application/json, or they are not read", async () => {
  await using host = await startServer({ model });
  const url = `${host.url}/v1/chat/completions`;
  const status = (type: string | null, from: Record<string, string>) =>
    statusOf(url, type === null ? from : { ...from, "content-type": type }, JSON.stringify(body));
  const pages = [{ origin: host.url }, { "sec-fetch-site": "cross-site" }] as Record<string, string>[];
  for (const type of ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/x+json"])
    for (const from of [{}, ...pages]) assert.equal(await status(type, from), 200, type);
  for (const type of [
    null,
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/jsonp",
  ]) {
    for (const page of pages) assert.equal(await status(type, page), 415, String(type));
    assert.equal(await status(type, {}), 200, String(type));
  }
});

test("empty settings are refused, never taken as none; misspelt ones are named", () => {
  for (const name of ["PAGODA_HOST", "PAGODA_API_KEY", "PAGODA_PORT", "PAGODA_LOG_PROMPTS"])
    assert.throws(() => fromEnvironment(SERVER_OPTIONS, { [name]: "" }), new RegExp(`${name} is empty; it must be`));
  assert.throws(() => parseText("--api-key", SERVER_OPTIONS.apiKey, ","), /--api-key .* list of non-empty strings/);
  assert.throws(() => parseText("--host", SERVER_OPTIONS.host, ""), /--host is ""; it must be a non-empty string/);
  assert.throws(() => serverConfig({ apiKey: [""] }), /apiKey/);
  assert.throws(() => refuseUnknownVariables(SERVER_OPTIONS, { PAGODA_API_KEYS: "secret" }), /PAGODA_API_KEYS/);
  refuseUnknownVariables(SERVER_OPTIONS, { PAGODA_API_KEY: "secret", OTHER: "1" });
  const file = join(model, "pagoda.json");
  writeFileSync(file, '{"apiKeys": ["secret"]}');
  assert.throws(() => fromConfigFile(SERVER_OPTIONS, file), /apiKeys in .*pagoda\.json/);
  writeFileSync(file, '\ufeff{"port": 1}'); // as editors on Windows write it
  assert.deepEqual(fromConfigFile(SERVER_OPTIONS, file), { port: 1 });
});

test("a key sees its own requests under /api, an admin key everybody's", async () => {
  await using host = await startServer(
    { model },
    { apiKey: ["alpha", "beta"], adminKey: ["root"], openMetrics: false },
  );
  const get = async (path: string, key: string | null): Promise<Response> =>
    fetch(host.url + path, key === null ? {} : { headers: { authorization: `Bearer ${key}` } });
  const reply = await host.post("/v1/chat/completions", { ...body, n: 2 }, { authorization: "Bearer alpha" });
  const { id } = (await reply.json()) as { id: string };
  const idsOf = async (key: string): Promise<string[]> => {
    const steps = (await (await get("/api/steps?format=json", key)).json()) as { rows: { id: string }[] }[];
    assert.ok(steps.length > 0);
    return [...new Set(steps.flatMap((step) => step.rows.map((row) => row.id)))].sort();
  };
  assert.deepEqual(await idsOf("alpha"), [id, `${id}#1`]);
  assert.deepEqual(await idsOf("beta"), [""]);
  assert.deepEqual(await idsOf("root"), [id, `${id}#1`]);
  for (const path of ["/metrics", "/openapi.json"]) {
    assert.equal((await get(path, null)).status, 401);
    assert.equal((await get(path, "beta")).status, 200);
  }
  assert.equal((await get("/health", null)).status, 200);
});

test("a strict server refuses fields that nobody reads with their path, however deep", async () => {
  await using host = await startServer({ model }, { strictFields: true });
  const cases: [Record<string, unknown>, string][] = [
    [{ response_format: { type: "json_schema", schema: {}, json_schema: { schema: {} } } }, "response_format.schema"],
    [
      { response_format: { type: "json_schema", json_schema: { schema: {}, strikt: true } } },
      "response_format.json_schema.strikt",
    ],
    [{ stream_options: { include_usages: true } }, "stream_options.include_usages"],
    [{ messages: [{ role: "user", content: "hi", contents: "ho" }] }, "messages.0.contents"],
    [
      { messages: [{ role: "user", content: [{ type: "text", text: "hi", texts: "ho" }] }] },
      "messages.0.content.0.texts",
    ],
    [{ tools: [{ type: "function", function: { name: "f", parameter: {} } }] }, "tools.0.function.parameter"],
    [{ tool_choice: { type: "function", function: { name: "f", strict: true } } }, "tool_choice.function.strict"],
    [{ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }, "messages"],
  ];
  for (const [extra, param] of cases) {
    const reply = await host.post("/v1/chat/completions", { ...body, ...extra });
    assert.equal(reply.status, 400, param);
    const { error } = (await reply.json()) as { error: { param: string; message: string } };
    assert.equal(error.param, param, error.message);
  }
});
