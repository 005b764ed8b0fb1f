// Prompts that take turns in a pool too small for them, over a second tier in host memory: every answer must have the bits it has
// where nothing is ever evicted.

import assert from "node:assert/strict";

import { type EngineConfig, engineConfig } from "../../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import type { Device } from "../../src/device/device.js";
import type { EngineCore } from "../../src/engine/core/engine-core.js";
import { loadEngine } from "../../src/engine/core/load/load.js";
import { outputsOf } from "./outputs.js";
import { makeRandom } from "./random.js";

export interface TierCase {
  readonly options: Partial<EngineConfig> & { readonly pageSize: number };
  readonly open: () => Promise<Device>;
  /** Tokens of a prompt; the pool has room for about two. */
  readonly length: number;
  /** Rounds of one to three prompts. */
  readonly turns: number;
}

const PROMPTS = 6;

export async function runTierTraffic({ options, open, length, turns }: TierCase): Promise<void> {
  const load = async (numPages: number): Promise<EngineCore> =>
    (await loadEngine(engineConfig({ ...options, numPages }), () => {}, open)).core;
  const perPrompt = Math.ceil((length + 8) / options.pageSize) + 1;

  const roomy = await load(PROMPTS * perPrompt + 1);
  const expected = new Map(answer(roomy, series(PROMPTS), length).map(({ prompt, given }) => [prompt, given]));
  roomy.close();

  const core = await load(2 * perPrompt + 4);
  const random = makeRandom(7);
  let cachedTokens = 0;
  for (let turn = 0; turn < turns; turn++) {
    const answers = answer(
      core,
      Array.from({ length: 1 + random(3) }, () => random(PROMPTS)),
      length,
    );
    for (const { prompt, given, cached } of answers) {
      assert.deepEqual(given, expected.get(prompt), `prompt ${prompt} in turn ${turn}`);
      cachedTokens += cached;
    }
  }
  const { spilled, restored } = core.stats().hostTier!;
  assert.ok(spilled > 2 * perPrompt && restored > 2 * perPrompt, `${spilled} spilled, ${restored} restored`);
  assert.ok(cachedTokens >= restored, `${cachedTokens} tokens were cached`);
  core.close();
}

const series = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

interface Answer {
  readonly prompt: number;
  readonly given: unknown[];
  cached: number;
}

/** The answers to these prompts, which arrive together. */
function answer(core: EngineCore, prompts: readonly number[], length: number): Answer[] {
  const answers = new Map<string, Answer>();
  for (const [i, prompt] of prompts.entries()) {
    answers.set(`call${i}`, { prompt, given: [], cached: 0 });
    core.add({
      type: "add",
      callId: `call${i}`,
      kind: "generate",
      prompt: Int32Array.from({ length }, (_, t) => 3 + ((t * 7 + prompt * 31) % 45)),
      sampling: { ...SAMPLING_DEFAULTS, temperature: 1.2, seed: 5, ignoreEos: true, maxTokens: 8, logprobs: 3 },
      priority: 0,
      salt: "",
      arrivalMs: 0,
      constraint: null,
    });
  }
  while (core.hasWork) {
    core.step();
    core.checkIntegrity();
    for (const { callId, tokens, logprobs, error, trace } of outputsOf(core)) {
      assert.equal(error, null);
      const one = answers.get(callId)!;
      one.given.push(...tokens, ...(logprobs ?? []));
      if (trace !== null) one.cached = trace.cachedTokens;
    }
  }
  assert.equal(core.stats().pagesUsed, 0);
  return [...answers.values()];
}
