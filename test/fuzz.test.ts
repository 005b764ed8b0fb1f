// A short run of the fuzz command: every kept seed, and some hundreds that are always the same.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { requestOf, routesOf, tryRequest } from "./fuzz/bodies.js";
import { EntryFuzzer } from "./fuzz/entries.js";
import { FolderFuzzer } from "./fuzz/folders.js";
import { GuessFuzzer } from "./fuzz/guesses.js";
import { type Kind, keptSeeds } from "./fuzz/kept.js";
import { ModelFuzzer } from "./fuzz/models.js";
import { PictureFuzzer } from "./fuzz/pictures.js";
import { TemplateFuzzer } from "./fuzz/templates.js";
import { TokenizerFuzzer } from "./fuzz/tokenizers.js";
import { WeightFuzzer } from "./fuzz/weights.js";
import { openCpu } from "./support/cpu.js";
import { startServer, until } from "./support/test-server.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const NUM_BODIES = 700;
const NUM_MODELS = 400;
const NUM_PICTURES = 250;
const NUM_TEMPLATES = 200;
const NUM_TOKENIZERS = 400;
const NUM_ENTRIES = 1500;
const NUM_FOLDERS = 150;
const NUM_WEIGHTS = 40;
const NUM_GUESSES = 8;

const seedsOf = (kind: Kind, count: number): number[] => [
  ...keptSeeds()[kind],
  ...Array.from({ length: count }, (_, i) => i),
];

test("bodies for every route: never a 5xx, never a hang", async () => {
  const batchDir = mkdtempSync(join(tmpdir(), "pagoda-fuzz-"));
  await using host = await startServer({ model: writeTinyCheckpoint(), maxContext: 48 }, { maxBodyMb: 1, batchDir });
  const routes = await routesOf(host.url);
  assert.ok(routes.length >= 12, "every route that takes a body describes it");
  const seeds = seedsOf("bodies", NUM_BODIES);
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
  for (const seed of seedsOf("models", NUM_MODELS)) assert.equal(await models.try(seed), null, `seed ${seed}`);
});

test("pictures: frames within the limits, or an error of ours", async () => {
  const pictures = new PictureFuzzer();
  for (const seed of seedsOf("pictures", NUM_PICTURES)) assert.equal(await pictures.try(seed), null, `seed ${seed}`);
});

test("templates: a text, or an error of the template", () => {
  const templates = new TemplateFuzzer();
  for (const seed of seedsOf("templates", NUM_TEMPLATES)) assert.equal(templates.try(seed), null, `seed ${seed}`);
});

test("tokenizers: ids, or an error that names the file", () => {
  const tokenizers = new TokenizerFuzzer();
  for (const seed of seedsOf("tokenizers", NUM_TOKENIZERS)) assert.equal(tokenizers.try(seed), null, `seed ${seed}`);
});

test("a cluster's entries and messages: understood or dropped", () => {
  const entries = new EntryFuzzer();
  for (const seed of seedsOf("entries", NUM_ENTRIES)) assert.equal(entries.try(seed), null, `seed ${seed}`);
});

const folders = new FolderFuzzer();
after(() => folders.close());
test("model folders of pipes, links and folders: a model, or an error of ours", () => {
  for (const seed of seedsOf("folders", NUM_FOLDERS)) assert.equal(folders.try(seed), null, `seed ${seed}`);
});

const cpu = await openCpu();
cpu.device?.close();
test("broken weights: answers that end, of tokens that there are, or an error of ours", {
  skip: cpu.reason,
}, async () => {
  const weights = new WeightFuzzer();
  for (const seed of seedsOf("weights", NUM_WEIGHTS)) assert.equal(await weights.try(seed), null, `seed ${seed}`);
});

test("guesses: the answers without them, and every page back", async () => {
  const guesses = new GuessFuzzer();
  for (const seed of seedsOf("guesses", NUM_GUESSES)) assert.equal(await guesses.try(seed), null, `seed ${seed}`);
});
