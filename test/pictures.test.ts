// Prompts with pictures, in the engine: a tower gives the rows when a chunk needs them. The answers are those of the goldens, to the same bits
// alone, batched, in chunks, from the cache, after a preemption, in forks, from disk and from another engine.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { blake2s } from "../src/cache/page-hash.js";
import { type EngineConfig, engineConfig } from "../src/config/engine-config.js";
import type { PictureMedium } from "../src/core/media.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../src/core/sampling.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { type LoadedEngine, loadEngine } from "../src/engine/core/load/load.js";
import type { AddMessage } from "../src/engine/messages.js";
import { tokenGrid } from "../src/models/vision/vision-model.js";
import { decodePicture } from "../src/vision/decode.js";
import { type Frame, openProcessor } from "../src/vision/processor.js";
import { openCpu, roundsToBf16 } from "./support/cpu.js";
import { outputsOf } from "./support/outputs.js";
import { UnblockingDevice } from "./support/unblocking-device.js";

const OWN = "test/goldens-vision";
const SHARED = "../shared/goldens-vision";
const LIMITS = { maxBytes: 2 ** 24, maxPixels: 2 ** 24 };
const folder = mkdtempSync(join(tmpdir(), "pagoda-pictures-"));
after(() => rmSync(folder, { recursive: true }));
const cpu = await openCpu();
cpu.device?.close();
/** Tiles of AMX round activations, and so may choose another token than the golden's; goldens.test.ts has the exact kernels. */
const isExact = !roundsToBf16(cpu.device);

type DeviceName = "reference" | "cpu" | "unblocking";

interface Golden {
  readonly prompt: readonly number[];
  readonly images: readonly string[];
  readonly greedy: readonly number[];
}

const goldensOf = (model: string): Golden[] => {
  const goldens = JSON.parse(readFileSync(join(model, "golden.json"), "utf8"));
  return goldens.cases ?? goldens;
};

async function openEngine(model: string, device: DeviceName, options: Partial<EngineConfig> = {}) {
  const isUnblocking = device === "unblocking";
  const name = isUnblocking ? "reference" : device;
  const config = engineConfig({ model, device: name, kvDtype: "f32", threads: 2, numPages: 200, ...options });
  return loadEngine(config, () => {}, isUnblocking ? async () => new UnblockingDevice() : openDevice);
}

async function framesOf(model: string, names: readonly string[], change?: (frame: Frame) => Frame): Promise<Frame[]> {
  const { raw, file } = openCheckpoint(model).processor!;
  const processor = openProcessor(raw, file);
  const frames: Frame[] = [];
  for (const name of names)
    frames.push(...processor.prepare(await decodePicture(readFileSync(join(model, name)), LIMITS)).frames);
  return change === undefined ? frames : frames.map(change);
}

/** Of the runs of placeholder tokens in the prompt. */
function mediaOf({ facts }: LoadedEngine, prompt: readonly number[], frames: readonly Frame[]): PictureMedium[] {
  const { vision } = facts;
  let at = 0;
  return frames.map((frame) => {
    const grid = tokenGrid(vision!, frame);
    const start = prompt.indexOf(vision!.imageToken, at);
    at = start + grid.rows * grid.columns;
    const id = blake2s(new Uint8Array(frame.pixels.slice().buffer), 16, new Int32Array(4));
    const given = { start, end: at, id, picture: { id, frame }, first: 0, isWhole: vision!.isWhole };
    return vision!.hasGrid ? { ...given, grid } : given;
  });
}

interface Call extends Partial<Pick<AddMessage, "prompt" | "media" | "priority" | "salt">> {
  readonly sampling?: Partial<SamplingParams>;
}
type Answers = Map<string, { tokens: number[]; rest: unknown[]; cached: number; preemptions: number }>;

async function ask({ core }: LoadedEngine, calls: Readonly<Record<string, Call>>): Promise<Answers> {
  for (const [callId, { sampling, ...call }] of Object.entries(calls)) {
    core.add({
      ...{ type: "add", callId, kind: "generate", prompt: new Int32Array(0), priority: 0, salt: "", arrivalMs: 0 },
      ...{ constraint: null, ...call },
      sampling: {
        ...SAMPLING_DEFAULTS,
        temperature: 0,
        maxTokens: 8,
        logprobs: 5,
        seed: 3,
        ignoreEos: true,
        ...sampling,
      },
    });
  }
  const answers: Answers = new Map();
  while (core.hasWork) {
    await core.stepAsync();
    core.checkIntegrity();
    for (const { callId, index, tokens, logprobs, error, trace } of outputsOf(core)) {
      assert.equal(error, null);
      const key = `${callId}#${index}`;
      const answer = answers.get(key) ?? { tokens: [], rest: [], cached: 0, preemptions: 0 };
      answer.tokens.push(...tokens);
      answer.rest.push(...(logprobs ?? []));
      if (trace !== null) Object.assign(answer, { cached: trace.cachedTokens, preemptions: trace.preemptions });
      answers.set(key, answer);
    }
  }
  assert.equal(core.stats().pagesUsed, 0);
  return answers;
}

const bitsOf = (answers: Answers, key = "a#0") => {
  const { tokens, rest } = answers.get(key)!;
  return { tokens, rest };
};

for (const place of [OWN, SHARED]) {
  for (const name of existsSync(place) ? readdirSync(place) : []) {
    const model = join(place, name);
    test(`${model}: the engine gives the golden tokens, batched as alone`, async () => {
      const engine = await openEngine(model, cpu.reason ? "reference" : "cpu");
      const calls: Record<string, Call> = {};
      const goldens = goldensOf(model);
      for (const [i, { prompt, images, greedy }] of goldens.entries()) {
        const media = mediaOf(engine, prompt, await framesOf(model, images));
        calls[`c${i}`] = { prompt: Int32Array.from(prompt), media, sampling: { maxTokens: greedy.length } };
      }
      const alone: Answers = new Map();
      for (const [key, call] of Object.entries(calls))
        for (const [id, answer] of await ask(engine, { [key]: call })) alone.set(id, answer);
      for (const [i, { greedy }] of isExact ? goldens.entries() : [])
        assert.deepEqual(alone.get(`c${i}#0`)!.tokens, greedy, `case ${i}`);
      engine.core.close();
      const small = await openEngine(model, cpu.reason ? "reference" : "cpu", { prefixCaching: false, idealChunk: 16 });
      const together = await ask(small, calls);
      for (const key of alone.keys()) assert.deepEqual(bitsOf(together, key), bitsOf(alone, key), key);
      small.core.close();
    });
  }
}

/** Deepstack rows and positions on three axes; two pictures. */
const MODEL = join(OWN, "qwen3vl");
/** Of the golden with two pictures, and text before it to fill pages. */
async function question(
  engine: LoadedEngine,
  change?: (frame: Frame) => Frame,
): Promise<{ prompt: Int32Array; media: PictureMedium[] }> {
  const { prompt, images } = goldensOf(MODEL)[2]!;
  const long = [
    ...Array.from({ length: 20 }, (_, i) => 20 + i),
    ...prompt,
    ...Array.from({ length: 30 }, (_, i) => 60 + i),
  ];
  const media = mediaOf(engine, long, await framesOf(MODEL, images, change));
  return { prompt: Int32Array.from(long), media };
}

const onePixel = (frame: Frame): Frame => ({ ...frame, pixels: frame.pixels.with(frame.pixels.length - 1, 0.5) });

for (const device of ["reference", "cpu", "unblocking"] as const) {
  const skip = device === "cpu" ? cpu.reason : false;
  let alone: Answers;

  test(`${device}: the second question computes neither tower nor prefix; one pixel or another tenant shares nothing`, {
    skip,
  }, async () => {
    const engine = await openEngine(MODEL, device);
    const { core } = engine;
    const call = await question(engine);
    const first = call.media[0]!.start;
    alone = await ask(engine, { a: call });
    assert.deepEqual([core.stats().pictures.encoded, core.stats().pictures.reused], [2, 0]);
    const again = await ask(engine, { a: call });
    assert.deepEqual(bitsOf(again), bitsOf(alone));
    assert.equal(again.get("a#0")!.cached, (call.prompt.length - 1) & ~15);
    assert.deepEqual([core.stats().pictures.encoded, core.stats().pictures.reused], [2, 0], "no rows were needed");
    const tenant = await ask(engine, { a: { ...call, salt: "other" } });
    assert.deepEqual([bitsOf(tenant), tenant.get("a#0")!.cached], [bitsOf(alone), 0]);
    assert.equal(core.stats().pictures.encoded, 4, "tenants do not share rows either: it could be told from the time");
    const other = await question(engine, onePixel);
    const changed = await ask(engine, { a: other });
    assert.equal(changed.get("a#0")!.cached, first & ~15, "the text before the first picture");
    assert.notDeepEqual(bitsOf(changed), bitsOf(alone));
    assert.deepEqual(bitsOf(changed), bitsOf(await ask(await openEngine(MODEL, device), { a: other })));
    core.close();
  });

  test(`${device}: batched, in chunks, without memory for rows`, { skip }, async () => {
    for (const options of [
      {},
      { idealChunk: 16, imageMemory: 0 },
      { idealChunk: 32, maxPagesPerBatch: 3 },
      { mode: "chunked", fixedChunk: 16 },
    ] as const) {
      const engine = await openEngine(MODEL, device, { ...options, prefixCaching: false });
      const call = await question(engine);
      const other = await question(engine, onePixel);
      const text = { prompt: Int32Array.from({ length: 70 }, (_, i) => 20 + i) };
      const answers = await ask(engine, { p: text, a: call, b: other, c: call, q: text });
      assert.deepEqual(bitsOf(answers), bitsOf(alone), JSON.stringify(options));
      assert.deepEqual(bitsOf(answers, "c#0"), bitsOf(alone));
      assert.deepEqual(bitsOf(answers, "p#0"), bitsOf(answers, "q#0"));
      assert.equal((await ask(engine, { a: call })).get("a#0")!.tokens.length, 8);
      const { encoded, bytes } = engine.core.stats().pictures;
      if ("imageMemory" in options) assert.ok(encoded > 4, "encoded again");
      else assert.deepEqual([encoded, bytes > 0], [4, true]);
      engine.core.close();
    }
  });

  test(`${device}: preempted, forked, from disk and from another engine`, { skip }, async () => {
    const tight = await openEngine(MODEL, device, { numPages: 1 + 11, imageMemory: 0 });
    const call = await question(tight);
    const rival = { ...(await question(tight, onePixel)), priority: -1, sampling: { maxTokens: 40 } };
    const squeezed = await ask(tight, { rival, a: { ...call, sampling: { maxTokens: 40 } } });
    assert.ok(squeezed.get("a#0")!.preemptions > 0, "nothing was preempted");
    assert.deepEqual(squeezed.get("a#0")!.tokens.slice(0, 8), alone.get("a#0")!.tokens);
    tight.core.close();
    const cacheDir = join(folder, device);
    const store = device === "unblocking" ? {} : { cacheDir };
    const before = await openEngine(MODEL, device, store);
    const forked = await ask(before, { a: { ...call, sampling: { n: 3 } } });
    for (let i = 0; i < 3; i++) assert.deepEqual(bitsOf(forked, `a#${i}`), bitsOf(alone), `sample ${i}`);
    assert.equal(before.core.stats().pictures.encoded, 2);
    before.store?.save();
    const lent = before.exchange?.lend(call.prompt, "", 0, 1e9, call.media);
    before.core.close();
    if (lent === undefined || device === "unblocking") return;
    const later = await openEngine(MODEL, device, store);
    const taker = await openEngine(MODEL, device);
    assert.equal(taker.exchange!.take(call.prompt, "", lent, call.media).reason, null);
    for (const engine of [later, taker]) {
      const found = await ask(engine, { a: call });
      assert.deepEqual(bitsOf(found), bitsOf(alone));
      assert.equal(found.get("a#0")!.cached, (call.prompt.length - 1) & ~15);
      assert.equal(engine.core.stats().pictures.encoded, 0, "nor its tower");
      const changed = await ask(engine, { a: await question(engine, onePixel) });
      assert.equal(changed.get("a#0")!.cached, call.media[0]!.start & ~15);
      const tenant = await ask(engine, { a: { ...call, salt: "other" } });
      assert.deepEqual([bitsOf(tenant), tenant.get("a#0")!.cached], [bitsOf(alone), 0], "nor another tenant's page");
      engine.core.close();
    }
  });
}

const COMMON = { type: "add", kind: "generate", priority: 0, salt: "", arrivalMs: 0, constraint: null } as const;

test("a large picture lets steps of text go between its layers, and who leaves takes its turn along", async () => {
  const engine = await openEngine(MODEL, "reference", { targetStepMs: 1 });
  const { core } = engine;
  const call = await question(engine);
  const sampling = { ...SAMPLING_DEFAULTS, temperature: 0, maxTokens: 40, seed: 3, ignoreEos: true };
  const common = { ...COMMON, sampling };
  core.add({ ...common, callId: "text", prompt: Int32Array.of(20, 21, 22) });
  core.add({ ...common, callId: "seen", ...call });
  core.add({ ...common, callId: "gone", ...(await question(engine, onePixel)) });
  const order: string[] = [];
  for (let step = 0; core.hasWork; step++) {
    await core.stepAsync();
    if (step === 1) core.abort("gone", -1);
    for (const { callId, tokens } of outputsOf(core)) if (tokens.length > 0) order.push(callId);
  }
  assert.ok(order.indexOf("seen") > 4, "several tokens came before the picture was seen");
  assert.deepEqual(core.stats().pictures, { ...core.stats().pictures, encoded: 2, waiting: 0 });
  core.close();
});

test("a picture that the tower cannot take ends its request alone", async () => {
  const engine = await openEngine(MODEL, "reference");
  const { core } = engine;
  const call = await question(engine);
  const [first, second] = call.media;
  const broken = {
    ...first!,
    picture: { id: Int32Array.of(1, 2, 3, 4), frame: { ...first!.picture.frame, pixels: null! } },
  };
  const sampling = { ...SAMPLING_DEFAULTS, temperature: 0, maxTokens: 8, logprobs: 5, seed: 3, ignoreEos: true };
  const common = { ...COMMON, sampling };
  core.add({
    ...common,
    callId: "broken",
    prompt: call.prompt,
    media: [{ ...broken, id: Int32Array.of(1, 2, 3, 4) }, second!],
  });
  core.add({ ...common, callId: "fine", ...call });
  const tokens: number[] = [];
  const errors: string[] = [];
  while (core.hasWork) {
    await core.stepAsync();
    core.checkIntegrity();
    for (const output of outputsOf(core)) {
      if (output.error !== null) errors.push(`${output.callId} ${output.error.code}`);
      else if (output.callId === "fine") tokens.push(...output.tokens);
    }
  }
  assert.deepEqual(errors, ["broken step_failed"]);
  assert.deepEqual(tokens, (await ask(engine, { a: call })).get("a#0")!.tokens);
  core.close();
});
