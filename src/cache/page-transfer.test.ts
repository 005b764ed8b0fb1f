// Pages owned by transfers: out of one cache and into another, with the books of both checked at every stage.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, tokensOf } from "../../test/support/simulation.js";
import { CacheManager } from "./cache-manager.js";

const P = 4;

function makeCache(numPages = 20): CacheManager {
  const groups = [
    { kind: "full", numPages },
    { kind: "window", numPages, window: 6 },
  ] as const;
  return new CacheManager({ pageSize: P, prefixCaching: true, groups });
}

/** A sequence is computed, published and let go. */
function remember(cache: CacheManager, id: string, tokens: number[]): void {
  const request = makeRequest(id, tokens);
  assert.ok(cache.tryAdmit(request));
  request.numComputed = tokens.length;
  cache.release(request);
}

function cachedTokens(cache: CacheManager, tokens: number[]): number {
  const request = makeRequest("asks", tokens);
  const found = cache.attach(request);
  cache.release(request);
  return found;
}

test("what a cache lends another one can find, group by group, the hottest first", () => {
  const from = makeCache();
  remember(from, "old", tokensOf(1, 9));
  remember(from, "new", [...tokensOf(1, 4), ...tokensOf(2, 13)]);
  const lent = from.transfers.lend();
  from.checkIntegrity([]);
  assert.equal(from.stats().groups[0]!.pagesUsed, lent.items.length, "the transfer owns them");
  const identities = new Set([lent.items[0]!.record.parent.join()]);
  for (const { record } of lent.items) {
    assert.ok(identities.has(record.parent.join()), "a page comes before those that follow it");
    identities.add(record.hash.join());
  }

  const to = makeCache();
  const arriving = to.transfers.begin();
  for (const { record, pages } of lent.items) {
    const item = to.transfers.receive(
      arriving,
      record,
      Array.from(pages, (page) => page !== 0),
    )!;
    to.checkIntegrity([]);
    assert.equal(cachedTokens(to, [...record.tokens, 1]), 0, "not found before it is published");
    to.transfers.publish(item);
    to.checkIntegrity([]);
  }
  assert.equal(to.transfers.receive(arriving, lent.items[0]!.record, [true, true]), null, "it is here already");
  to.transfers.end(arriving);
  from.transfers.end(lent);
  for (const cache of [from, to]) {
    cache.checkIntegrity([]);
    assert.equal(cache.stats().pagesUsed, 0);
    assert.equal(cachedTokens(cache, [...tokensOf(1, 9), 5]), 8);
    assert.equal(cachedTokens(cache, [...tokensOf(1, 4), ...tokensOf(2, 13)]), 16);
  }
});

test("nothing is evicted for what arrives, and an identity that is not that of its tokens is refused", () => {
  const from = makeCache();
  remember(from, "a", tokensOf(1, 17));
  const lent = from.transfers.lend();
  const to = makeCache(3);
  const arriving = to.transfers.begin();
  const [first, second, third] = lent.items;
  const forged = { ...first!.record, tokens: Int32Array.from(tokensOf(9, 4)) };
  assert.equal(to.transfers.receive(arriving, forged, [true, true]), null);
  assert.ok(to.transfers.receive(arriving, first!.record, [true, true]));
  assert.ok(to.transfers.receive(arriving, second!.record, [true, true]));
  assert.equal(to.transfers.receive(arriving, third!.record, [true, true]), null, "the pool is full");
  to.transfers.end(arriving);
  to.checkIntegrity([]);
  assert.equal(to.stats().pagesFree, to.stats().pagesTotal, "what was never published is empty again");
});

test("a pool whose pages are all remembered takes what arrives only if it may evict, and then the coldest goes", () => {
  const from = makeCache();
  remember(from, "a", tokensOf(1, 5));
  const [first] = from.transfers.lend().items;
  const to = makeCache(3);
  const [cold, hot] = [tokensOf(2, 4), tokensOf(3, 4)];
  remember(to, "cold", cold);
  remember(to, "hot", hot);
  const arriving = to.transfers.begin();
  assert.equal(to.transfers.receive(arriving, first!.record, [true, true]), null);
  assert.equal(cachedTokens(to, [...cold, 1]), 4);
  assert.equal(cachedTokens(to, [...hot, 1]), 4);
  assert.ok(to.transfers.receive(arriving, first!.record, [true, true], true));
  to.transfers.end(arriving);
  to.checkIntegrity([]);
  assert.equal(cachedTokens(to, [...cold, 1]), 0);
  assert.equal(cachedTokens(to, [...hot, 1]), 4);
});
