// A short run of the fuzz command: every kept seed, and some hundreds that are always the same.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { requestOf, routesOf, tryRequest } from "./fuzz/bodies.js";
import { keptSeeds } from "./fuzz/kept.js";
import { ModelFuzzer } from "./fuzz/models.js";
import { PictureFuzzer } from "./fuzz/pictures.js";
import { startServer, until } from "./support/test-server.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const NUM_BODIES = 700;
const NUM_MODELS = 400;
const NUM_PICTURES = 250;

test("bodies for every route: never a 5xx, never a hang", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint(), maxContext: 48 }, { maxBodyMb: 1 });
  const routes = await routesOf(host.url);
  assert.ok(routes.length >= 12, "every route that takes a body describes it");
  const seeds = [...keptSeeds().bodies, ...Array.from({ length: NUM_BODIES }, (_, i) => i)];
  const tried = new Set<string>();
  const next = seeds[Symbol.iterator]();
  const work = async (): Promise<void> => {
    for (const seed of next) {
      const request = requestOf(routes, seed);
      tried.add(request.path);
      const wrong = await tryRequest(host.url, request, 240_000);
      assert.equal(wrong, null, `seed ${seed}: ${request.path} ${request.body}`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, work));
  assert.equal(tried.size, routes.length);
  assert.equal((await fetch(`${host.url}/health`)).status, 200);
  await until(async () => {
    const { pagesUsed, running } = await host.engine.stats();
    return pagesUsed === 0 && running === 0;
  }, "all pages come back");
});

const models = new ModelFuzzer();
after(() => models.close());
test("model files: a model, or an error of ours", async () => {
  for (const seed of [...keptSeeds().models, ...Array.from({ length: NUM_MODELS }, (_, i) => i)])
    assert.equal(await models.try(seed), null, `seed ${seed}`);
});

test("pictures: frames within the limits, or an error of ours", async () => {
  const pictures = new PictureFuzzer();
  for (const seed of [...keptSeeds().pictures, ...Array.from({ length: NUM_PICTURES }, (_, i) => i)])
    assert.equal(await pictures.try(seed), null, `seed ${seed}`);
});
