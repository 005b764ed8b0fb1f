// What every route makes of its fields: the engine's options, the reply or the events, and the log, whole and to the letter.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { OUTCOMES, outcomes } from "../support/outcomes.js";
import { ToldServer } from "../support/told-server.js";

test("every exchange comes out as it is written down (test/fixtures/exchanges/make.ts writes it)", async () => {
  const expected = JSON.parse(readFileSync(OUTCOMES, "utf8")) as Record<string, unknown>;
  const found = await outcomes();
  assert.deepEqual(Object.keys(found), Object.keys(expected));
  for (const [title, outcome] of Object.entries(found)) assert.deepEqual(outcome, expected[title], title);
});

test("openapi.json has every route: what it takes, whether it needs a key, whether it streams", async () => {
  await using told = await ToldServer.start();
  const { paths } = (await (await told.ask("GET", "/openapi.json")).json()) as {
    paths: Record<
      string,
      Record<
        string,
        {
          security: unknown[];
          parameters?: { name: string; required: boolean }[];
          requestBody?: { required: boolean };
          responses: Record<string, { content: object }>;
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
      return [method, path, ...types, ...marks.filter((mark) => mark !== "")].join(" ");
    }),
  );
  assert.deepEqual(lines, ROUTES);
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
  "post /api/chat json event-stream body",
  "post /api/generate json event-stream body",
  "post /api/embed json body",
  "post /api/embeddings json body",
  "get /api/tags json",
  "post /api/show json body",
  "get /api/ps json",
  "get /api/version json open",
  "get /v1/models json",
  "get /v1/models/{model} json model",
  "post /v1/files json",
  "get /v1/files json",
  "get /v1/files/{id} json id",
  "delete /v1/files/{id} json id",
  "get /v1/files/{id}/content json id",
  "post /v1/batches json body",
  "get /v1/batches json",
  "get /v1/batches/{id} json id",
  "post /v1/batches/{id}/cancel json id",
  "post /v1/load_lora_adapter json body",
  "post /v1/unload_lora_adapter json body",
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
