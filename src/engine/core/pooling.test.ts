import assert from "node:assert/strict";
import { test } from "node:test";
import { POOLINGS, PooledState } from "../../core/pooling.js";
import { ReferenceDevice } from "../../device/reference/reference-device.js";
import { HostReadback } from "./flight.js";
import { neededStates, poolChunk } from "./pooling.js";
import type { Session } from "./session.js";

const STATES = [
  [1, -5],
  [2, 40],
  [3, 3],
  [100, -200],
  [5, 6],
  [-60, 7],
  [7, 80],
];
const mean = (values: number[], weights = values.map(() => 1)) =>
  values.reduce((sum, value, i) => sum + value * weights[i]!, 0) / weights.reduce((sum, weight) => sum + weight);

/** Each as its name says, over one number of all tokens. */
const NAIVE: Record<(typeof POOLINGS)[number], (values: number[]) => number> = {
  first: (values) => values[0]!,
  last: (values) => values.at(-1)!,
  mean: (values) => mean(values),
  max: (values) => Math.max(...values),
  mean_sqrt_len: (values) => mean(values) * Math.sqrt(values.length),
  weighted_mean: (values) => mean(values, [1, 2, 3, 4, 5, 6, 7]),
};

test("of a chunk only those states are needed that its pooling reads", () => {
  assert.deepEqual(neededStates("first", 0, 4, 9), [0, 1]);
  assert.deepEqual(neededStates("first", 4, 9, 9), [4, 4]);
  assert.deepEqual(neededStates("last", 0, 4, 9), [4, 4]);
  assert.deepEqual(neededStates("last", 4, 9, 9), [8, 9]);
  for (const pooling of POOLINGS.slice(2)) assert.deepEqual(neededStates(pooling, 4, 7, 9), [4, 7]);
});

test("a text gives the same vector in whatever chunks its states come, and when it begins again", () => {
  const device = new ReferenceDevice();
  const x = device.loadTensor(Float32Array.from(STATES.flat()), STATES.length, 2);
  for (const pooling of POOLINGS) {
    const session = { pooled: new PooledState(pooling, 2) } as Session;
    for (const ends of [[7], [1, 7], [3, 6], [6, 7], [2, 7], [1, 2, 3, 4, 5, 6, 7]]) {
      const hidden = new HostReadback(device);
      if (ends.length === 2) hidden.keep(x, 2, 2); // of another row of the flight
      let start = 0;
      for (const end of ends) {
        const [from, to] = neededStates(pooling, start, end, STATES.length);
        poolChunk(session, hidden, from === to ? -1 : hidden.keep(x, from, to - from), start, end);
        start = end;
      }
      if (start < STATES.length) continue; // it was preempted, and begins again
      const expected = [0, 1].map((d) => Math.fround(NAIVE[pooling](STATES.map((state) => state[d]!))));
      for (const [d, value] of session.pooled!.vector().entries())
        assert.ok(Math.abs(value - expected[d]!) < 1e-4, `${pooling} of chunks up to ${ends}`);
    }
  }
});
