import assert from "node:assert/strict";
import { test } from "node:test";
import { forkOf, makeRequest, tokensOf } from "../../test/support/simulation.js";
import { makeCache, pagesOf, prefill } from "../../test/support/small-cache.js";
import type { Request } from "../core/request.js";
import { CacheManager } from "./cache-manager.js";
import { HASH_WORDS, hashSalt } from "./page-hash.js";
import { commonLen, hashPages, haveSamePage } from "./request-pages.js";

test("attach locks the longest cached prefix of full pages", () => {
  const cache = makeCache(20);
  const first = prefill(cache, makeRequest("first", tokensOf(1, 10)));
  const second = makeRequest("second", [...tokensOf(1, 10), 1, 2, 3]);
  assert.equal(cache.attach(second), 8, "two full pages of four; the partial third is not shared");
  assert.deepEqual(pagesOf(second), pagesOf(first).slice(0, 2));
  assert.equal(second.numSharedPages, 2);
  assert.equal(second.numComputed, 8);
  const other = makeRequest("other", [...tokensOf(1, 5), 9, 9, 9, 9]);
  assert.equal(cache.attach(other), 4, "one equal page");
  cache.checkIntegrity([first, second, other]);
});

test("pages that only rejected drafts needed come back", () => {
  const cache = makeCache(20);
  const request = prefill(cache, makeRequest("drafted", tokensOf(1, 7)));
  const before = cache.stats().pagesUsed;
  assert.ok(cache.tryReserve(request, 7 + 6));
  assert.equal(cache.stats().pagesUsed, before + 2);
  cache.trim(request);
  assert.equal(cache.stats().pagesUsed, before);
  assert.equal(pagesOf(request).length, 2);
  cache.checkIntegrity([request]);
});

test("attach leaves at least one token to compute", () => {
  const cache = makeCache(20);
  const first = prefill(cache, makeRequest("first", tokensOf(1, 8)));
  const same = makeRequest("same", tokensOf(1, 8));
  assert.equal(cache.attach(same), 4);
  cache.checkIntegrity([first, same]);
});

test("a request that wants prompt logprobs reads no cache but feeds it", () => {
  const cache = makeCache(20);
  const scored = prefill(cache, makeRequest("scored", tokensOf(1, 9), { promptLogprobs: 0 }));
  assert.equal(cache.attach(makeRequest("plain", tokensOf(1, 9))), 8);
  assert.equal(cache.attach(makeRequest("scored again", tokensOf(1, 9), { promptLogprobs: 2 })), 0);
  assert.equal(scored.numSharedPages, 2);
});

test("tenants of different salt never share", () => {
  const cache = makeCache(20);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 9), { salt: "a" }));
  const b = prefill(cache, makeRequest("b", tokensOf(1, 9), { salt: "b" }));
  const none = prefill(cache, makeRequest("none", tokensOf(1, 9)));
  assert.equal(new Set([...pagesOf(a), ...pagesOf(b), ...pagesOf(none)]).size, 9);
  cache.checkIntegrity([a, b, none]);
});

test("tryReserve is all or nothing", () => {
  const cache = makeCache(3);
  const request = makeRequest("r", tokensOf(1, 16));
  assert.equal(cache.tryReserve(request, 16), false);
  assert.equal(request.tables[0]!.numPages, 0);
  assert.equal(cache.available(), 3);
  assert.ok(cache.tryReserve(request, 12));
  assert.ok(cache.tryReserve(request, 9), "pages it has already are enough");
  assert.equal(request.tables[0]!.numPages, 3);
});

test("publishing an identical page frees ours and takes the one that is there", () => {
  const cache = makeCache(20);
  const a = makeRequest("a", tokensOf(1, 10));
  const b = makeRequest("b", tokensOf(1, 10));
  for (const request of [a, b]) {
    cache.attach(request);
    cache.tryReserve(request, 10);
    request.numComputed = 10;
  }
  assert.equal(cache.available(), 14);
  cache.publish(a);
  cache.publish(b);
  assert.deepEqual(pagesOf(b).slice(0, 2), pagesOf(a).slice(0, 2));
  assert.notEqual(b.tables[0]!.pages[2], a.tables[0]!.pages[2], "partial pages stay private");
  assert.equal(cache.available(), 16);
  cache.checkIntegrity([a, b]);
});

test("released pages stay cached until they are needed, oldest and deepest first", () => {
  const cache = makeCache(6);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 12)));
  cache.release(a);
  const b = prefill(cache, makeRequest("b", tokensOf(2, 12)));
  cache.release(b);
  assert.deepEqual([a.tables[0]!.numPages, a.numComputed, a.numSharedPages], [0, 0, 0]);
  assert.equal(cache.stats().pagesCached, 6);
  assert.equal(cache.stats().pagesFree, 0);

  const c = makeRequest("c", tokensOf(3, 8));
  assert.ok(cache.tryReserve(c, 8));
  assert.equal(cache.stats().evictions, 2);
  assert.equal(cache.attach(makeRequest("a again", tokensOf(1, 13))), 4, "a lost its last two pages, not its first");
  cache.checkIntegrity([c, makeOwner("a again", [1])]);
});

/** A stand-in for whoever owns these pages. */
function makeOwner(id: string, pages: number[]): Request {
  const owner = makeRequest(id, tokensOf(1, 13));
  hashPages(owner, pages.length, 4);
  owner.tables[0]!.pages.set(pages);
  owner.tables[0]!.numPages = pages.length;
  owner.numSharedPages = pages.length;
  owner.numComputed = pages.length * 4;
  return owner;
}

test("a page somebody owns is never evicted", () => {
  const cache = makeCache(4);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 8)));
  const b = makeRequest("b", tokensOf(2, 12));
  assert.equal(cache.tryAdmit(b), false);
  assert.deepEqual([b.tables[0]!.numPages, cache.available()], [0, 2]);
  assert.ok(cache.tryReserve(b, 8));
  cache.checkIntegrity([a, b]);
});

test("tryAdmit counts a hit that nobody owns as taken, not as free", () => {
  const cache = makeCache(4);
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 8))));
  // 2 hits + 3 missing pages, of 4: the 2 hits are "available" until they are locked.
  const big = makeRequest("big", [...tokensOf(1, 8), ...tokensOf(2, 12)]);
  assert.equal(cache.available(), 4);
  assert.equal(cache.tryAdmit(big), false);
  const fits = makeRequest("fits", [...tokensOf(1, 8), ...tokensOf(2, 8)]);
  assert.equal(cache.tryAdmit(fits), true);
  assert.deepEqual([fits.numComputed, fits.tables[0]!.numPages], [8, 4]);
  cache.checkIntegrity([fits]);
});

test("a hit that somebody owns takes no page", () => {
  const cache = makeCache(4);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 9)));
  const b = makeRequest("b", [...tokensOf(1, 8), 7]);
  assert.equal(cache.available(), 1);
  assert.ok(cache.tryAdmit(b));
  cache.checkIntegrity([a, b]);
});

test("a prompt with a chunk in flight takes nothing over, nor does one that reads no cache", () => {
  const cache = makeCache(20);
  const inFlight = makeRequest("in flight", tokensOf(1, 12));
  const scored = makeRequest("scored", tokensOf(1, 12), { promptLogprobs: 0 });
  for (const request of [inFlight, scored]) assert.ok(cache.tryAdmit(request));
  Object.assign(inFlight, { numComputed: 4, numInFlight: 4 });
  prefill(cache, makeRequest("ahead", tokensOf(1, 12)));
  assert.deepEqual([cache.advance(inFlight), cache.advance(scored)], [0, 0]);
  assert.deepEqual([inFlight.numComputed, scored.numComputed], [4, 0]);
});

test("a refused admission leaves no trace in the statistics", () => {
  const cache = makeCache(2);
  const big = makeRequest("big", tokensOf(1, 100));
  for (let i = 0; i < 5; i++) assert.equal(cache.tryAdmit(big), false);
  assert.equal(cache.stats().lookups, 0);
});

test("discard publishes nothing", () => {
  const cache = makeCache(8);
  const a = makeRequest("a", tokensOf(1, 10));
  assert.ok(cache.tryAdmit(a));
  a.numComputed = 10;
  cache.discard(a);
  assert.equal(cache.attach(makeRequest("b", tokensOf(1, 10))), 0);
  assert.equal(cache.stats().pagesFree, 8);
  assert.equal(a.tables[0]!.numPages, 0);
});

test("pages that were discarded are used again before anything cached is evicted", () => {
  const cache = makeCache(6);
  cache.release(prefill(cache, makeRequest("kept", tokensOf(1, 9))));
  const failed = makeRequest("failed", tokensOf(2, 16));
  assert.ok(cache.tryAdmit(failed));
  cache.discard(failed);
  assert.ok(cache.tryAdmit(makeRequest("next", tokensOf(3, 16))));
  assert.equal(cache.attach(makeRequest("again", tokensOf(1, 9))), 8);
});

test("discard keeps what earlier steps had published", () => {
  const cache = makeCache(8);
  const a = makeRequest("a", tokensOf(1, 10));
  assert.ok(cache.tryAdmit(a));
  a.numComputed = 4;
  cache.publish(a);
  a.numComputed = 8; // a failed step
  cache.discard(a);
  assert.equal(cache.attach(makeRequest("b", tokensOf(1, 10))), 4);
});

test("what a parent has for its child ends with what has landed, with the child, and where they differ", () => {
  const parent = makeRequest("parent", [1, 2, 3, 4, 5], { maxTokens: 3 });
  const common = (tokens: number[], numComputed: number, numInFlight = 0): number =>
    commonLen(Object.assign(parent, { numComputed, numInFlight }), makeRequest("child", tokens, { maxTokens: 3 }));
  assert.deepEqual([common([1, 2, 3, 4], 3), common([1, 2, 3, 4], 5, 2), common([1, 2], 5)], [3, 3, 2]);
  assert.deepEqual([common([1, 2, 9, 4], 5), common([9, 2], 5), common([1, 2, 3, 4, 5, 6], 5)], [2, 0, 5]);
});

test("comparing a page hashes none after it: that one may not be full yet", () => {
  const [a, b] = ["a", "b"].map((id) => makeRequest(id, tokensOf(1, 6))) as [Request, Request];
  assert.ok(haveSamePage(a, b, 0, 4));
  assert.deepEqual([a.numHashedPages, b.numHashedPages], [1, 1]);
});

test("without prefix caching nothing is found again", () => {
  const cache = makeCache(8, 4, false);
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 9))));
  assert.equal(cache.attach(makeRequest("b", tokensOf(1, 9))), 0);
  assert.deepEqual([cache.stats().pagesFree, cache.stats().pagesCached, cache.stats().entries], [8, 0, 0]);
});

test("hit statistics count lookups, hits and tokens, also those taken over while a prompt is under way", () => {
  const cache = makeCache(20);
  const counts = () => {
    const { lookups, hits, queriedTokens, hitTokens } = cache.stats();
    return [lookups, hits, queriedTokens, hitTokens];
  };
  const behind = makeRequest("behind", tokensOf(1, 10));
  assert.ok(cache.tryAdmit(behind));
  assert.deepEqual(counts(), [1, 0, 10, 0]);
  const ahead = prefill(cache, makeRequest("ahead", tokensOf(1, 10)));
  assert.equal(cache.advance(behind), 8);
  assert.deepEqual(counts(), [2, 0, 20, 8]);
  for (const length of [6, 9]) cache.attach(makeRequest(`of ${length}`, tokensOf(1, length)));
  assert.deepEqual(counts(), [4, 2, 35, 20]);
  assert.equal(cache.stats().entries, 2);
  assert.equal(ahead.numComputed, 10);
});

test("a prompt that has one page shares the next ones of a prompt with the same beginning", () => {
  const cache = makeCache(20);
  prefill(cache, makeRequest("first", tokensOf(1, 5)));
  const behind = makeRequest("behind", tokensOf(1, 17));
  assert.ok(cache.tryAdmit(behind));
  assert.equal(behind.numComputed, 4);
  prefill(cache, makeRequest("ahead", tokensOf(1, 17)));
  assert.equal(cache.advance(behind), 12);
});

test("pages of an answer keep their identities however long it gets, a fork's too", () => {
  const cache = makeCache(300);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 8), { maxTokens: 600 }));
  const grow = (request: Request, count: number) => {
    for (let i = 0; i < count; i++) request.appendToken(i);
    assert.ok(cache.tryReserve(request, request.numTokens));
    request.numComputed = request.numTokens;
    cache.publish(request);
  };
  for (let i = 0; i < 40; i++) grow(a, 8);
  const child = forkOf(a, "child", 77, { maxTokens: 600 });
  assert.ok(cache.fork(a, child));
  grow(child, 100);
  cache.checkIntegrity([a, child]);
  for (const request of [a, child]) {
    const again = makeRequest("again", [...request.tokens.subarray(0, request.numTokens), 1]);
    assert.equal(cache.attach(again), request.numTokens);
    cache.discard(again);
  }
});

test("the snapshot shows every page and entry, and names no salt", () => {
  const cache = makeCache(5, 2);
  const a = prefill(cache, makeRequest("a", [1, 2, 3, 4, 5], { salt: "secret" }));
  cache.release(prefill(cache, makeRequest("b", [7, 8, 9])));
  const snapshot = cache.snapshot();
  assert.deepEqual(
    snapshot.groups[0]!.pages.map((page) => page.state),
    ["null", "used", "used", "used", "cached", "free"],
  );
  assert.deepEqual(
    snapshot.nodes.map(({ id, pages, parent, tokens, refs }) => ({ id, page: pages[0], parent, tokens, refs })),
    [
      { id: 1, page: 1, parent: 0, tokens: [1, 2], refs: 1 },
      { id: 2, page: 2, parent: 1, tokens: [3, 4], refs: 1 },
      { id: 3, page: 4, parent: 0, tokens: [7, 8], refs: 0 },
    ],
  );
  const root = new Int32Array(HASH_WORDS);
  hashSalt(root, 0, "secret");
  const named = (root[0]! >>> 0).toString(16).padStart(8, "0");
  assert.deepEqual(
    snapshot.nodes.map(({ saltHash }) => saltHash),
    [named, named, ""],
  );
  assert.ok(!JSON.stringify(snapshot).includes("secret"));
  cache.checkIntegrity([a]);
});

test("checkIntegrity finds pools that do not balance", () => {
  const cache = makeCache(8);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 10)));
  const b = prefill(cache, makeRequest("b", tokensOf(2, 10)));
  cache.checkIntegrity([a, b]);
  assert.throws(() => cache.checkIntegrity([a]), /page 4 has 0 owners, 1 are counted/);
  assert.throws(() => cache.checkIntegrity([a, b, b]), /page 4 has 2 owners, 1 are counted/);
  a.tokens[2] = 77;
  assert.throws(() => cache.checkIntegrity([a, b]), /a: page 1 holds other tokens/);
  a.tokens[2] = b.tokens[2]! - 100_000;
  a.tables[0]!.numPages = 2;
  assert.throws(() => cache.checkIntegrity([a, b]), /a has 2 pages for 10 tokens/);
  a.tables[0]!.numPages = 3;
  a.tables[0]!.pages[2] = a.tables[0]!.pages[1]!;
  assert.throws(() => cache.checkIntegrity([a, b]), /a: page 2 at 2 is in the directory/);
});

test("impossible sizes are refused with the option's name", () => {
  for (const numPages of [1, 0, -1, 2.5, Number.NaN, 2 ** 30]) {
    assert.throws(
      () => new CacheManager({ pageSize: 4, prefixCaching: true, groups: [{ kind: "full", numPages }] }),
      /Option numPages is/,
    );
  }
  for (const pageSize of [0, 2 ** 20 + 1]) {
    assert.throws(
      () => new CacheManager({ pageSize, prefixCaching: true, groups: [{ kind: "full", numPages: 4 }] }),
      new RegExp(`Option pageSize is ${pageSize}`),
    );
  }
  for (const [pageSize, numPages] of [
    [1, 2],
    [2 ** 20, 2 ** 11],
  ] as const)
    assert.ok(new CacheManager({ pageSize, prefixCaching: false, groups: [{ kind: "full", numPages }] }));
  const most = Math.floor(2 ** 31 / 3); // slots are 32-bit integers
  const tooMany = { pageSize: 3, prefixCaching: true, groups: [{ kind: "full", numPages: most + 1 }] } as const;
  assert.throws(() => new CacheManager(tooMany), new RegExp(`from 2 to ${most} `));
});
