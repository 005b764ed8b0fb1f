// The block-pool example of a peer's prefix-cache documentation (F): blocks of 4, 10 of them. Ours are numbered 1 to 10, since 0 is the
// null page; the helpers below speak the text's numbers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CacheManager } from "../../src/cache/cache-manager.js";
import type { Request } from "../../src/core/request.js";
import { makeRequest, tokensOf } from "../support/simulation.js";

function blocksOf(request: Request): number[] {
  return [...request.tables[0]!.pages.slice(0, request.tables[0]!.numPages)].map((page) => page - 1);
}

function queueOf(cache: CacheManager): number[] {
  return cache.freeQueue().map((page) => page - 1);
}

/** The text's history up to both requests' end: the first takes blocks 0 to 4, the second 0, 1, 5 and 6. */
function playHistory(): CacheManager {
  const cache = new CacheManager({ pageSize: 4, prefixCaching: true, groups: [{ kind: "full", numPages: 11 }] });
  const first = makeRequest("first", tokensOf(1, 15));
  assert.ok(cache.tryAdmit(first));
  first.numComputed = 15;
  cache.publish(first);
  for (const token of [101, 102]) {
    first.appendToken(token);
    assert.ok(cache.tryReserve(first, first.numTokens));
    first.numComputed = first.numTokens;
    cache.publish(first);
  }
  assert.deepEqual(blocksOf(first), [0, 1, 2, 3, 4]);

  const second = makeRequest("second", [...tokensOf(1, 10), ...tokensOf(2, 4)]);
  assert.ok(cache.tryAdmit(second));
  assert.equal(second.numSharedPages, 2, "10 equal tokens are 2 full blocks");
  second.numComputed = 14;
  cache.publish(second);
  assert.deepEqual(blocksOf(second), [0, 1, 5, 6]);

  cache.release(first);
  assert.deepEqual(queueOf(cache), [7, 8, 9, 4, 3, 2], "in reverse order to the tail; 0 and 1 are still in use");
  cache.release(second);
  return cache;
}

test("F: the free queue is 7-8-9-4-3-2-6-5-1-0; only full blocks are cached", () => {
  const cache = playHistory();
  assert.deepEqual(queueOf(cache), [7, 8, 9, 4, 3, 2, 6, 5, 1, 0]);
  const cached = cache
    .snapshot()
    .nodes.map((node) => node.pages[0]! - 1)
    .sort((a, b) => a - b);
  assert.deepEqual(cached, [0, 1, 2, 3, 5], "blocks 4 and 6 are partial");
});

test("F: a 29-token request with 12 cached tokens touches 0, 1, 2 in the middle of the queue and receives 7, 8, 9, 4, 3", () => {
  const cache = playHistory();
  const prompt = [...tokensOf(1, 12), ...tokensOf(3, 17)];
  const touching = makeRequest("touching", prompt);
  assert.equal(cache.attach(touching), 12);
  assert.deepEqual(blocksOf(touching), [0, 1, 2]);
  assert.deepEqual(queueOf(cache), [7, 8, 9, 4, 3, 6, 5]);
  assert.ok(cache.tryReserve(touching, 29));
  assert.deepEqual(blocksOf(touching), [0, 1, 2, 7, 8, 9, 4, 3]);
  assert.deepEqual(queueOf(cache), [6, 5]);
  assert.equal(cache.stats().evictions, 1, "block 3 was cached");
  cache.checkIntegrity([touching]);
});

test("F: identical concurrent requests compute duplicates, as there; publishing keeps one and frees the other at once", () => {
  const cache = new CacheManager({ pageSize: 4, prefixCaching: true, groups: [{ kind: "full", numPages: 11 }] });
  const twins = ["a", "b"].map((id) => makeRequest(id, tokensOf(1, 9)));
  for (const twin of twins) assert.ok(cache.tryAdmit(twin));
  assert.deepEqual(twins.map(blocksOf), [
    [0, 1, 2],
    [3, 4, 5],
  ]);
  for (const twin of twins) {
    twin.numComputed = 9;
    cache.publish(twin);
  }
  assert.deepEqual(twins.map(blocksOf), [
    [0, 1, 2],
    [0, 1, 5],
  ]);
  assert.deepEqual(queueOf(cache), [4, 3, 6, 7, 8, 9], "worthless pages are taken first");
  cache.checkIntegrity(twins);
});
