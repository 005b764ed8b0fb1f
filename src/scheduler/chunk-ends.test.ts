import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, Simulation, tokensOf } from "../../test/support/simulation.js";
import { lastEnd, longestUncut, nextEnd } from "./chunk-ends.js";

const P = 4;
const id = new Int32Array(4);
const media = [
  { start: 5, end: 14, id, isWhole: true }, // 8 and 12 are inside
  { start: 16, end: 20, id, isWhole: true }, // a page exactly
  { start: 21, end: 27, id }, // may be cut
];
const request = makeRequest("r", tokensOf(1, 30), { media });

test("a chunk ends at a page boundary that is inside no whole medium, or with the prompt", () => {
  assert.deepEqual(
    [0, 4, 8, 12, 16, 20, 24, 28].map((start) => nextEnd(request, start, P)),
    [4, 16, 16, 16, 20, 24, 28, 30],
  );
  assert.deepEqual(
    [5, 8, 13, 15, 16, 19, 24, 30].map((most) => lastEnd(request, 4, most, P)),
    [4, 4, 4, 4, 16, 16, 24, 28],
  );
  assert.equal(lastEnd(request, 9, 13, P), 9, "nothing after where it begins");
  assert.equal(longestUncut(request, P), 12);
  assert.equal(longestUncut(makeRequest("p", tokensOf(1, 30)), P), 4);
  assert.equal(longestUncut(makeRequest("p", tokensOf(1, 3)), P), 3);
});

test("steps do not cut a whole medium, whatever else is in them; one that no chunk can hold is refused", () => {
  for (const [pages, most] of [
    [3, 3],
    [4, 4],
    [7, 7],
  ] as const) {
    const sim = new Simulation({ pageSize: P, pages: 60, maxPagesPerBatch: pages, idealChunk: P * most });
    const others = [1, 2].map((i) => sim.add(`o${i}`, tokensOf(10 + i, 21), { maxTokens: 20 }));
    const own = sim.add("m", tokensOf(1, 30), { media, maxTokens: 3 });
    const ends = new Set<number>();
    while (own.numGenerated < 3) {
      sim.step();
      ends.add(own.numComputed);
    }
    for (const end of [8, 12]) assert.ok(!ends.has(end), `${pages} pages: ended at ${[...ends]}`);
    assert.ok(others.length === 2 && ends.has(30));
  }
  const small = new Simulation({ pageSize: P, pages: 60, maxPagesPerBatch: 4, idealChunk: 8 });
  assert.throws(() => small.add("m", tokensOf(1, 30), { media }), { code: "invalid_value" });
});
