// What every route makes of its fields: the engine's options, the reply or the events, and the log, whole and to the letter.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { ANSWERS } from "../../src/server/openapi.js";
import { OUTCOMES, outcomes } from "../support/outcomes.js";
import { ToldServer } from "../support/told-server.js";

test("every exchange comes out as it is written down (test/fixtures/exchanges/make.ts writes it)", async () => {
  const expected = JSON.parse(readFileSync(OUTCOMES, "utf8")) as Record<string, unknown>;
  const found = await outcomes();
  assert.deepEqual(Object.keys(found), Object.keys(expected));
  for (const [title, outcome] of Object.entries(found)) assert.deepEqual(outcome, expected[title], title);
});

test("what routes answer is what openapi.json says, to the last field", () => {
  const written = JSON.parse(readFileSync(OUTCOMES, "utf8")) as Record<string, Outcome>;
  const seen = new Set<string>();
  const wrong: string[] = [];
  for (const [title, { status, headers, reply, log }] of Object.entries(written)) {
    const request = log.find(({ msg }) => msg === "request");
    if (status !== 200 || request === undefined || typeof reply === "string") continue;
    const route = Object.keys(ANSWERS).find((key) => isOf(key, request.method!, request.path!));
    if (route === undefined) continue;
    const { answer, event } = ANSWERS[route]!;
    const isStream = /event-stream|ndjson/.test(headers["content-type"]!);
    const values = isStream ? (reply as unknown[]).filter((value) => typeof value === "object") : [reply];
    for (const value of values) {
      if (isStream && Object.keys(value as object).join() === "error") continue; // a stream that failed
      const known = route.includes(" /api/") ? withTimes(value) : value;
      const parsed = (isStream ? event! : answer!).safeParse(known);
      if (!parsed.success) wrong.push(`${title}: ${JSON.stringify(parsed.error?.issues.slice(0, 3))}`);
      else if (!isDeepStrictEqual(parsed.data, known)) wrong.push(`${title}: ${JSON.stringify(known)}`);
      seen.add(isStream ? `${route} streamed` : route);
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(seen.size >= 35, [...seen].join("\n"));
});

interface Outcome {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly reply: unknown;
  readonly log: readonly { readonly msg: string; readonly method?: string; readonly path?: string }[];
}

function isOf(key: string, method: string, path: string): boolean {
  const [ownMethod, ownPath] = key.split(" ");
  const pattern = ownPath!.replace(/:\w+(\{\.\+\})?/g, (_, all) => (all === undefined ? "[^/]+" : ".+"));
  return ownMethod === method.toLowerCase() && new RegExp(`^${pattern}$`).test(path);
}

/** Ollama's are texts, and 0 where they are written down. */
function withTimes(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (key, inner) =>
    (key === "modified_at" || key === "created_at") && inner === 0 ? "2026-01-01T00:00:00Z" : inner,
  );
}

test("openapi.json has every route: what it takes, whether it needs a key, whether it streams", async () => {
  await using told = await ToldServer.start();
  const text = await (await told.ask("GET", "/openapi.json")).text();
  const { paths, components } = JSON.parse(text) as {
    components: { schemas: object };
    paths: Record<
      string,
      Record<
        string,
        {
          security: unknown[];
          parameters?: { name: string; required: boolean }[];
          requestBody?: { required: boolean };
          operationId: string;
          responses: Record<string, { content: Record<string, { schema: object }> }>;
        }
      >
    >;
  };
  const lines = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security, parameters = [], requestBody, responses }]) => {
      const types = Object.keys(responses["200"]!.content).map((type) => type.split("/")[1]);
      const marks = [
        security.length === 0 ? "open" : "",
        requestBody?.required === true ? "body" : "",
        ...parameters.map(({ name, required }) => (required ? name : "")),
      ];
      assert.ok(responses["4XX"] !== undefined && responses.default !== undefined, path);
      for (const { schema } of Object.values(responses["200"]!.content))
        assert.ok(Object.keys(schema).length > 0, path);
      return [method, path, ...types, ...marks.filter((mark) => mark !== "")].join(" ");
    }),
  );
  assert.deepEqual(lines, ROUTES);
  const ids = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
  assert.equal(new Set(ids).size, ROUTES.length);
  const links = [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!);
  for (const name of links) assert.ok(name in components.schemas, name);
  assert.ok(new Set(links).size > 20);
});

const ROUTES: readonly string[] = [
  "post /v1/chat/completions json event-stream body",
  "post /v1/completions json event-stream body",
  "post /v1/responses json event-stream body",
  "get /v1/responses/{id} json id",
  "delete /v1/responses/{id} json id",
  "get /v1/responses/{id}/input_items json id",
  "post /v1/embeddings json body",
  "post /v1/rerank json body",
  "post /v2/rerank json body",
  "post /rerank json body",
  "post /v1/score json body",
  "post /v1/messages json event-stream body",
  "post /v1/messages/count_tokens json body",
  "post /api/chat json x-ndjson body",
  "post /api/generate json x-ndjson body",
  "post /api/embed json body",
  "post /api/embeddings json body",
  "get /api/tags json",
  "post /api/show json body",
  "get /api/ps json",
  "post /api/pull json x-ndjson body",
  "delete /api/delete json body",
  "get /api/version json open",
  "get /v1/models json",
  "get /v1/models/{model} json model",
  "post /v1/files json",
  "get /v1/files json",
  "get /v1/files/{id} json id",
  "delete /v1/files/{id} json id",
  "get /v1/files/{id}/content jsonl id",
  "post /v1/batches json body",
  "get /v1/batches json",
  "get /v1/batches/{id} json id",
  "post /v1/batches/{id}/cancel json id",
  "post /v1/load_lora_adapter plain body",
  "post /v1/unload_lora_adapter plain body",
  "get /lora-adapters json",
  "post /tokenize json body",
  "post /detokenize json body",
  "get /health json open",
  "get /ready json open",
  "get /version json open",
  "get /metrics plain open",
  "get /api/stats json",
  "get /api/steps json event-stream",
  "get /api/cache json",
  "get /api/plan/{step} json step",
];
