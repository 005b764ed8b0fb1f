// Evicted prefixes that come back from host memory give a real model the bits that computing them gives, whatever its layers keep and
// however many flights are in the air.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import type { EngineCore } from "../src/engine/core/engine-core.js";
import { loadEngine } from "../src/engine/core/load.js";
import { withByteTokenizer } from "./support/tiny-checkpoint.js";

const MODELS = [
  { name: "full attention", model: "test/goldens/llama" },
  { name: "windows beside full attention", model: "test/goldens/gemma3" },
  { name: "latent", model: "test/goldens/deepseek-v3" },
  { name: "states beside full attention", model: "../shared/goldens2/qwen3.5" },
];

const LENGTH = 75;
const PAGE = 4;

/** A core with a tier in host memory, on a device of that depth. */
async function openCore(model: string, asyncDepth: 1 | 2): Promise<EngineCore> {
  class FlyingDevice extends ReferenceDevice {
    override readonly info = { ...new ReferenceDevice().info, asyncDepth };
  }
  const options = {
    model,
    device: "reference",
    pageSize: PAGE,
    numPages: 28,
    idealChunk: 16,
    hostCacheMb: 64,
  } as const;
  const config = engineConfig(options);
  return (
    await loadEngine(
      config,
      () => {},
      async () => new FlyingDevice(),
    )
  ).core;
}

interface Answer {
  readonly given: unknown[];
  readonly cachedTokens: number;
}

function answer(core: EngineCore, series: number): Answer {
  core.add({
    type: "add",
    callId: "call",
    kind: "generate",
    prompt: Int32Array.from({ length: LENGTH }, (_, i) => 3 + ((i * 7 + series * 31) % 200)),
    sampling: { ...SAMPLING_DEFAULTS, temperature: 1.2, seed: 5, ignoreEos: true, maxTokens: 8, logprobs: 3 },
    priority: 0,
    salt: "",
    arrivalMs: 0,
    constraint: null,
  });
  const given: unknown[] = [];
  let cachedTokens = 0;
  while (core.hasWork) {
    core.step();
    core.checkIntegrity();
    for (const { tokens, logprobs, error, trace } of core.takeOutputs()) {
      assert.equal(error, null);
      given.push(...tokens, logprobs);
      if (trace !== null) cachedTokens = trace.cachedTokens;
    }
  }
  assert.equal(core.stats().pagesUsed, 0);
  return { given, cachedTokens };
}

for (const { name, model: golden } of MODELS) {
  for (const depth of [1, 2] as const) {
    const skip = existsSync(golden) ? false : `${golden} is not here`;
    test(`${name}, ${depth} in the air: a prefix that was evicted comes back with the same bits`, {
      skip,
    }, async () => {
      const model = withByteTokenizer(golden, 320);
      const core = await openCore(model, depth);
      const first = answer(core, 1);
      // Each takes most of the pool, so that nothing of the first is left.
      answer(core, 2);
      answer(core, 3);
      const { spilled, restored } = core.stats().hostTier!;
      assert.ok(spilled > 0 && restored === 0, `${spilled} spilled, ${restored} restored`);
      const again = answer(core, 1);
      assert.deepEqual(again.given, first.given);
      assert.equal(first.cachedTokens, 0);
      assert.equal(again.cachedTokens, LENGTH - (LENGTH % PAGE), "all of its whole pages came back");
      assert.ok(core.stats().hostTier!.restored >= Math.floor(LENGTH / PAGE) - 1);
      core.close();
    });
  }
}
