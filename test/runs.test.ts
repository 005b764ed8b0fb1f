// Rows with drafts: whatever is guessed, and however often rightly, every request gets the tokens and log-probabilities it gets without;
// every page is accounted for at every step. The same random traffic as in flights.test.ts, on the same device.
//   FUZZ_STEPS=100000 node scripts/run-tests.mjs test/runs      more of the same

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Drafter } from "../src/drafter/drafter.js";
import { oracleDrafter, randomDrafter } from "./support/drafters.js";
import { type Answered, FlightTraffic, type TrafficOptions } from "./support/flight-traffic.js";

const VOCAB = 50;
const BASE = { pageSize: 4, pages: 40, maxPagesPerBatch: 4, idealChunk: 8 };
const CONFIGS: [string, TrafficOptions][] = [
  ["little room", BASE],
  ["pages of one token", { pageSize: 1, pages: 160, maxPagesPerBatch: 12, idealChunk: 7 }],
  ["no sharing", { ...BASE, pages: 60, maxPagesPerBatch: 8, prefixCaching: false }],
  ["a window", { ...BASE, groups: [{ kind: "window", numPages: 37, window: 10 }] }],
  ["a second tier", { ...BASE, pages: 32, hostBytes: 1500 }],
  ["chunked", { ...BASE, mode: "chunked" }],
];
const DRAFTERS = ["random", 0, 0.5, 1] as const;
const numSteps = Math.ceil(Number(process.env.FUZZ_STEPS ?? 7_200) / (CONFIGS.length * DRAFTERS.length));

for (const [name, options] of CONFIGS) {
  test(`${name}: drafts change no answer and lose no page`, () => {
    const plain = run(options, 1, 2 * numSteps);
    for (const kind of DRAFTERS) {
      for (const depth of [1, 2] as const) {
        const answerOf = (id: string) => plain.results.get(id.includes("#") ? id : `${id}#0`)?.tokens;
        const drafter: Drafter =
          kind === "random" ? randomDrafter(3, VOCAB) : oracleDrafter(3, VOCAB, kind, ({ id }) => answerOf(id));
        const drafted = run({ ...options, drafter }, depth, numSteps);
        const label = `${kind} at depth ${depth}`;
        const numCompared = compare(drafted.results, plain.results, label);
        assert.ok(numCompared > numSteps / 40, `${label}: ${numCompared} answers compared`);
        const { numDrafted, numAccepted } = drafted.core.recorder;
        assert.ok(numDrafted > numSteps / 4, `${label}: ${numDrafted} drafts`);
        if (kind === 1) assert.ok(numAccepted > numDrafted / 3, `${label}: ${numAccepted} of ${numDrafted} accepted`);
        else assert.ok(numAccepted < 0.8 * numDrafted, `${label}: ${numAccepted} of ${numDrafted} accepted`);
      }
    }
  });
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
