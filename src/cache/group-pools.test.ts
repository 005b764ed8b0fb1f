// Pages taken from the groups' queues, and what the directory and the second tier make of what they held.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import { GroupPools } from "./group-pools.js";
import { HostTier } from "./host-tier.js";
import { hashPages } from "./request-pages.js";

test("pages are taken all or none, at the place that is asked for", () => {
  const pools = new GroupPools({ groups: [{ kind: "full", numPages: 4 }], pageSize: 2, prefixCaching: true });
  const out = new Int32Array(5);
  assert.equal(pools.tryTake(0, out, 0, 4), false);
  assert.deepEqual([...out, pools.groups[0]!.pool.numFree], [0, 0, 0, 0, 0, 3]);
  assert.equal(pools.tryTake(0, out, 1, 3), true);
  assert.deepEqual([...out], [0, 1, 2, 3, 0]);
});

test("an entry that loses its window's page spills that alone; with its full page it spills all it has, and is gone", () => {
  const saved: string[] = [];
  const tier = new HostTier(1000, {
    pageBytes: [4, 4, 4],
    numPages: [9, 3, 9],
    allocHost: (bytes) => new Uint8Array(bytes),
    save: (_, group, page) => saved.push(`${group}: ${page}`),
    load: () => {},
  });
  const groups = [
    { kind: "window", numPages: 3, window: 4 },
    { kind: "full", numPages: 3 },
    { kind: "state", numPages: 9 },
  ] as const;
  const pools = new GroupPools({ groups, pageSize: 2, prefixCaching: true, tier });
  const request = makeRequest("a", [1, 2, 3, 4, 5]);
  hashPages(request, 2, 2);
  const pages = new Int32Array(1);
  // Two entries, the first without a snapshot, the second with one.
  for (const [i, kept] of [
    [0, 1],
    [0, 1, 2],
  ].entries()) {
    const entry = pools.entryFor(request, i);
    for (const g of kept) {
      assert.ok(pools.tryTake(g, pages, 0, 1));
      assert.equal(pools.publish(g, entry, pages[0]!), pages[0]);
    }
  }
  for (const page of [2, 1]) for (const g of [0, 1]) pools.groups[g]!.release(page);
  pools.groups[2]!.release(1);
  assert.deepEqual([saved, pools.numEvictions, pools.directory!.numEntries], [[], 0, 2]);

  assert.ok(pools.tryTake(0, pages, 0, 1));
  assert.deepEqual([saved, pools.numEvictions, pools.directory!.numEntries], [["0: 2"], 1, 2]);
  assert.ok(pools.tryTake(1, pages, 0, 1));
  assert.deepEqual([saved, pools.numEvictions, pools.directory!.numEntries], [["0: 2", "1: 2", "2: 1"], 2, 1]);
  assert.equal(pools.groups[2]!.numCached, 0);
  assert.ok(pools.tryTake(1, pages, 0, 1));
  assert.deepEqual(saved.slice(3), ["0: 1", "1: 1"]);
  assert.deepEqual([pools.numEvictions, pools.directory!.numEntries], [3, 0]);
});
