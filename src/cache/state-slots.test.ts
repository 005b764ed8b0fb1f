import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import { CacheManager } from "./cache-manager.js";
import { GroupPools } from "./group-pools.js";
import { openTables } from "./request-pages.js";
import { StateCopies, StateSlots } from "./state-slots.js";

test("copies are listed in order, found by either end, and gone once cleared", () => {
  const copies = new StateCopies();
  assert.equal(copies.has(0), false);
  for (let i = 0; i < 40; i++) copies.push(100 + i, 200 + i);
  assert.equal(copies.count, 40);
  for (let i = 0; i < 40; i++) assert.deepEqual([copies.from[i], copies.to[i]], [100 + i, 200 + i]);
  assert.deepEqual(
    [100, 139, 200, 239, 99, 140, 240].map((slot) => copies.has(slot)),
    [true, true, true, true, false, false, false],
  );
  copies.clear();
  assert.deepEqual([copies.count, copies.has(100)], [0, false]);
});

test("a snapshot leaves one slot for the next request, whether it is taken here or comes from elsewhere", () => {
  const pools = new GroupPools({ groups: [{ kind: "state", numPages: 4 }], pageSize: 4, prefixCaching: true });
  const states = new StateSlots(pools, 4);
  const request = makeRequest("a", [1, 2, 3, 4, 5]);
  openTables(request, 1);
  pools.tryTake(0, request.tables[0]!.pages, 0, 1);
  request.tables[0]!.numPages = 1;
  for (const [numComputed, numTaken] of [
    [3, 0],
    [4, 1],
    [4, 1],
  ] as const) {
    request.numComputed = numComputed;
    states.snapshot(request);
    assert.equal(request.pendingSnapshots.length, numTaken, `after ${numComputed} tokens`);
  }
  assert.deepEqual([states.after.count, pools.groups[0]!.pool.numFree], [1, 1]);
  assert.equal(states.tryTake(), null);
  states.dropSnapshots(request);
  assert.equal(pools.groups[0]!.pool.numFree, 2);
  assert.ok(states.tryTake() !== null);
  assert.equal(states.tryTake(), null);
});

test("a slot that a copy still reads or writes is not given to what comes from elsewhere, nor lost", () => {
  const pools = new GroupPools({ groups: [{ kind: "state", numPages: 5 }], pageSize: 4, prefixCaching: true });
  const states = new StateSlots(pools, 4);
  const queue = pools.groups[0]!.pool.freeQueue();
  states.before.push(9, queue[0]!);
  assert.equal(states.tryTake(), null);
  assert.deepEqual(pools.groups[0]!.pool.freeQueue(), queue);
  states.before.clear();
  assert.equal(states.tryTake(), queue[0]);
});

test("an answer's last snapshot is dropped once, when the next is taken: what another puts there later stays", () => {
  const cache = new CacheManager({ pageSize: 4, prefixCaching: true, groups: [{ kind: "state", numPages: 9 }] });
  const request = makeRequest("a", [1, 2], { maxTokens: 30 });
  assert.ok(cache.tryAdmit(request));
  const computeTo = (end: number): void => {
    while (request.numTokens < end) request.appendToken(request.numTokens);
    request.numComputed = end;
    cache.states!.snapshot(request);
  };
  const boundaries = () => cache.snapshot().nodes.map(({ tokens }) => tokens[3]! + 1);
  computeTo(4);
  cache.publish(request);
  assert.deepEqual([boundaries(), request.lastSnapshotEnd], [[4], 4]);
  computeTo(8);
  assert.deepEqual([boundaries(), request.lastSnapshotEnd], [[], 0]);
  cache.publish(request);
  assert.deepEqual([boundaries(), request.lastSnapshotEnd], [[8], 8]);
  cache.release(request);
  cache.checkIntegrity([]);
});
