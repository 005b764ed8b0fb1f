// Models of several cache groups: what each group keeps, what it gives back, and at which boundaries all of them can resume.
import assert from "node:assert/strict";
import { test } from "node:test";
import { forkOf, makeRequest, tokensOf } from "../../test/support/simulation.js";
import type { Request } from "../core/request.js";
import type { GroupOptions } from "./cache-group.js";
import { CacheManager } from "./cache-manager.js";

const FULL: GroupOptions = { kind: "full", numPages: 41 };
const WINDOW: GroupOptions = { kind: "window", numPages: 21, window: 6 };
const STATE: GroupOptions = { kind: "state", numPages: 7 };

function makeCache(...groups: GroupOptions[]): CacheManager {
  return new CacheManager({ pageSize: 4, prefixCaching: true, maxChunk: 8, groups });
}

/** Computes up to `end` in chunks of 8, as steps would; returns the request. */
function computeTo(cache: CacheManager, request: Request, end: number): Request {
  while (request.numComputed < end) {
    assert.ok(cache.tryReserve(request, end));
    request.numComputed = Math.min(end, request.numComputed + 8);
    cache.states?.snapshot(request);
    cache.publish(request);
  }
  return request;
}

function prefill(cache: CacheManager, request: Request): Request {
  assert.ok(cache.tryAdmit(request));
  return computeTo(cache, request, request.numTokens);
}

test("a window group gives back what no later token sees, and keeps it cached", () => {
  const cache = makeCache(FULL, WINDOW);
  const a = prefill(cache, makeRequest("a", tokensOf(1, 33)));
  const [full, window] = a.tables as [(typeof a.tables)[0], (typeof a.tables)[0]];
  assert.equal(full.numHeld, 9);
  // The token at 33 sees positions 28 on: pages 7 and 8.
  assert.deepEqual([window.first, window.numPages, window.numHeld], [7, 9, 2]);
  assert.deepEqual([...window.pages.slice(0, 7)], [0, 0, 0, 0, 0, 0, 0]);
  assert.equal(cache.stats().groups[1]!.pagesCached, 7);
  cache.checkIntegrity([a]);
  window.pages[6] = 3;
  assert.throws(() => cache.checkIntegrity([a]), /a: page 6 is behind the window/);
});

test("admission asks a window group for a chunk, not for the whole prompt", () => {
  const cache = makeCache({ kind: "window", numPages: 6, window: 6 });
  const long = makeRequest("long", tokensOf(1, 100));
  assert.equal(cache.maxTokens, Infinity);
  assert.ok(cache.tryAdmit(long));
  assert.equal(long.tables[0]!.numHeld, 2);
  computeTo(cache, long, 100);
  cache.checkIntegrity([long]);
  const tooSmall = makeCache({ kind: "window", numPages: 4, window: 6 });
  assert.equal(tooSmall.maxTokens, 12, "a pool below window + chunk limits the context");
  const [chunks, tooFew] = [6, 5].map((numPages) => makeCache({ kind: "window", numPages, attentionChunk: 8 }));
  assert.deepEqual([chunks!.maxTokens, tooFew!.maxTokens], [Infinity, 16], "an attention chunk is as a window");
  assert.equal(chunks!.snapshot().groups[0]!.window, 8);
});

test("a hit needs the last window's pages only", () => {
  const cache = makeCache(FULL, WINDOW);
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 41))));
  // Others take the window's oldest pages: 20 in the pool, 10 cached, of which 5 are lost.
  const other = makeRequest("other", tokensOf(2, 60));
  assert.ok(cache.tryReserve(other, 1));
  const hog = makeRequest("hog", tokensOf(3, 1));
  assert.ok(cache.tryReserve(hog, 1));
  const same = makeRequest("same", tokensOf(1, 41));
  assert.equal(cache.attach(same), 40);
  const [full, window] = same.tables as [(typeof same.tables)[0], (typeof same.tables)[0]];
  assert.deepEqual([full.numHeld, window.first, window.numHeld], [10, 8, 2]);
  cache.checkIntegrity([other, hog, same]);
});

test("where a window's pages are gone, the hit ends at the last boundary that has them", () => {
  const cache = makeCache(FULL, { kind: "window", numPages: 6, window: 6 });
  const a = prefill(cache, makeRequest("a", tokensOf(1, 41)));
  cache.release(a);
  // Five pages in the pool, so only the last of a's window pages are left.
  assert.equal(cache.attach(makeRequest("early", [...tokensOf(1, 12), 7, 7, 7])), 0, "nothing to resume at 12");
  assert.equal(cache.attach(makeRequest("late", [...tokensOf(1, 40), 7])), 40);
});

test("a prompt under way takes over more pages than its window group has room for", () => {
  const cache = makeCache(WINDOW);
  const behind = makeRequest("behind", tokensOf(1, 70));
  assert.ok(cache.tryAdmit(behind));
  assert.equal(behind.tables[0]!.numPages, 2);
  const ahead = prefill(cache, makeRequest("ahead", tokensOf(1, 69)));
  assert.equal(cache.advance(behind), 68);
  const table = behind.tables[0]!;
  assert.deepEqual([table.first, table.numPages], [15, 17]);
  assert.equal(table.pages[16], ahead.tables[0]!.pages[16]);
  cache.checkIntegrity([behind, ahead]);
});

test("a prompt under way gives back what it has computed itself and no longer sees", () => {
  const cache = makeCache(WINDOW);
  const behind = makeRequest("behind", tokensOf(1, 70));
  assert.ok(cache.tryAdmit(behind));
  computeTo(cache, behind, 8);
  const ahead = prefill(cache, makeRequest("ahead", tokensOf(1, 69)));
  assert.equal(cache.advance(behind), 60);
  assert.deepEqual([behind.tables[0]!.first, behind.tables[0]!.numPages], [15, 17]);
  cache.checkIntegrity([behind, ahead]);
});

test("admission counts the next chunk of a window after what is cached, and changes nothing where that is too much", () => {
  const cache = makeCache({ kind: "window", numPages: 6, window: 6 });
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 41))));
  const hog = makeRequest("hog", tokensOf(2, 8));
  assert.ok(cache.tryReserve(hog, 8));
  // Three pages are left, two of them the hit's, and a chunk after it takes two.
  const long = makeRequest("long", [...tokensOf(1, 40), ...tokensOf(3, 20)]);
  const before = cache.stats();
  assert.equal(cache.tryAdmit(long), false);
  assert.deepEqual(cache.stats(), before);
  assert.ok(cache.tryAdmit(makeRequest("short", [...tokensOf(1, 40), 7])));
});

test("a request that comes back further on than it was has nothing in its table before its window", () => {
  const cache = makeCache(WINDOW);
  const a = makeRequest("a", tokensOf(1, 41));
  assert.ok(cache.tryAdmit(a));
  computeTo(cache, a, 8);
  cache.release(a);
  cache.release(prefill(cache, makeRequest("other", tokensOf(1, 41))));
  assert.equal(cache.attach(a), 40);
  assert.deepEqual([...a.tables[0]!.pages.subarray(0, a.tables[0]!.first)], new Array(8).fill(0));
  cache.checkIntegrity([a]);
});

test("a prompt under way goes on from the snapshot at the last boundary it takes over", () => {
  const cache = makeCache(FULL, STATE);
  const behind = makeRequest("behind", tokensOf(1, 33));
  assert.ok(cache.tryAdmit(behind));
  const ahead = prefill(cache, makeRequest("ahead", tokensOf(1, 30)));
  assert.equal(cache.advance(behind), 24);
  const snapshots = cache.snapshot().nodes.map(({ pages }) => pages[1]!);
  assert.equal(snapshots.filter((slot) => slot !== 0).length, 3, "at 8, 16 and 24");
  const { before } = cache.states!;
  assert.deepEqual([before.count, before.from[0], before.to[0]], [1, snapshots[5], behind.tables[1]!.pages[0]]);
  cache.checkIntegrity([behind, ahead]);
});

test("an entry counts as many owners as its most owned page has", () => {
  const cache = makeCache(FULL, WINDOW);
  prefill(cache, makeRequest("a", tokensOf(1, 33)));
  const { nodes } = cache.snapshot();
  assert.deepEqual([nodes[0]!.pages[1]! > 0, nodes[0]!.refs], [true, 1], "the window has given it back");
});

test("a state resumes at snapshots alone: the ends of chunks", () => {
  const cache = makeCache(FULL, STATE);
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 30))));
  // Chunks ended at 8, 16, 24 and 30; the last is no page boundary.
  const b = makeRequest("b", [...tokensOf(1, 22), 5, 5, 5]);
  assert.equal(cache.attach(b), 16, "five pages are cached, but the state only at 16");
  const { before } = cache.states!;
  assert.equal(before.count, 1);
  assert.equal(before.to[0], b.tables[1]!.pages[0]);
  cache.checkIntegrity([b]);
});

test("losing a full page takes what hangs under it; losing a snapshot takes nothing else", () => {
  const cache = makeCache({ kind: "full", numPages: 10 }, STATE);
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 33))));
  assert.deepEqual(
    cache.stats().groups.map((group) => group.pagesCached),
    [8, 4],
  );
  const b = makeRequest("b", tokensOf(2, 8));
  assert.ok(cache.tryReserve(b, 8));
  // It takes the partial page and the last full one: the boundary at 32 and its snapshot are gone, 24 is there.
  assert.deepEqual(
    cache.stats().groups.map((group) => group.pagesCached),
    [7, 3],
  );
  assert.equal(cache.attach(makeRequest("c", tokensOf(1, 33))), 24);
});

test("losing a full page takes what other groups have of it, those before its own too", () => {
  const cache = makeCache({ kind: "latent", numPages: 20 }, { kind: "full", numPages: 10 }, WINDOW);
  cache.release(prefill(cache, makeRequest("a", tokensOf(1, 33))));
  const b = makeRequest("b", tokensOf(2, 8));
  assert.ok(cache.tryAdmit(b));
  assert.deepEqual(
    cache.stats().groups.map((group) => group.pagesCached),
    [7, 7, 7],
  );
  cache.checkIntegrity([b]);
});

test("a request that never had pages can be given up, whatever the groups; and one that has, before its snapshot is settled", () => {
  const cache = makeCache(FULL, WINDOW, STATE);
  cache.release(makeRequest("waiting", tokensOf(1, 9)));
  const a = makeRequest("a", tokensOf(1, 9));
  assert.ok(cache.tryAdmit(a));
  a.numComputed = 8;
  cache.states!.snapshot(a);
  assert.equal(a.pendingSnapshots.length, 1);
  cache.checkIntegrity([a]);
  assert.deepEqual([cache.numPaged, makeCache(FULL, WINDOW).numPaged], [2, 2]);
  cache.discard(a);
  cache.checkIntegrity([]);
  assert.equal(cache.stats().pagesUsed, 0);
});

/** A prompt of 8 tokens and an answer of 32. */
function answer(cache: CacheManager): void {
  const a = makeRequest("a", tokensOf(1, 8), { maxTokens: 40 });
  prefill(cache, a);
  assert.equal(cache.stats().pagesCached, 1, "one at 8");
  for (let i = 0; i < 32; i++) {
    a.appendToken(i);
    computeTo(cache, a, a.numTokens);
  }
  assert.deepEqual([cache.stats().pagesCached, cache.stats().pagesUsed], [2, 1], "8 and 40");
}

test("snapshots leave a slot for the next request, and an answer keeps its newest alone", () => {
  const roomy = makeCache({ kind: "state", numPages: 40 });
  answer(roomy);
  assert.equal(roomy.attach(makeRequest("again", [...tokensOf(1, 8), 9])), 8, "the prompt's own is not the answer's");
  const cache = makeCache({ kind: "state", numPages: 4 });
  answer(cache);
  assert.ok(cache.tryAdmit(makeRequest("b", tokensOf(2, 3))));
  assert.ok(cache.tryAdmit(makeRequest("c", tokensOf(3, 3))), "snapshots make room for running requests");
  assert.equal(cache.tryAdmit(makeRequest("d", tokensOf(4, 3))), false);
});

test("a fork copies the partial page of every group, and the state", () => {
  const cache = makeCache(FULL, WINDOW, STATE);
  const parent = prefill(cache, makeRequest("parent", tokensOf(1, 30)));
  parent.appendToken(3);
  const child = forkOf(parent, "child", 4);
  const copy = cache.fork(parent, child)!;
  for (const g of [0, 1])
    assert.deepEqual([copy.from[g], copy.to[g]], [parent.tables[g]!.pages[7], child.tables[g]!.pages[7]]);
  const { before } = cache.states!;
  assert.deepEqual([before.from[0], before.to[0]], [parent.tables[2]!.pages[0], child.tables[2]!.pages[0]]);
  assert.equal(child.tables[1]!.first, 6, "what the child sees, no more");
  cache.checkIntegrity([parent, child]);
  const elsewhere = makeRequest("elsewhere", [...tokensOf(1, 20), 9, 9]);
  assert.equal(cache.fork(parent, elsewhere), null, "the parent's state is past it, and its window too");
  assert.equal(cache.attach(elsewhere), 16, "it finds the snapshot instead");
  const windowed = makeCache(FULL, WINDOW);
  const long = prefill(windowed, makeRequest("long", tokensOf(1, 30)));
  const earlier = makeRequest("earlier", [...tokensOf(1, 20), 9, 9]);
  assert.equal(windowed.fork(long, earlier), null, "the parent has given back what it would see");
  assert.equal(earlier.numComputed, 0);
});

test("a fork needs one page or slot of each group, and no more", () => {
  for (const groups of [
    [{ kind: "state", numPages: 3 }],
    [{ kind: "full", numPages: 4 }],
    [{ kind: "window", numPages: 4, window: 6 }],
  ] as const) {
    const cache = makeCache(...groups);
    const parent = prefill(cache, makeRequest("parent", tokensOf(1, 6)));
    assert.equal(cache.available(), 1);
    parent.appendToken(3);
    assert.ok(cache.fork(parent, forkOf(parent, "child", 4)), groups[0].kind);
    assert.equal(cache.available(), 0);
    assert.equal(cache.fork(parent, forkOf(parent, "another", 5)), null, groups[0].kind);
  }
});

test("all groups or none: a pool that is short leaves the others untouched", () => {
  const cache = makeCache(FULL, { kind: "latent", numPages: 3 }, STATE);
  const a = makeRequest("a", tokensOf(1, 12));
  assert.equal(cache.tryAdmit(a), false);
  assert.equal(cache.stats().pagesUsed, 0);
  assert.ok(cache.tryAdmit(makeRequest("b", tokensOf(1, 8))));
  assert.equal(cache.maxTokens, 8, "the smallest pool says how long a request can get");
});

test("without prefix caching a window's pages are free as soon as nobody sees them, and the next to be taken", () => {
  const groups = [{ kind: "window", numPages: 8, window: 6 }] as const;
  const cache = new CacheManager({ pageSize: 4, prefixCaching: false, maxChunk: 8, groups });
  const a = prefill(cache, makeRequest("a", tokensOf(1, 17)));
  assert.deepEqual([a.tables[0]!.first, a.tables[0]!.numPages, a.tables[0]!.numHeld], [3, 5, 2]);
  assert.deepEqual(cache.freeQueue().slice(-2), [6, 7], "those that were never used come last");
  assert.equal(cache.available(), 5);
  cache.checkIntegrity([a]);
});
