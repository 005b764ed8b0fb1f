// What a child shares with its parent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { forkOf, makeRequest, tokensOf } from "../../test/support/simulation.js";
import { makeCache, pagesOf, prefill } from "../../test/support/small-cache.js";
import { NO_COPY } from "./cache-manager.js";

for (const prefixCaching of [true, false]) {
  test(`fork shares full pages and copies the partial one (prefix caching ${prefixCaching})`, () => {
    const cache = makeCache(10, 4, prefixCaching);
    const parent = prefill(cache, makeRequest("parent", tokensOf(1, 10)));
    parent.appendToken(4);
    const child = forkOf(parent, "child", 5);
    const copy = cache.fork(parent, child);
    assert.ok(copy !== null);
    assert.deepEqual(copy, { from: [parent.tables[0]!.pages[2]], to: [child.tables[0]!.pages[2]] });
    assert.deepEqual(pagesOf(child).slice(0, 2), pagesOf(parent).slice(0, 2));
    assert.equal(child.numComputed, 10);
    assert.equal(cache.stats().pagesUsed, 4);
    cache.checkIntegrity([parent, child]);
    cache.release(parent);
    cache.checkIntegrity([child]);
    cache.release(child);
    assert.equal(cache.available(), 10);
  });

  test(`fork at a page boundary copies nothing (prefix caching ${prefixCaching})`, () => {
    const cache = makeCache(2, 4, prefixCaching);
    const parent = prefill(cache, makeRequest("parent", tokensOf(1, 8)));
    parent.appendToken(4);
    const child = forkOf(parent, "child", 5);
    assert.equal(cache.fork(parent, child), NO_COPY);
    assert.equal(child.numComputed, 8);
    cache.checkIntegrity([parent, child]);
  });
}

test("fork publishes what the parent has computed, so that shared pages are all in the directory", () => {
  const cache = makeCache(10);
  const parent = makeRequest("parent", tokensOf(1, 10));
  assert.ok(cache.tryAdmit(parent));
  parent.numComputed = 10;
  parent.appendToken(4);
  const child = forkOf(parent, "child", 5);
  assert.ok(cache.fork(parent, child));
  assert.deepEqual([parent.numSharedPages, child.numSharedPages], [2, 2]);
  assert.equal(child.numHashedPages, 2, "what the parent hashed is not hashed again");
  cache.checkIntegrity([parent, child]);
});

test("fork without a free page changes nothing", () => {
  const cache = makeCache(3);
  const parent = prefill(cache, makeRequest("parent", tokensOf(1, 10)));
  parent.appendToken(4);
  const child = forkOf(parent, "child", 5);
  assert.equal(cache.fork(parent, child), null);
  assert.deepEqual([child.tables[0]!.numPages, child.numComputed], [0, 0]);
  cache.checkIntegrity([parent, child]);
});

test("a fork that diverges earlier shares only what is equal, up to a page boundary", () => {
  const cache = makeCache(10);
  const parent = prefill(cache, makeRequest("parent", tokensOf(1, 12)));
  const child = makeRequest("child", [...tokensOf(1, 7), 9, 9, 9]);
  assert.equal(cache.fork(parent, child), NO_COPY);
  assert.equal(child.numComputed, 4);
  const longer = makeRequest("longer", [...tokensOf(1, 11), 9]);
  assert.equal(cache.fork(parent, longer), NO_COPY);
  assert.equal(longer.numComputed, 8, "its last token is a prompt token: a chunk, which begins with a page");
  const other = makeRequest("other", [9, 9, 9]);
  assert.equal(cache.fork(parent, other), null, "nothing to share");
  const stranger = makeRequest("stranger", tokensOf(1, 12), { salt: "other" });
  assert.equal(cache.fork(parent, stranger), null, "never across tenants");
  cache.checkIntegrity([parent, child, longer]);
});

test("a fork that lacks two generated tokens begins at a page boundary; one token can be all that is shared", () => {
  const cache = makeCache(20);
  const parent = makeRequest("parent", tokensOf(1, 4), { maxTokens: 9 });
  for (let i = 0; i < 5; i++) parent.appendToken(i);
  prefill(cache, parent);
  const child = makeRequest("child", tokensOf(1, 4), { maxTokens: 9 });
  for (const token of [0, 1, 2, 77, 78]) child.appendToken(token);
  assert.equal(cache.fork(parent, child), NO_COPY);
  assert.equal(child.numComputed, 4);
  const tiny = makeCache(9, 1);
  const [first, second] = [makeRequest("first", [1, 2]), makeRequest("second", [1, 3])];
  assert.equal(tiny.fork(prefill(tiny, first), second), NO_COPY);
  assert.equal(second.numComputed, 1);
});
