// Requests with adapters: each gets the bits it gets alone, whatever runs beside it, and two adapters never share a page. Adapters come and go
// within their budget; what is wrong with one harms nobody else.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import type { Drafter } from "../src/drafter/drafter.js";
import { createEngine } from "../src/engine/client/engine.js";
import { HostedEngine } from "../src/engine/client/hosted-engine.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { type LoadedEngine, loadEngine } from "../src/engine/core/load/load.js";
import type { Engine } from "../src/engine/types.js";
import { oracleDrafter } from "./support/drafters.js";
import { runToEnd, type WholeAnswer } from "./support/outputs.js";
import { writeTinyAdapter } from "./support/tiny-adapter.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { UnblockingDevice } from "./support/unblocking-device.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-adapters-"));
after(() => rmSync(folder, { recursive: true }));
const model = writeTinyCheckpoint();
const KINDS: readonly (readonly [RegExp, number])[] = [
  [/./, 4],
  [/q_proj|v_proj/, 8],
  [/mlp/, 3],
  [/lm_head/, 16],
  [/./, 17],
];
const paths = KINDS.map(([wanted, rank], seed) => writeTinyAdapter({ seed, rank, wanted }, folder));

// --- invariance -------------------------------------------------------------------------------------------------------

const NUM_REQUESTS = 12;
const SAMPLING = { ...SAMPLING_DEFAULTS, temperature: 1.1, ignoreEos: true, maxTokens: 14, logprobs: 2 };

/** Adds requests (all prompts begin alike; every fourth has two samples) and runs until all have ended. */
async function answersOf(
  { core, adapters }: LoadedEngine,
  which: readonly number[],
): Promise<Map<string, WholeAnswer>> {
  for (const i of which) {
    const adapter = i % 6;
    const ref = { name: `a${adapter}`, path: paths[adapter - 1]!, scale: 1, isPinned: false };
    const held = adapter === 0 ? null : await adapters.acquire(ref);
    const prompt = Int32Array.from({ length: 40 + 3 * i }, (_, at) => (at < 32 ? at : at * 7 + i) % 250);
    const sampling = { ...SAMPLING, seed: i, n: i % 4 === 3 ? 2 : 1 };
    const own = { type: "add", callId: `c${i}`, kind: "generate", constraint: null } as const;
    core.add({ ...own, prompt, sampling, priority: 0, salt: "", arrivalMs: 0 }, null, held);
  }
  const answers = await runToEnd(core);
  assert.ok(adapters.stats().adapters.every(({ users }) => users === 0));
  return answers;
}

async function load(
  device: string,
  more: Record<string, unknown>,
  drafter: Drafter | null = null,
): Promise<LoadedEngine> {
  const isUnblocking = device === "unblocking";
  const name = isUnblocking ? "reference" : device;
  const config = engineConfig({
    model,
    device: name,
    threads: 2,
    numPages: 150,
    pageSize: 4,
    maxPagesPerBatch: 40,
    ...more,
  });
  return loadEngine(config, () => {}, isUnblocking ? async () => new UnblockingDevice() : openDevice, drafter);
}

const ALL = Array.from({ length: NUM_REQUESTS }, (_, i) => i);
for (const device of ["reference", "cpu", "unblocking"]) {
  test(`${device}: 12 requests with 5 adapters and none get the bits of each alone`, async () => {
    const alone = new Map<string, WholeAnswer>();
    const single = await load(device, { prefixCaching: false });
    for (const i of ALL) for (const [key, answer] of await answersOf(single, [i])) alone.set(key, answer);
    single.core.close();
    assert.equal(new Set(ALL.slice(0, 6).map((i) => alone.get(`c${i}#0`)!.tokens.join())).size, 6, "adapters differ");
    const mixes = { together: {}, chunked: { maxPagesPerBatch: 5, idealChunk: 8 }, "little room": { numPages: 60 } };
    for (const [what, more] of Object.entries(mixes)) {
      const engine = await load(device, more);
      assert.deepEqual(await answersOf(engine, ALL), alone, what);
      if (what === "little room") assert.ok(engine.core.stats().preemptions > 0, "some were preempted");
      const { cachedTokens } = engine.core.stats();
      assert.deepEqual(await answersOf(engine, [...ALL].reverse()), alone, `${what}, again from the cache`);
      assert.ok(engine.core.stats().cachedTokens > cachedTokens, what);
      engine.core.close();
    }
    const answerOf = (id: string) => alone.get(id.includes("#") ? id : `${id}#0`)?.tokens;
    const drafted = await load(
      device,
      {},
      oracleDrafter(5, 250, 0.7, ({ id }) => answerOf(id)),
    );
    assert.deepEqual(await answersOf(drafted, ALL), alone, "speculated");
    assert.ok(drafted.core.recorder.numAccepted > 20);
    drafted.core.close();
  });
}

// --- through the engine -------------------------------------------------------------------------------------------------

const PROMPT = Array.from({ length: 50 }, (_, at) => (at * 3) % 250);
const ask = async (engine: Engine, adapter?: string | { name: string; scale?: number }, salt = "") => {
  const chosen = adapter === undefined ? {} : { adapter };
  const { samples, trace } = await engine
    .generate(PROMPT, { temperature: 0, maxTokens: 8, ignoreEos: true, salt, ...chosen })
    .result();
  return { tokens: samples[0]!.tokenIds, cached: trace.cachedTokens };
};

test("a request chooses an adapter by name; two adapters, or one and none, never share pages", async () => {
  await using engine = await createEngine({ model, device: "reference", adapter: [`one=${paths[0]}`] });
  await engine.loadAdapter("five", paths[4]!, { pin: true });
  assert.deepEqual(
    engine.adapters.map(({ name, path, isPinned, maxRank }) => [name, path, isPinned, maxRank]),
    [
      ["one", paths[0], false, 4],
      ["five", paths[4], true, 17],
    ],
  );
  const first = [
    await ask(engine),
    await ask(engine, "one"),
    await ask(engine, "five"),
    await ask(engine, "one", "salt"),
  ];
  assert.deepEqual(
    first.map(({ cached }) => cached),
    [0, 0, 0, 0],
  );
  assert.deepEqual(first[3]!.tokens, first[1]!.tokens);
  assert.equal(new Set(first.slice(0, 3).map(({ tokens }) => tokens.join())).size, 3);
  for (const [i, adapter] of [undefined, "one", "five"].entries()) {
    assert.deepEqual(await ask(engine, adapter), { tokens: first[i]!.tokens, cached: 48 });
  }
  // Scaled by nothing it is the base; the pages are its own all the same.
  assert.deepEqual(await ask(engine, { name: "one", scale: 0 }), first[0]);
  await assert.rejects(engine.loadAdapter("one", paths[1]!), { code: "adapter_taken" });
  await assert.rejects(engine.generate(PROMPT, { adapter: "two" }).result(), {
    code: "adapter_unknown",
    param: "adapter",
  });
  await assert.rejects(engine.generate(PROMPT, { adapter: { name: "one", scale: Number.NaN } }).result(), {
    param: "adapter.scale",
  });

  await engine.unloadAdapter("one");
  await assert.rejects(engine.unloadAdapter("one"), { code: "adapter_unknown" });
  await assert.rejects(engine.generate(PROMPT, { adapter: "one" }).result(), { code: "adapter_unknown" });
  assert.deepEqual(
    (await engine.stats()).adapters.map(({ name, isLoaded }) => [name, isLoaded]),
    [["five", true]],
  );
  // Another of the same name has pages of its own.
  await engine.loadAdapter("one", paths[1]!);
  const other = await ask(engine, "one");
  assert.equal(other.cached, 0);
  assert.notDeepEqual(other.tokens, first[1]!.tokens);
});

test("an adapter that is unloaded while requests have it stays until they end", async () => {
  await using engine = await createEngine({ model, device: "reference", worker: false, adapter: [`one=${paths[0]}`] });
  const { tokens } = await ask(engine, "one");
  const running = ask(engine, "one", "other");
  await engine.unloadAdapter("one");
  assert.deepEqual((await running).tokens, tokens);
  assert.deepEqual((await engine.stats()).adapters, []);
});

test("a thread that is started again loads the adapters its requests need", async () => {
  const config = engineConfig({ model, device: "reference" });
  await using engine = new HostedEngine(config, null);
  await engine.ready;
  await engine.loadAdapter("one", paths[0]!, { pin: true });
  const { tokens } = await ask(engine, "one");
  engine.injectFault("thread");
  assert.deepEqual((await ask(engine, "one")).tokens, tokens);
  assert.equal(engine.health().restarts, 1);
  assert.deepEqual(
    (await engine.stats()).adapters.map(({ isPinned }) => isPinned),
    [true],
  );
});

// --- memory and faults --------------------------------------------------------------------------------------------------

test("adapters that do not fit together take turns; nothing is lost, and the budget holds", async () => {
  const numAdapters = 200; // room for eleven
  const rank = 20;
  const many = Array.from({ length: numAdapters }, (_, i) =>
    writeTinyAdapter({ seed: 100 + i, rank, wanted: /mlp|lm_head/, size: 0.2 }, folder),
  );
  await using engine = await createEngine({ model, device: "reference", adapterMemory: 1, worker: false });
  const alone: unknown[] = [];
  for (const [i, path] of many.entries()) {
    const { byteLength } = await engine.loadAdapter(`m${i}`, path, { pin: i === 0 });
    assert.equal(Math.floor(2 ** 20 / byteLength), 11);
    if (i < 8) alone.push((await ask(engine, `m${i}`)).tokens);
  }
  let mostBytes = 0;
  const watch = async (): Promise<void> => {
    const { adapters } = await engine.stats();
    mostBytes = Math.max(
      mostBytes,
      adapters.reduce((sum, { byteLength }) => sum + byteLength, 0),
    );
  };
  const base = await ask(engine);
  const asked = Array.from({ length: numAdapters + 40 }, async (_, i) => {
    const found = await ask(engine, `m${i % numAdapters}`, `s${i}`);
    await watch();
    return found.tokens;
  });
  // Nobody waits for others' adapters.
  assert.deepEqual((await ask(engine)).tokens, base.tokens);
  const found = await Promise.all(asked);
  for (const [i, tokens] of found.entries()) {
    if (i % numAdapters < 8) assert.deepEqual(tokens, alone[i % numAdapters], `request ${i}`);
  }
  assert.ok(mostBytes > 2 ** 19 && mostBytes <= 2 ** 20, `${mostBytes} bytes at most`);
  const pinned = (await engine.stats()).adapters.find(({ isPinned }) => isPinned);
  assert.deepEqual([pinned?.name, pinned?.isLoaded], ["m0", true]);
});

test("what is wrong with an adapter is said by code, and harms nobody else", async () => {
  await using engine = await createEngine({ model, device: "reference", adapterMemory: 1, worker: false });
  const refused = async (path: string): Promise<unknown> => {
    const running = ask(engine, undefined, path);
    const code = await engine.loadAdapter("bad", path).then(
      () => "none",
      (error) => error.code,
    );
    assert.equal((await running).tokens.length, 8);
    return code;
  };
  const broken = join(folder, "broken");
  cpSync(paths[0]!, broken, { recursive: true });
  truncateSync(join(broken, "adapter_model.safetensors"), 9000);
  assert.equal(await refused(broken), "file_corrupt");
  assert.equal(await refused(join(folder, "absent")), "file_corrupt");
  const layers = writeTinyAdapter({ seed: 60, layers: 3 }, folder);
  assert.equal(await refused(layers), "adapter_unfit");
  const huge = writeTinyAdapter({ seed: 61, rank: 300 }, folder);
  assert.equal(await refused(huge), "adapter_too_large");
  await assert.rejects(createEngine({ model, device: "reference", adapter: [`bad=${broken}`] }), {
    code: "file_corrupt",
  });
  await assert.rejects(createEngine({ model, adapter: ["=there"] }), { code: "invalid_option", param: "adapter" });
  assert.equal(engine.adapters.length, 0);
  assert.deepEqual((await engine.stats()).adapters, []);

  // One that breaks after it was loaded, and left: its requests fail, others do not.
  const later = join(folder, "later");
  cpSync(paths[0]!, later, { recursive: true });
  await engine.loadAdapter("later", later);
  const big = writeTinyAdapter({ seed: 62, rank: 143 }, folder);
  await engine.loadAdapter("big", big);
  truncateSync(join(later, "adapter_model.safetensors"), 9000);
  await assert.rejects(ask(engine, "later"), { code: "file_corrupt" });
  assert.equal((await ask(engine)).tokens.length, 8);
});
