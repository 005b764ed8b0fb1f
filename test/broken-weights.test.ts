// Weights that are NaN, infinite or near the largest number: every index that comes from them stays in its bounds. Answers end, their
// tokens are of the vocabulary, all pages come back, and what went through the pages before leaves nothing in them.

import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createEngine } from "../src/engine/client/engine.js";
import type { GenerateOptions } from "../src/engine/types.js";
import { changeWeights } from "./support/change-weights.js";
import { openCpu } from "./support/cpu.js";
import { makeRandom } from "./support/random.js";
import { withByteTokenizer } from "./support/tiny-checkpoint.js";

const MODELS = [
  "test/goldens/llama",
  "test/goldens/mixtral",
  "test/goldens/deepseek-v3",
  "test/goldens/variants/gpt-oss-full",
  "test/goldens/variants/qwen3-moe-step",
  "test/goldens/variants/mamba2-groups",
  "test/goldens/variants/qwen3.5-delta",
];
const MIXTURE = /mixtral|deepseek|oss|moe/;
const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
const EXTREMES = [nan, inf, -inf, 3e38, -3e38];
const ROUTERS = "every third router weight";
const PATTERNS: Record<string, (tensor: string, index: number, random: (n: number) => number) => number | null> = {
  "a weight in 200": (_, __, random) => (random(200) === 0 ? EXTREMES[random(5)]! : null),
  [ROUTERS]: (tensor, i) => (/(gate|router)\./.test(tensor) && i % 3 === 0 ? EXTREMES[i % 5]! : null),
  "all of them 3e38": (_, i) => (i % 2 === 0 ? 3e38 : -3e38),
  "all of them NaN": () => nan,
};
const WAYS: readonly GenerateOptions[] = [
  { temperature: 0, logprobs: 3, repetitionPenalty: 1.3 },
  { temperature: 1, seed: 1, topK: 5 },
  { temperature: 0.7, seed: 2, topP: 0.8, minP: 0.1, logprobs: 2, frequencyPenalty: 1 },
  { temperature: 2, seed: 3, n: 2 },
];
const PROMPTS = [23, 5, 40, 1].map((length, p) => Array.from({ length }, (_, i) => 1 + ((i * 7 + p * 3) % 30)));

const { device, reason } = await openCpu();
device?.close();

for (const path of MODELS) {
  const skip = reason || (existsSync(path) ? false : `${path} is not here`);
  for (const [name, change] of Object.entries(PATTERNS)) {
    if (name === ROUTERS && !MIXTURE.test(path)) continue;
    test(`${path}: ${name}`, { skip }, async () => {
      const folder = copyOf(path);
      const random = makeRandom(11);
      const file = join(folder, "model.safetensors");
      assert.ok(changeWeights(file, (tensor, i) => change(tensor, i, random)) > 0);
      await using engine = await open(folder);
      const { vocabSize } = engine.model;
      const answers = PROMPTS.map((prompt, i) => engine.generate(prompt, { maxTokens: 6, ...WAYS[i]! }).result());
      for (const answer of await Promise.allSettled(answers)) {
        if (answer.status === "rejected") assert.equal((answer.reason as { code?: string }).code, "no_token_left");
        else
          for (const { tokenIds } of answer.value.samples)
            assert.ok(
              tokenIds.every((id) => id >= 0 && id < vocabSize),
              tokenIds.join(),
            );
      }
      const { pagesUsed, running } = await engine.stats();
      assert.deepEqual({ pagesUsed, running }, { pagesUsed: 0, running: 0 });
      rmSync(folder, { recursive: true });
    });
  }

  test(`${path}: NaN of one text reaches no other, beside it or after it in its pages`, { skip }, async () => {
    const folder = copyOf(path);
    const last = 31; // the token whose embedding is NaN
    const { hidden_size: hidden } = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as {
      hidden_size: number;
    };
    const isLast = (tensor: string, i: number) => /embed/.test(tensor) && Math.floor(i / hidden) === last;
    changeWeights(join(folder, "model.safetensors"), (tensor, i) => (isLast(tensor, i) ? nan : null));
    const options = { temperature: 0, maxTokens: 6, logprobs: 3, ignoreEos: true, logitBias: [[last, -100]] } as const;
    const clean = PROMPTS[2]!;
    await using fresh = await open(folder);
    const expected = (await fresh.generate(clean, options).result()).samples[0]!;
    assert.ok(expected.logprobs!.every(({ logprob }) => !Number.isNaN(logprob)));
    await using engine = await open(folder);
    const poisoned = Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? last : 1 + (i % 30)));
    for (let round = 0; round < 4; round++) {
      const others = [0, 1, 2].map((i) => engine.generate([i + 1, ...poisoned], options).result());
      const beside = engine.generate([...clean], options).result();
      for (const other of others) await assert.rejects(other, { code: "no_token_left" });
      const { tokenIds, logprobs } = (await beside).samples[0]!;
      assert.deepEqual({ tokenIds, logprobs }, { tokenIds: expected.tokenIds, logprobs: expected.logprobs });
    }
    rmSync(folder, { recursive: true });
  });
}

function copyOf(path: string): string {
  const { vocab_size } = JSON.parse(readFileSync(join(path, "config.json"), "utf8")) as { vocab_size: number };
  return withByteTokenizer(path, vocab_size);
}

/** A pool so small that texts take each other's pages. */
async function open(model: string) {
  const options = {
    device: "cpu",
    threads: 2,
    worker: false,
    pageSize: 4,
    numPages: 80,
    prefixCaching: false,
  } as const;
  return createEngine({ model, ...options });
}
