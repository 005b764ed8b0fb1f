// The invariance suite: one request gives the same tokens and the same logits, bit for bit, however it was run. Any device and
// any encoding of weights and KV must pass it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type EngineConfig, engineConfig } from "../../src/config/engine-config.js";
import { uniformAt } from "../../src/core/random.js";
import type { Device } from "../../src/device/device.js";
import { createEngine } from "../../src/engine/client/engine.js";
import { startInProcess } from "../../src/engine/client/host.js";
import { HostedEngine } from "../../src/engine/client/hosted-engine.js";
import type { Engine, GenerateOptions, GenerateResult } from "../../src/engine/types.js";
import { LogitLedger } from "./logit-ledger.js";

export interface InvarianceCase {
  readonly name: string;
  readonly model: string;
  /** Beyond the model: device, encodings, threads. */
  readonly config: Partial<EngineConfig>;
  /** A device that no config can name. */
  readonly open?: () => Device;
  /** Shared between cases that must agree with each other, such as numbers of threads. */
  readonly ledger?: LogitLedger;
  readonly promptLen?: number;
  /** false: so small a model cannot run out of pages, since what it keeps does not grow with the context. */
  readonly canPreempt?: boolean;
  readonly maxTokens?: number;
}

export function runInvariance(given: InvarianceCase): void {
  const {
    name,
    model,
    config,
    ledger = new LogitLedger(),
    promptLen = 150,
    maxTokens = 12,
    canPreempt = true,
    open,
  } = given;
  const prompt = randomPrompt(promptLen, 1);
  const base = { maxTokens, temperature: 1.3, seed: 11, ignoreEos: true, editLogits: ledger.hook };
  let alone: GenerateResult;

  const withEngine = async (extra: Partial<EngineConfig>, body: (engine: Engine) => Promise<void>) => {
    const options = { model, worker: false, numPages: 200, ...config, ...extra };
    await using engine = await (open === undefined ? createEngine(options) : createEngineOn(open, options));
    await body(engine);
    const stats = await engine.stats();
    assert.equal(stats.pagesUsed, 0, "pages leaked");
  };
  const run = (engine: Engine, options: GenerateOptions = {}) =>
    engine.generate(prompt, { ...base, ...options }).result();
  const expectAlone = (result: GenerateResult) =>
    assert.deepEqual(result.samples[0]!.tokenIds, alone.samples[0]!.tokenIds);

  test(`${name}: alone, twice, the second time from the cache`, async () => {
    await withEngine({}, async (engine) => {
      alone = await run(engine);
      const again = await run(engine);
      expectAlone(again);
      assert.equal(alone.trace.cachedTokens, 0);
      assert.ok(again.trace.cachedTokens >= promptLen - 32, `${again.trace.cachedTokens} tokens were cached`);
      assert.equal((await engine.stats()).cachedTokens, again.trace.cachedTokens);
    });
  });

  test(`${name}: batched with others of all lengths`, async () => {
    await withEngine({}, async (engine) => {
      const others = [3, 17, 64, 111, 200, 33].map((len, i) =>
        engine.generate(randomPrompt(len, 50 + i), { ...base, seed: i, maxTokens: maxTokens + i }).result(),
      );
      expectAlone(await run(engine));
      await Promise.all(others);
    });
  });

  // The reference device has no tiles that a number of rows could fill or not, and the tiles of wasm are those of cpu.
  for (const idealChunk of config.device === "cpu" ? [16, 32, 48, 128, 512] : [16, 48, 512]) {
    test(`${name}: chunks of ${idealChunk}`, async () => {
      await withEngine({ idealChunk, prefixCaching: false }, async (engine) => expectAlone(await run(engine)));
    });
  }

  test(`${name}: a partly cached prefix`, async () => {
    await withEngine({}, async (engine) => {
      const shorter = prompt.slice(0, promptLen - 50);
      await engine.generate([...shorter, 7, 8, 9], base).result();
      const result = await run(engine);
      assert.ok(result.trace.cachedTokens > 0 && result.trace.cachedTokens < promptLen - 40);
      expectAlone(result);
    });
  });

  const skip = canPreempt ? false : "it cannot run out of pages";
  test(`${name}: preempted and resumed`, { skip }, async () => {
    // Both are let in with a further page each; they need two more.
    await withEngine({ numPages: 1 + 2 * (Math.ceil(promptLen / 16) + 1) }, async (engine) => {
      const longer = { ...base, maxTokens: maxTokens + 40 };
      const rival = engine.generate(randomPrompt(promptLen, 77), { ...longer, priority: -1 }).result();
      const result = await engine.generate(prompt, longer).result();
      await rival;
      assert.ok(result.trace.preemptions > 0, "nothing was preempted");
      assert.deepEqual(result.samples[0]!.tokenIds.slice(0, maxTokens), alone.samples[0]!.tokenIds);
    });
  });

  test(`${name}: chunked mode`, async () => {
    await withEngine({ mode: "chunked" }, async (engine) => {
      const other = engine.generate(randomPrompt(90, 78), base).result();
      expectAlone(await run(engine));
      await other;
    });
  });

  test(`${name}: forked into four samples, and the same without room to fork`, async () => {
    let roomy: GenerateResult;
    await withEngine({}, async (engine) => {
      roomy = await run(engine, { n: 4 });
      expectAlone(roomy);
    });
    const prefixPages = Math.ceil((promptLen + maxTokens) / 16);
    await withEngine({ numPages: 1 + prefixPages + 1 }, async (engine) => {
      const tight = await run(engine, { n: 4 });
      assert.deepEqual(
        tight.samples.map((s) => s.tokenIds),
        roomy.samples.map((s) => s.tokenIds),
      );
    });
  });

  test(`${name}: random traces with shared prefixes, priorities, aborts and little room`, async () => {
    const tight = [2, { numPages: 40, maxPagesPerBatch: 6, idealChunk: 32 }] as const;
    // Nor does what is scheduled depend on the device: elsewhere the trace that is cut most often stands for all.
    const traces = config.device === "cpu" ? ([tight, [1, {}], [3, { mode: "chunked" }]] as const) : [tight];
    for (const [seed, extra] of traces) {
      await withEngine(extra, async (engine) => {
        const draw = (at: number, below: number) => Math.floor(uniformAt(seed, 2, at) * below);
        const calls = Array.from({ length: 10 }, (_, i) => {
          const prefix = prompt.slice(0, 16 * draw(i, 6));
          const ids = [...prefix, ...randomPrompt(1 + draw(100 + i, 60), 200 + draw(200 + i, 3))];
          return engine.generate(ids, {
            ...base,
            maxTokens: 1 + draw(300 + i, 10),
            priority: draw(400 + i, 3),
            seed: 5,
          });
        });
        const outcomes = calls.map((call) => call.result().catch(() => null));
        for (const [i, call] of calls.entries())
          if (draw(500 + i, 5) === 0) setTimeout(() => call.abort(), draw(600 + i, 20));
        await Promise.all(outcomes);
      });
    }
  });

  test(`${name}: the ledger saw the same sequences many times`, () => {
    assert.ok(ledger.numRepeated > 8 * maxTokens, `${ledger.numRepeated} of ${ledger.numChecked}`);
  });
}

async function createEngineOn(open: () => Device, options: Partial<EngineConfig>): Promise<Engine> {
  const start = (...args: Parameters<typeof startInProcess>) => startInProcess(args[0], args[1], async () => open());
  const engine = new HostedEngine(engineConfig(options), null, start);
  await engine.ready;
  return engine;
}

export function randomPrompt(len: number, seed: number): number[] {
  return Array.from({ length: len }, (_, i) => Math.floor(uniformAt(seed, 1, i) * 256));
}
