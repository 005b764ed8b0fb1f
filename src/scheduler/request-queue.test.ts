import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { makeRequest } from "../../test/support/simulation.js";
import { RequestQueue } from "./request-queue.js";

test("property: the queue is a stable sort by priority, then arrival, under inserts and removals", () => {
  const arrival = fc.record({ priority: fc.integer({ min: -2, max: 2 }), order: fc.nat(5), removes: fc.boolean() });
  fc.assert(
    fc.property(fc.array(arrival, { maxLength: 40 }), (arrivals) => {
      const queue = new RequestQueue();
      let model: { request: ReturnType<typeof makeRequest>; sequence: number }[] = [];
      for (const [sequence, { priority, order, removes }] of arrivals.entries()) {
        const request = makeRequest(`r${sequence}`, [1], { priority });
        request.arrivalOrder = order;
        queue.insert(request);
        model.push({ request, sequence });
        model.sort(
          (a, b) =>
            a.request.priority - b.request.priority ||
            a.request.arrivalOrder - b.request.arrivalOrder ||
            a.sequence - b.sequence,
        );
        if (removes) {
          const victim = model[sequence % model.length]!;
          queue.remove(victim.request);
          model = model.filter((entry) => entry !== victim);
        }
        assert.deepEqual(
          [...queue].map((r) => r.id),
          model.map((entry) => entry.request.id),
        );
      }
      assert.equal(queue.first(), model[0]?.request);
      assert.equal(queue.last(), model.at(-1)?.request);
      assert.equal(queue.size, model.length);
    }),
    { seed: 2, numRuns: 200 },
  );
});

test("removing a request that is not there is an error", () => {
  assert.throws(() => new RequestQueue().remove(makeRequest("stranger", [1])), /stranger is not in this queue/);
});
