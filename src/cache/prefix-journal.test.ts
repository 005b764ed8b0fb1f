import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, tokensOf } from "../../test/support/simulation.js";
import type { Request } from "../core/request.js";
import { CacheManager } from "./cache-manager.js";
import { CHANGE_WORDS, PrefixJournal, prefixKey } from "./prefix-journal.js";

test("changes are told in order and once, however many there are", () => {
  const journal = new PrefixJournal();
  assert.ok(journal.isEmpty);
  for (let i = 0; i < 600; i++) journal.note(i % 2 === 0, Int32Array.of(9, i, ~i, 9), 1);
  assert.ok(!journal.isEmpty);
  const changes = journal.take();
  assert.equal(changes.length, 600 * CHANGE_WORDS);
  for (let i = 0; i < 600; i++) assert.deepEqual([...changes.slice(3 * i, 3 * i + 3)], [i % 2 === 0 ? 1 : 0, i, ~i]);
  assert.ok(journal.isEmpty);
  assert.equal(journal.take().length, 0);
});

test("a key is 53 bits of the identity", () => {
  assert.equal(prefixKey(1, 0), 1);
  assert.equal(prefixKey(-1, 0), 2 ** 32 - 1);
  assert.equal(prefixKey(0, 1), 2 ** 32);
  assert.equal(prefixKey(-1, -1), Number.MAX_SAFE_INTEGER);
});

test("who follows the prefixes of a cache is told what is held already, then what comes and goes", () => {
  const makeCache = (prefixCaching: boolean) =>
    new CacheManager({ pageSize: 4, prefixCaching, groups: [{ kind: "full", numPages: 3 }] });
  assert.equal(makeCache(false).openJournal(), null);
  const cache = makeCache(true);
  const remember = (id: string, tokens: number[]): Request => {
    const request = makeRequest(id, tokens);
    assert.ok(cache.tryAdmit(request));
    request.numComputed = tokens.length;
    cache.release(request);
    return request;
  };
  const named = ({ hashes }: Request, page: number) => [...hashes.subarray(4 * (page + 1), 4 * (page + 1) + 2)];
  const a = remember("a", tokensOf(1, 4));
  const journal = cache.openJournal()!;
  assert.deepEqual([...journal.take()], [1, ...named(a, 0)]);
  const b = remember("b", tokensOf(2, 8));
  assert.deepEqual([...journal.take()], [0, ...named(a, 0), 1, ...named(b, 0), 1, ...named(b, 1)]);
  const c = remember("c", tokensOf(3, 8));
  const [gone, came] = [
    [0, ...named(b, 1), 0, ...named(b, 0)],
    [1, ...named(c, 0), 1, ...named(c, 1)],
  ];
  assert.deepEqual([...journal.take()], [...gone, ...came]);
});
