// What a row in a step does to its request.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, rowsOf, Simulation, tokensOf } from "../../test/support/simulation.js";
import { Request } from "../core/request.js";

test("a request whose tokens the device chooses is scheduled ahead of them, as far as its answer can go", () => {
  for (const [maxTokens, decodes] of [
    [1, []],
    [2, [6]],
    [4, [6, 7, 8]],
  ] as const) {
    for (const runsAhead of [true, false]) {
      const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 4, idealChunk: 4 });
      const { id, sampling } = makeRequest("r", [], { maxTokens });
      const request = new Request({ id, prompt: tokensOf(1, 6), sampling, runsAhead });
      sim.scheduler.add(request);
      const seen: number[][] = [];
      for (;;) {
        const step = sim.scheduler.schedule(sim.scheduler.createStep());
        if (step === null) break;
        const { start, queryLen } = rowsOf(step)[0]!;
        seen.push([start, queryLen, request.numPromised, request.numComputed, request.numInFlight, request.numSteps]);
      }
      const promised = runsAhead ? 1 : 0;
      const ahead = runsAhead ? decodes.map((start, i) => [start, 1, i + 2, start + 1, start + 1, i + 3]) : [];
      assert.deepEqual(seen, [[0, 4, 0, 4, 4, 1], [4, 2, promised, 6, 6, 2], ...ahead]);
    }
  }
});
