// Pages owned by transfers: out of one cache and into another, with the pools of both checked at every stage.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, tokensOf } from "../../test/support/simulation.js";
import { CacheManager } from "./cache-manager.js";

const P = 4;

function makeCache(numPages = 20, kinds: readonly ("full" | "window")[] = ["full", "window"]): CacheManager {
  const groups = kinds.map((kind) => (kind === "full" ? { kind, numPages } : { kind, numPages, window: 6 }));
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

test("a prompt's leading pages are lent as far as they are cached, whoever owns them, to its own tenant", () => {
  const cache = makeCache();
  const owner = makeRequest("owner", tokensOf(1, 13), { salt: "tenant" });
  assert.ok(cache.tryAdmit(owner));
  owner.numComputed = 13;
  cache.publish(owner);
  const lent = (prompt: number[], salt = "tenant"): number[][] => {
    const transfer = cache.transfers.lendPrefix(Int32Array.from(prompt), salt);
    cache.checkIntegrity([owner]);
    cache.transfers.end(transfer);
    return transfer.items.map(({ record }) => [...record.tokens]);
  };
  const pages = [0, 1, 2].map((i) => tokensOf(1, 13).slice(P * i, P * (i + 1)));
  assert.deepEqual(lent(tokensOf(1, 13)), pages);
  assert.deepEqual(lent(tokensOf(1, 12)), pages, "to the last token");
  assert.deepEqual(lent(tokensOf(1, 11)), pages.slice(0, 2));
  assert.deepEqual(lent([...tokensOf(1, 4), 9, 9, 9, 9, ...tokensOf(1, 12).slice(8)]), pages.slice(0, 1));
  assert.deepEqual(lent(tokensOf(1, 3)), []);
  assert.deepEqual(lent(tokensOf(1, 13), ""), [], "another tenant's");
  const none = new CacheManager({ pageSize: P, prefixCaching: false, groups: [{ kind: "full", numPages: 4 }] });
  assert.deepEqual(none.transfers.lendPrefix(Int32Array.from(tokensOf(1, 8)), "").items, []);
  cache.checkIntegrity([owner]);
});

test("all that is cached is lent, to the coldest page, whichever groups there are; and comes back where it was", () => {
  for (const kinds of [["full"], ["window"], ["window", "full"]] as const) {
    const cache = makeCache(4, kinds);
    for (const [i, length] of [4, 8].entries()) remember(cache, `${i}`, tokensOf(i + 1, length));
    const queues = () => kinds.map((_, g) => cache.freeQueue(g));
    const before = queues();
    const lent = cache.transfers.lend();
    assert.equal(lent.items.length, 3, `${kinds}`);
    cache.checkIntegrity([]);
    assert.deepEqual([cache.stats().pagesUsed, cache.stats().pagesFree], [3 * kinds.length, 0]);
    cache.transfers.end(lent);
    assert.deepEqual(queues(), before);
    cache.checkIntegrity([]);
  }
});

test("what one group has lost is lent without it, and the others' pages come back", () => {
  const groups = [{ kind: "window", numPages: 4, window: 6 } as const, { kind: "full", numPages: 9 } as const];
  const cache = new CacheManager({ pageSize: P, prefixCaching: true, maxChunk: P, groups });
  const long = makeRequest("long", tokensOf(1, 21));
  assert.ok(cache.tryAdmit(long));
  for (let end = P; end <= 20; end += P) {
    assert.ok(cache.tryReserve(long, long.numTokens));
    long.numComputed = end;
    cache.publish(long);
  }
  cache.release(long);
  const lent = cache.transfers.lend();
  assert.deepEqual(
    lent.items.map(({ pages }) => pages[0] !== 0),
    [false, false, true, true, true],
  );
  assert.ok(lent.items.every(({ pages }) => pages[1] !== 0));
  cache.transfers.end(lent);
  cache.checkIntegrity([]);
  assert.equal(cache.stats().pagesUsed, 0);
});

test("what arrives needs a page of every full group, and of one group at least", () => {
  const from = makeCache();
  remember(from, "a", tokensOf(1, 5));
  const { record } = from.transfers.lend().items[0]!;
  const receive = (kinds: readonly ("full" | "window")[], wanted: boolean[]): number[] | null => {
    const cache = makeCache(3, kinds);
    const pages = cache.transfers.receive(cache.transfers.begin(), record, wanted)?.pages;
    cache.checkIntegrity([]);
    return pages === undefined ? null : [...pages];
  };
  assert.deepEqual(receive(["full", "window"], [true, false]), [1, 0]);
  assert.equal(receive(["full", "window"], [false, true]), null);
  assert.equal(receive(["full", "full"], [true, false]), null);
  assert.equal(receive(["window", "window"], [false, false]), null);
  assert.deepEqual(receive(["window", "window"], [false, true]), [0, 1]);
});
