// Prompts with media: rows in the place of embeddings give the same bits alone, batched, in chunks, from the cache, after a preemption, in forks,
// from disk and from another engine; media that differ in one number share no page. No encoder is needed: the rows are random.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { blake2s } from "../src/cache/page-hash.js";
import { type EngineConfig, engineConfig } from "../src/config/engine-config.js";
import type { Medium } from "../src/core/media.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../src/core/sampling.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { type LoadedEngine, loadEngine } from "../src/engine/core/load/load.js";
import type { AddMessage } from "../src/engine/messages.js";
import { numbers } from "./contract/inputs.js";
import { openCpu } from "./support/cpu.js";
import { outputsOf, type RequestOutput } from "./support/outputs.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { UnblockingDevice } from "./support/unblocking-device.js";

const HIDDEN = 48;
const LENGTH = 150;
const PLACEHOLDER = 9;
const model = writeTinyCheckpoint();
const folder = mkdtempSync(join(tmpdir(), "pagoda-media-"));
after(() => rmSync(folder, { recursive: true }));
const cpu = await openCpu();
cpu.device?.close();

type DeviceName = "reference" | "cpu" | "wasm" | "unblocking";

function mediumOf(start: number, end: number, rows: Float32Array): Medium {
  return { start, end, rows, id: blake2s(new Uint8Array(rows.buffer), 16, new Int32Array(4)) };
}

/** One within pages, one across several of them. */
const MEDIA = [mediumOf(20, 26, numbers(6 * HIDDEN, 1)), mediumOf(60, 117, numbers(57 * HIDDEN, 2))];
const PROMPT = promptWith(MEDIA);
/** The second differs in one number, at its end. */
const OTHERS = [MEDIA[0]!, mediumOf(60, 117, MEDIA[1]!.rows.with(57 * HIDDEN - 1, 0.25))];

function promptWith(media: readonly Medium[]): Int32Array {
  return Int32Array.from({ length: LENGTH }, (_, i) =>
    media.some(({ start, end }) => i >= start && i < end) ? PLACEHOLDER : (i * 7) % 250,
  );
}

async function openEngine(device: DeviceName, options: Partial<EngineConfig> = {}): Promise<LoadedEngine> {
  const isUnblocking = device === "unblocking";
  const name = isUnblocking ? "reference" : device;
  const config = engineConfig({ model, device: name, kvDtype: "f32", threads: 2, numPages: 100, ...options });
  return loadEngine(config, () => {}, isUnblocking ? async () => new UnblockingDevice() : openDevice);
}

interface Call extends Partial<Pick<AddMessage, "kind" | "pooling" | "priority" | "prompt" | "media">> {
  readonly sampling?: Partial<SamplingParams>;
}

/** What each sample of each call got, in bits: tokens, log-probabilities, vectors. */
type Answers = Map<string, { tokens: number[]; rest: unknown[]; cached: number; preemptions: number }>;

async function ask({ core }: LoadedEngine, calls: Readonly<Record<string, Call>>): Promise<Answers> {
  for (const [callId, { sampling, ...call }] of Object.entries(calls)) {
    core.add({
      ...{ type: "add", callId, kind: "generate", prompt: PROMPT, media: MEDIA, priority: 0, salt: "", arrivalMs: 0 },
      ...{ constraint: null, ...call },
      sampling: {
        ...{ ...SAMPLING_DEFAULTS, temperature: 1.3, maxTokens: 12, logprobs: 5, seed: 3, ignoreEos: true },
        ...sampling,
      },
    });
  }
  const answers: Answers = new Map();
  while (core.hasWork) {
    await core.stepAsync();
    core.checkIntegrity();
    for (const output of outputsOf(core)) take(answers, output);
  }
  assert.equal(core.stats().pagesUsed, 0);
  return answers;
}

function take(
  answers: Answers,
  { callId, index, tokens, logprobs, vector, promptLogprobs, error, trace }: RequestOutput,
) {
  assert.equal(error, null);
  const key = `${callId}#${index}`;
  const answer = answers.get(key) ?? { tokens: [], rest: [], cached: 0, preemptions: 0 };
  answer.tokens.push(...tokens);
  answer.rest.push(...(logprobs ?? []), ...(promptLogprobs ?? []), ...(vector === null ? [] : [vector]));
  if (trace !== null) answer.cached = trace.cachedTokens;
  if (trace !== null) answer.preemptions = trace.preemptions;
  answers.set(key, answer);
}

const bitsOf = (answers: Answers, key = "a#0") => {
  const { tokens, rest } = answers.get(key)!;
  return { tokens, rest };
};

const EVERYTHING: Readonly<Record<string, Call>> = {
  a: {},
  scored: { sampling: { promptLogprobs: 2 } },
  last: { kind: "pool", pooling: "last" },
  mean: { kind: "pool", pooling: "mean" },
};

for (const device of ["reference", "cpu", "wasm", "unblocking"] as const) {
  const skip = device === "cpu" ? cpu.reason : false;
  const alone: Answers = new Map();

  test(`${device}: alone, and again from the cache; other media find what comes before them`, { skip }, async () => {
    const engine = await openEngine(device);
    for (const [name, call] of Object.entries(EVERYTHING))
      for (const [key, answer] of await ask(await openEngine(device, { prefixCaching: false }), { [name]: call }))
        alone.set(key, answer);
    for (const numCached of [0, 144]) {
      const answers = await ask(engine, { a: {} });
      assert.deepEqual([bitsOf(answers), answers.get("a#0")!.cached], [bitsOf(alone), numCached]);
    }
    const others = await ask(engine, { a: { media: OTHERS } });
    assert.equal(others.get("a#0")!.cached, 48);
    assert.notDeepEqual(bitsOf(others), bitsOf(alone));
    assert.deepEqual(bitsOf(await ask(engine, { a: {} })), bitsOf(alone), "and take nothing from each other");
    assert.equal((await ask(engine, { a: { media: [] } })).get("a#0")!.cached, 16);
    const first = await ask(await openEngine(device), { a: { media: OTHERS } });
    assert.deepEqual(bitsOf(others), bitsOf(first));
    engine.core.close();
  });

  test(`${device}: batched with others of the same tokens, in chunks of all sizes`, { skip }, async () => {
    for (const options of [
      {},
      { idealChunk: 16 },
      { idealChunk: 48, maxPagesPerBatch: 4 },
      { mode: "chunked" },
    ] as const) {
      const engine = await openEngine(device, { ...options, prefixCaching: false });
      const plain = { media: [], sampling: { seed: 8 } };
      const answers = await ask(engine, { p: plain, ...EVERYTHING, q: { media: OTHERS }, r: plain });
      for (const key of alone.keys())
        assert.deepEqual(bitsOf(answers, key), bitsOf(alone, key), `${key} with ${JSON.stringify(options)}`);
      engine.core.close();
    }
  });

  test(`${device}: preempted and resumed`, { skip }, async () => {
    const engine = await openEngine(device, { numPages: 1 + 2 * 11 });
    const longer = { sampling: { maxTokens: 52 } };
    const prompt = PROMPT.with(0, 77);
    const answers = await ask(engine, { rival: { ...longer, prompt, media: OTHERS, priority: -1 }, a: longer });
    const { tokens, preemptions } = answers.get("a#0")!;
    assert.ok(preemptions > 0, "nothing was preempted");
    assert.deepEqual(tokens.slice(0, 12), alone.get("a#0")!.tokens);
    engine.core.close();
  });

  test(`${device}: forked into four samples, and the same without room to fork`, { skip }, async () => {
    const forked = { a: { sampling: { n: 4 } } };
    const roomy = await ask(await openEngine(device), forked);
    assert.deepEqual(bitsOf(roomy), bitsOf(alone));
    const tight = await ask(await openEngine(device, { numPages: 1 + Math.ceil((LENGTH + 12) / 16) + 1 }), forked);
    for (let i = 0; i < 4; i++) assert.deepEqual(bitsOf(tight, `a#${i}`), bitsOf(roomy, `a#${i}`));
  });

  test(`${device}: from disk, and from another engine`, { skip: skip || device === "unblocking" }, async () => {
    const cacheDir = join(folder, device);
    const before = await openEngine(device, { cacheDir });
    await ask(before, { a: {} });
    before.store!.save();
    const lent = before.exchange!.lend(PROMPT, "", 0, 1e9, MEDIA);
    assert.ok(
      before.exchange!.lend(PROMPT, "", 0, 1e9).length < lent.length / 4,
      "without media: the pages before them",
    );
    before.core.close();
    const after = await openEngine(device, { cacheDir });
    const taker = await openEngine(device);
    assert.deepEqual(taker.exchange!.take(PROMPT, "", lent, MEDIA), { numTaken: 9, reason: null });
    for (const engine of [after, taker]) {
      assert.equal((await ask(engine, { a: { media: OTHERS } })).get("a#0")!.cached, 48);
      const answers = await ask(engine, { a: {} });
      assert.deepEqual([bitsOf(answers), answers.get("a#0")!.cached], [bitsOf(alone), 144]);
      engine.core.close();
    }
  });
}

for (const device of ["reference", "cpu", "unblocking"] as const) {
  test(`${device}: media whose tokens see each other are never cut`, {
    skip: device === "cpu" && cpu.reason,
  }, async () => {
    const media = MEDIA.map((medium) => ({ ...medium, isWhole: true }));
    const calls = Object.fromEntries(Object.entries(EVERYTHING).map(([name, call]) => [name, { ...call, media }]));
    const alone = await ask(await openEngine(device, { prefixCaching: false }), calls);
    const causal = await ask(await openEngine(device), { mean: EVERYTHING.mean! });
    assert.notDeepEqual(bitsOf(alone, "mean#0"), bitsOf(causal, "mean#0"));
    // 80 tokens lie between the page boundaries around the second.
    for (const options of [
      { idealChunk: 80 },
      { idealChunk: 96, maxPagesPerBatch: 7 },
      { mode: "chunked", fixedChunk: 80 },
    ] as const) {
      const engine = await openEngine(device, { ...options, prefixCaching: false });
      const answers = await ask(engine, { p: { media: [] }, ...calls, q: { media: OTHERS } });
      for (const key of alone.keys())
        assert.deepEqual(bitsOf(answers, key), bitsOf(alone, key), `${key} with ${JSON.stringify(options)}`);
    }
    const engine = await openEngine(device, { idealChunk: 80 });
    assert.equal((await ask(engine, { a: {} })).get("a#0")!.cached, 0);
    // A prefix that ends inside it was computed with all of it.
    const before = await ask(engine, { a: { media, prompt: PROMPT.slice(0, 118) } });
    assert.equal(before.get("a#0")!.cached, 16, "nothing of the media that see back only");
    const answers = await ask(engine, { a: { media } });
    assert.deepEqual([bitsOf(answers), answers.get("a#0")!.cached], [bitsOf(alone), 112]);
    const small = await openEngine(device, { idealChunk: 64 });
    const { core } = small;
    core.add({
      ...{ type: "add", callId: "w", kind: "generate", prompt: PROMPT, media, priority: 0, salt: "", arrivalMs: 0 },
      ...{ constraint: null, sampling: { ...SAMPLING_DEFAULTS, maxTokens: 1, seed: 0 } },
    });
    const { code, details } = outputsOf(core)[0]!.error!;
    assert.deepEqual([code, details.param, details.value], ["invalid_value", "media", 80]);
  });
}

test("rows that are the embeddings of tokens give what those tokens give", async () => {
  const source = openCheckpoint(model).openTensors();
  const table = new Float32Array(Uint8Array.from(source.get("model.embed_tokens.weight").bytes()).buffer);
  source.close();
  const prompt = promptWith([]);
  const media = MEDIA.map(({ start, end }) => {
    const rows = Array.from(prompt.subarray(start, end), (id) => [...table.subarray(id * HIDDEN, (id + 1) * HIDDEN)]);
    return mediumOf(start, end, Float32Array.from(rows.flat()));
  });
  const engine = await openEngine("reference", { idealChunk: 32 });
  const answers = await ask(engine, { plain: { prompt, media: [] }, a: { media } });
  assert.deepEqual(bitsOf(answers), bitsOf(answers, "plain#0"));
});

test("media that overlap, leave the prompt or lack rows are refused by name, and nobody else is harmed", async () => {
  const { core } = await openEngine("reference");
  const rows = numbers(6 * HIDDEN, 1);
  const wrong: [string, readonly Medium[]][] = [
    ["media[0]", [mediumOf(-1, 5, rows)]],
    ["media[0]", [mediumOf(5, 5, new Float32Array(0))]],
    ["media[0]", [mediumOf(LENGTH - 5, LENGTH + 1, rows)]],
    ["media[1]", [mediumOf(20, 26, rows), mediumOf(25, 31, rows)]],
    ["media[0].rows", [mediumOf(20, 25, rows)]],
    ["media[0].id", [{ ...mediumOf(20, 26, rows), id: new Int32Array(3) }]],
  ];
  for (const [param, media] of wrong) {
    core.add({
      ...{ type: "add", callId: "w", kind: "generate", prompt: PROMPT, media, priority: 0, salt: "", arrivalMs: 0 },
      ...{ constraint: null, sampling: { ...SAMPLING_DEFAULTS, maxTokens: 1, seed: 0 } },
    });
    const [output] = outputsOf(core);
    assert.deepEqual([output!.error!.code, output!.error!.details.param], ["invalid_value", param]);
  }
  assert.equal(core.hasWork, false);
});
