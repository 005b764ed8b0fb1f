// The simulated cluster in small: steps run as one are the steps run alone, and choosing by prefix does what it is for.

import assert from "node:assert/strict";
import { test } from "node:test";
import { POLICIES } from "../bench/cluster-sim/policies.js";
import { factsOf, type Hour, type SimulationOptions, simulate } from "../bench/cluster-sim/simulation.js";

const options: SimulationOptions = {
  numReplicas: 4,
  pagesPerReplica: 2000,
  seed: 3,
  requestsPerSecond: 0.5, // more than they can do without sharing
  dayMs: 600_000,
};
const day = (policy: string, more: Partial<SimulationOptions> = {}): Hour =>
  simulate({ ...options, ...more }, POLICIES.get(policy)!)[0]!;

test("a simulated day: every request is answered or refused; by prefix less is computed and first tokens come sooner", () => {
  const [inTurn, byPrefix] = [day("round robin"), day("prefix-aware")];
  for (const { numAsked, numRefused, ttftMs } of [inTurn, byPrefix]) {
    assert.ok(numAsked > 150);
    assert.equal(ttftMs.length + numRefused, numAsked);
  }
  const mean = ({ ttftMs }: Hour): number => ttftMs.reduce((sum, ms) => sum + ms, 0) / ttftMs.length;
  const hitRate = ({ cachedTokens, promptTokens }: Hour): number => cachedTokens / promptTokens;
  assert.ok(hitRate(byPrefix) > hitRate(inTurn), `${hitRate(byPrefix)} and ${hitRate(inTurn)}`);
  assert.ok(hitRate(byPrefix) < factsOf(options).reusable, "what was never there cannot be found");
  assert.ok(mean(byPrefix) < mean(inTurn), `${mean(byPrefix)} and ${mean(inTurn)}`);
});

test("steps that are run as one stretch give what they give one by one", () => {
  const whole = (hour: Hour) => ({ ...hour, ttftMs: hour.ttftMs.map((ms) => ms.toFixed(3)) });
  assert.deepEqual(whole(day("prefix-aware")), whole(day("prefix-aware", { maxStretch: 1 })));
});
