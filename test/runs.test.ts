// Rows with drafts: whatever is guessed, and however often rightly, every request gets the tokens and log-probabilities it gets without;
// every page is accounted for at every step. The same random traffic as in flights.test.ts, on the same device.
//   FUZZ_STEPS=100000 node scripts/run-tests.mjs test/runs      more of the same

import assert from "node:assert/strict";
import { test } from "node:test";
import { engineConfig } from "../src/config/engine-config.js";
import { bucket } from "../src/core/math.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import type { StagedBatch } from "../src/device/device.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import type { Drafter } from "../src/drafter/drafter.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { loadEngine } from "../src/engine/core/load/load.js";
import { lookupDrafter, oracleDrafter, randomDrafter } from "./support/drafters.js";
import { type Answered, FlightTraffic, type TrafficOptions } from "./support/flight-traffic.js";
import { runToEnd, type WholeAnswer } from "./support/outputs.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { UnblockingDevice } from "./support/unblocking-device.js";

const VOCAB = 50;
const BASE = { pageSize: 4, pages: 40, maxPagesPerBatch: 4, idealChunk: 8 };
const CONFIGS: [string, TrafficOptions][] = [
  ["little room", BASE],
  ["pages of one token", { pageSize: 1, pages: 160, maxPagesPerBatch: 12, idealChunk: 7 }],
  ["no sharing", { ...BASE, pages: 60, maxPagesPerBatch: 8, prefixCaching: false }],
  ["a window", { ...BASE, groups: [{ kind: "window", numPages: 37, window: 10 }] }],
  ["states", { ...BASE, groups: [{ kind: "state", numPages: 20 }] }],
  [
    "a window and states",
    {
      ...BASE,
      groups: [
        { kind: "window", numPages: 37, window: 10 },
        { kind: "state", numPages: 20 },
      ],
    },
  ],
  ["a second tier of states", { ...BASE, pages: 36, groups: [{ kind: "state", numPages: 16 }], hostBytes: 6000 }],
  ["a second tier", { ...BASE, pages: 32, hostBytes: 1500 }],
  ["chunked", { ...BASE, mode: "chunked" }],
];
const DRAFTERS = ["random", 0, 0.5, 1, "lookup"] as const;
const numSteps = Math.ceil(Number(process.env.FUZZ_STEPS ?? 7_200) / (CONFIGS.length * DRAFTERS.length));

let numMaskedGuesses = 0;
for (const [name, options] of CONFIGS) {
  test(`${name}: drafts change no answer and lose no page`, () => {
    const plain = run(options, 1, 2 * numSteps);
    for (const kind of DRAFTERS) {
      for (const depth of [1, 2] as const) {
        const answerOf = (id: string) => plain.results.get(id.includes("#") ? id : `${id}#0`)?.tokens;
        const drafter: Drafter =
          kind === "lookup"
            ? lookupDrafter(3)
            : kind === "random"
              ? randomDrafter(3, VOCAB)
              : oracleDrafter(3, VOCAB, kind, ({ id }) => answerOf(id));
        const drafted = run({ ...options, drafter }, depth, numSteps);
        const label = `${kind} at depth ${depth}`;
        const numCompared = compare(drafted.results, plain.results, label);
        assert.ok(numCompared > numSteps / 40, `${label}: ${numCompared} answers compared`);
        const { numDrafted, numAccepted } = drafted.core.recorder;
        assert.ok(numDrafted > numSteps / (kind === "lookup" ? 10 : 5), `${label}: ${numDrafted} drafts`);
        numMaskedGuesses += drafted.numMaskedGuesses;
        if (kind === 1) assert.ok(numAccepted > numDrafted / 4, `${label}: ${numAccepted} of ${numDrafted} accepted`);
        else assert.ok(numAccepted < 0.8 * numDrafted, `${label}: ${numAccepted} of ${numDrafted} accepted`);
      }
    }
  });
}

test("some guesses under a grammar became tokens", () => {
  assert.ok(numMaskedGuesses > CONFIGS.length, `${numMaskedGuesses}`);
});

for (const device of ["reference", "cpu", "unblocking", "replaying"] as const) {
  test(`${device}: a real model gives the same bits with drafts`, async () => {
    const model = writeTinyCheckpoint();
    const [plain] = await answersOf(model, device, null);
    const answerOf = (id: string) => plain.get(id.includes("#") ? id : `${id}#0`)?.tokens;
    for (const p of [0, 0.7, 1]) {
      const sizes = new Set<string>();
      const [drafted, numAccepted] = await answersOf(
        model,
        device,
        oracleDrafter(5, 250, p, ({ id }) => answerOf(id)),
        sizes,
      );
      assert.deepEqual(drafted, plain, `p = ${p}`);
      if (device === "replaying") {
        const tokens = [...sizes].map((size) => Number(size.split(" ")[0]));
        assert.ok(tokens.some((count) => count > 8) && tokens.every((count) => count === bucket(count)), `${tokens}`);
      }
      if (p > 0) assert.ok(numAccepted > 30, `${numAccepted} accepted`);
    }
  });
}

/** Hot and greedy, with penalties, cut distributions, log-probabilities, forks and a least length; and how many drafts were accepted. */
async function answersOf(
  model: string,
  device: "reference" | "cpu" | "unblocking" | "replaying",
  drafter: Drafter | null,
  sizes = new Set<string>(),
): Promise<[Map<string, WholeAnswer>, number]> {
  const name = device === "cpu" ? "cpu" : "reference";
  const config = engineConfig({ model, device: name, numPages: 150, maxPagesPerBatch: 4, idealChunk: 32 });
  class Replaying extends ReferenceDevice {
    override readonly info = { ...new ReferenceDevice().info, asyncDepth: 2 as const };
    tryReplay(staged: StagedBatch): boolean {
      // Steps with chunks of prompts have a size of their own.
      if (staged.numLogitRows === staged.numTokens) sizes.add(`${staged.numTokens} ${staged.numRows}`);
      return false;
    }
  }
  const devices = { unblocking: async () => new UnblockingDevice(), replaying: async () => new Replaying() };
  const open = device in devices ? devices[device as keyof typeof devices] : openDevice;
  const { core } = await loadEngine(config, () => {}, open, drafter);
  const base = { ...SAMPLING_DEFAULTS, temperature: 1.2, ignoreEos: true, maxTokens: 30, logprobs: 3 };
  const samplings = [
    base,
    { ...base, temperature: 0 },
    { ...base, n: 3, topK: 20 },
    { ...base, repetitionPenalty: 1.3, frequencyPenalty: 0.4, minTokens: 4 },
    { ...base, topP: 0.8, promptLogprobs: 1 },
  ];
  for (const [i, sampling] of samplings.entries()) {
    const prompt = Int32Array.from({ length: 40 + 13 * i }, (_, at) => (at < 32 ? at : at * 7 + i) % 250);
    core.add({
      ...{ type: "add", callId: `c${i}`, kind: "generate", prompt, priority: 0, salt: "", arrivalMs: 0 },
      ...{ sampling: { ...sampling, seed: i }, constraint: null },
    });
  }
  const answers = await runToEnd(core);
  const { numAccepted } = core.recorder;
  core.close();
  return [answers, numAccepted];
}

function run(options: TrafficOptions, depth: 1 | 2, steps: number): FlightTraffic {
  const traffic = new FlightTraffic(options, depth, 7);
  for (let i = 0; i < steps; i++) traffic.step();
  traffic.drain();
  return traffic;
}

/** Those that ended by themselves in both. */
function compare(results: Map<string, Answered>, others: Map<string, Answered>, label: string): number {
  let count = 0;
  for (const [key, result] of results) {
    const other = others.get(key);
    if (other === undefined || !isWhole(result.finishReason) || !isWhole(other.finishReason)) continue;
    assert.deepEqual(result, other, `${label}: ${key}`);
    count++;
  }
  return count;
}

function isWhole(reason: string | null): boolean {
  return reason === "stop" || reason === "length";
}
