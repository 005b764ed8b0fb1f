// Two flights at a time, on a device that does its work as late as it can: random traffic with common prefixes, tenants,
// priorities, stops, aborts, preemption, forks, embeddings, constraints, hooks and faults. Every request gets what it gets with one
// flight at a time; every page is accounted for at every step, and none is handed out while a flight can still write to it.
//   FUZZ_STEPS=100000 node scripts/run-tests.mjs flights      more of the same

import assert from "node:assert/strict";
import { test } from "node:test";
import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../src/core/sampling.js";
import type { Device, StagedBatch } from "../src/device/device.js";
import { NullDevice } from "../src/device/null/null-device.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { loadEngine } from "../src/engine/core/load/load.js";
import { FlightTraffic, type TrafficOptions } from "./support/flight-traffic.js";
import { outputsOf } from "./support/outputs.js";
import { RecordedCore, RecordingDevice } from "./support/recorded-core.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { UnblockingDevice } from "./support/unblocking-device.js";

const CONFIGS: [string, TrafficOptions][] = [
  ["little room", { pageSize: 4, pages: 40, maxPagesPerBatch: 4, idealChunk: 8 }],
  ["one page a step", { pageSize: 4, pages: 40, maxPagesPerBatch: 1, idealChunk: 8 }],
  ["pages of one token", { pageSize: 1, pages: 160, maxPagesPerBatch: 12, idealChunk: 7 }],
  ["no sharing", { pageSize: 4, pages: 60, maxPagesPerBatch: 8, idealChunk: 8, prefixCaching: false }],
  [
    "a window and states beside full attention",
    {
      pageSize: 4,
      pages: 40,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      groups: [
        { kind: "window", numPages: 37, window: 10 },
        { kind: "state", numPages: 20 },
      ],
    },
  ],
  ["a second tier in host memory", { pageSize: 4, pages: 32, maxPagesPerBatch: 4, idealChunk: 8, hostBytes: 1500 }],
  [
    "a second tier of a window and states",
    {
      pageSize: 4,
      pages: 36,
      maxPagesPerBatch: 4,
      idealChunk: 8,
      groups: [
        { kind: "window", numPages: 35, window: 10 },
        { kind: "state", numPages: 16 },
      ],
      hostBytes: 6000,
    },
  ],
  ["chunked", { mode: "chunked", pageSize: 4, pages: 40, maxPagesPerBatch: 4, idealChunk: 8 }],
];

const numSteps = Math.ceil(Number(process.env.FUZZ_STEPS ?? 7_500) / CONFIGS.length);

for (const [name, options] of CONFIGS) {
  test(`${name}: ${numSteps} steps with two flights under way give what one gives`, () => {
    const one = new FlightTraffic(options, 1, 7);
    const two = new FlightTraffic(options, 2, 7);
    for (let i = 0; i < numSteps; i++) {
      one.step();
      two.step();
    }
    one.drain();
    two.drain();
    let numCompared = 0;
    for (const [key, result] of two.results) {
      const other = one.results.get(key);
      if (other === undefined || !isWhole(result.finishReason) || !isWhole(other.finishReason)) continue;
      assert.deepEqual(result, other, key);
      numCompared++;
    }
    // Otherwise the traffic was too tame to prove anything.
    assert.ok(numCompared > numSteps / 30, `${numCompared} answers compared`);
    for (const traffic of [one, two]) {
      assert.ok(traffic.numForks > 3, `${traffic.numForks} forks`);
      assert.ok(traffic.stats().preemptions > 3, `${traffic.stats().preemptions} preemptions`);
      for (const reason of ["stop", "length", "abort", "error"] as const)
        assert.ok(traffic.numEnded[reason] > 0, reason);
      if (options.hostBytes !== undefined) assert.ok(traffic.stats().hostTier!.restored > 20);
      if (options.prefixCaching !== false) assert.ok(traffic.stats().cachedTokens > 100);
    }
    assert.equal(one.numDropped, 0, "with one flight every end is known before the next begins");
    assert.ok(two.numDropped > 0, "no token was computed after an end");
    const hasStates = options.groups?.some(({ kind }) => kind === "state") === true;
    assert.equal(one.numLate, 0);
    assert.equal(two.numLate > 0, !hasStates, `${two.numLate} flights were launched before their masks`);
    assert.ok(two.numAhead > numSteps / 4, `${two.numAhead} flights were launched before the one ahead had landed`);
  });
}

test("a mask that fails at the first token ends every sample of its call, and nothing is left of them", () => {
  const { core } = new FlightTraffic(CONFIGS[0]![1], 2, 1);
  core.add({
    ...{ type: "add", callId: "call", kind: "generate", prompt: Int32Array.of(1, 2, 3), priority: 0, salt: "" },
    ...{ sampling: { ...SAMPLING_DEFAULTS, maxTokens: 5, seed: 1, n: 3 }, arrivalMs: 0 },
    constraint: { kind: "json", source: "0 call" },
  });
  while (core.hasWork) core.step();
  const ends = outputsOf(core).map(({ index, finishReason, error }) => [index, finishReason, error?.details.reason]);
  assert.deepEqual(
    ends.toSorted(),
    [0, 1, 2].map((index) => [index, "error", "mask of call"]),
  );
  core.checkIntegrity();
  assert.equal(core.stats().pagesUsed, 0);
});

/**
 * Answers of a real model, computed call by call, with so many flights under way. `sizes`: on a device that may know steps, and so gets
 * decodes padded; the sizes it was asked for.
 */
async function answersOf(
  model: string,
  asyncDepth: 1 | 2,
  sizes?: Set<number>,
  open?: () => Device,
): Promise<Map<string, unknown>> {
  const config = engineConfig({ model, device: "reference", numPages: 150, maxPagesPerBatch: 4, idealChunk: 32 });
  class AsyncReference extends ReferenceDevice {
    override readonly info = { ...new ReferenceDevice().info, asyncDepth };
  }
  class KnowingReference extends AsyncReference {
    tryReplay(staged: StagedBatch): boolean {
      sizes!.add(staged.numTokens);
      return false;
    }
  }
  const { core } = await loadEngine(
    config,
    () => {},
    async () => open?.() ?? (sizes === undefined ? new AsyncReference() : new KnowingReference()),
  );
  const base = { ...SAMPLING_DEFAULTS, temperature: 1.2, ignoreEos: true, maxTokens: 20 };
  const calls = [
    { kind: "generate", sampling: base },
    { kind: "generate", sampling: { ...base, n: 3, topK: 20 } },
    { kind: "generate", sampling: { ...base, logprobs: 3, promptLogprobs: 1 } },
    { kind: "generate", sampling: { ...base, n: 2, maxTokens: 0, promptLogprobs: 1 } },
    { kind: "generate", sampling: { ...base, repetitionPenalty: 1.3, minTokens: 4 } },
    {
      kind: "generate",
      sampling: { ...base, n: 2, repetitionPenalty: 1.1, presencePenalty: 1, frequencyPenalty: 0.5, topP: 0.9 },
    },
    { kind: "pool", pooling: "mean", sampling: base },
    { kind: "pool", pooling: "last", sampling: base },
    ...Array.from({ length: 9 }, () => ({ kind: "generate", sampling: { ...base, maxTokens: 26 } }) as const),
  ] as const;
  for (const [i, call] of calls.entries()) {
    const prompt = Int32Array.from({ length: 40 + 13 * i }, (_, at) => (at < 32 ? at : at * 7 + i) % 250);
    const sampling = { ...call.sampling, seed: i };
    core.add({
      type: "add",
      callId: `c${i}`,
      kind: call.kind,
      ...("pooling" in call ? { pooling: call.pooling } : {}),
      prompt,
      sampling,
      priority: 0,
      salt: "",
      arrivalMs: 0,
      constraint: null,
    });
  }
  const answers = new Map<string, unknown[]>();
  let numAhead = 0;
  while (core.hasWork) {
    await core.stepAsync();
    if (core.numInFlight > 0) numAhead++;
    for (const { callId, index, tokens, logprobs, vector, promptLogprobs, error } of outputsOf(core)) {
      assert.equal(error, null);
      const key = `${callId}#${index}`;
      answers.set(key, [...(answers.get(key) ?? []), tokens, logprobs, vector, promptLogprobs]);
    }
  }
  core.checkIntegrity();
  assert.equal(numAhead > 0, asyncDepth === 2);
  core.close();
  return answers;
}

test("a real model gives the same bits with two flights under way", async () => {
  const model = writeTinyCheckpoint();
  const one = await answersOf(model, 1);
  assert.equal(one.size, 21);
  assert.deepEqual(await answersOf(model, 2), one);
  const sizes = new Set<number>();
  assert.deepEqual(await answersOf(model, 2, sizes), one);
  assert.ok(sizes.has(10) && !sizes.has(9), `nine decodes are a step of ten: ${[...sizes]}`);
});

test("a device that cannot block gives the same bits", async () => {
  const model = writeTinyCheckpoint();
  assert.deepEqual(await answersOf(model, 2, undefined, () => new UnblockingDevice()), await answersOf(model, 1));
});

function isWhole(reason: string | null): boolean {
  return reason === "stop" || reason === "length";
}

test("decodes are padded to a size that comes back, until a batch has stayed as large for 64 steps", async () => {
  const sizes: number[] = [];
  class Knowing extends ReferenceDevice {
    override readonly info = { ...new ReferenceDevice().info, asyncDepth: 2 as const };
    tryReplay(staged: StagedBatch): boolean {
      sizes.push(staged.numTokens);
      return false;
    }
  }
  const config = engineConfig({ model: writeTinyCheckpoint({ layers: 1 }), device: "reference", numPages: 80 });
  const { core } = await loadEngine(
    config,
    () => {},
    async () => new Knowing(),
  );
  for (let i = 0; i < 9; i++) {
    core.add({
      ...{ type: "add", callId: `c${i}`, kind: "generate", prompt: Int32Array.of(1, 2, i), priority: 0, salt: "" },
      ...{
        sampling: { ...SAMPLING_DEFAULTS, ignoreEos: true, seed: i, maxTokens: 80 },
        constraint: null,
        arrivalMs: 0,
      },
    });
  }
  while (core.hasWork) core.step();
  core.close();
  const own = sizes.indexOf(9);
  assert.deepEqual(new Set(sizes.slice(own - 64, own)), new Set([10]));
  assert.deepEqual(new Set(sizes.slice(own)), new Set([9]));
});

test("every setting that the host does not take part in runs ahead", () => {
  const settings: Partial<SamplingParams>[] = [
    { temperature: 0 },
    { temperature: 1 },
    { temperature: 1, topK: 20, topP: 0.8, minP: 0.01 },
    { temperature: 1, repetitionPenalty: 1.1 },
    { presencePenalty: 0.5, frequencyPenalty: 0.5 },
    { logprobs: 5 },
    { logitBias: [[3, 1]], minTokens: 10 },
    { n: 3, temperature: 1, repetitionPenalty: 1.1, logprobs: 2 },
    { promptLogprobs: 1, frequencyPenalty: 1 },
  ];
  for (const sampling of settings) {
    class AsyncDevice extends RecordingDevice {
      override info = { ...new NullDevice().info, asyncDepth: 2 as const };
    }
    const recorded = new RecordedCore({ device: new AsyncDevice(), maxPagesPerBatch: 4 });
    recorded.add("a", 10, { ...sampling, maxTokens: 20, ignoreEos: true });
    const stages = recorded.drain().filter((line) => line.startsWith("stage"));
    // All but the prompt, and the first token of further samples, which begin when the prompt has landed.
    const ahead = stages.filter((line) => /:\[-\d+\].*after another/.test(line));
    assert.ok(
      ahead.length >= stages.length - 2 && ahead.length >= 18,
      `${JSON.stringify(sampling)}\n${stages.join("\n")}`,
    );
    const answers = recorded.outputs().reduce((sum, { tokens }) => sum + tokens.length, 0);
    assert.equal(answers, 20 * (sampling.n ?? 1));
  }
});
