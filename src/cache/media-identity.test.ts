// Pages of prompts with media: what overlaps a page is part of its name, in the cache and in what it lends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import type { MediumSpan } from "../core/media.js";
import { CacheManager } from "./cache-manager.js";
import { HASH_WORDS, mediaWords } from "./page-hash.js";
import { hashPages } from "./request-pages.js";

const P = 4;
const LENGTH = 17; // four whole pages and a token
const PROMPT = Int32Array.from({ length: LENGTH }, (_, i) => (i < 5 || i >= 9 ? i : 99)); // 99: placeholders
const idOf = (...words: number[]) => Int32Array.of(7, 8, 9, ...words);
const spanOf = (start: number, end: number, id = idOf(1)): MediumSpan => ({ start, end, id });
const PICTURE = [spanOf(5, 9)]; // in pages 1 and 2

function namesOf(media: readonly MediumSpan[]): string[] {
  const request = makeRequest("r", PROMPT, { media });
  hashPages(request, 4, P);
  return Array.from({ length: 4 }, (_, i) => request.hashes.slice((i + 1) * HASH_WORDS, (i + 2) * HASH_WORDS).join());
}

function makeCache(): CacheManager {
  return new CacheManager({ pageSize: P, prefixCaching: true, groups: [{ kind: "full", numPages: 40 }] });
}

function remember(cache: CacheManager, media: readonly MediumSpan[]): void {
  const request = makeRequest("r", PROMPT, { media });
  assert.ok(cache.tryAdmit(request));
  request.numComputed = LENGTH;
  cache.release(request);
}

function numFound(cache: CacheManager, media: readonly MediumSpan[]): number {
  const request = makeRequest("asks", PROMPT, { media });
  const found = cache.attach(request);
  cache.checkIntegrity([request]);
  cache.release(request);
  return found / P;
}

test("a medium is in the name of every page it overlaps and of all that follow, and of none before", () => {
  const plain = namesOf([]);
  const named = namesOf(PICTURE);
  assert.equal(named[0], plain[0]);
  for (const i of [1, 2, 3]) assert.notEqual(named[i], plain[i], `page ${i}`);
  assert.deepEqual(namesOf([spanOf(5, 9)]), named);
  assert.deepEqual(namesOf([spanOf(LENGTH - 1, LENGTH)]), plain, "of no whole page");
});

test("media that differ in a bit of their id, in their place or their length share no page they overlap", () => {
  const numShared = (media: readonly MediumSpan[]): number => {
    const [a, b] = [namesOf(PICTURE), namesOf(media)];
    return a.filter((name, i) => name === b[i]).length;
  };
  for (let word = 0; word < 4; word++) {
    const id = idOf(1);
    id[word]! ^= 1;
    assert.equal(numShared([spanOf(5, 9, id)]), 1);
  }
  assert.equal(numShared([{ ...spanOf(5, 9), isWhole: true }]), 1);
  assert.equal(numShared([spanOf(6, 9)]), 1);
  assert.equal(numShared([spanOf(5, 8)]), 1);
  assert.equal(numShared([spanOf(4, 9)]), 1);
  assert.equal(numShared([spanOf(3, 9)]), 0);
  assert.equal(numShared([spanOf(5, 7), spanOf(7, 9)]), 1);
  assert.equal(numShared([spanOf(5, 9), spanOf(12, 13)]), 3);
});

test("the words of a page: each medium's id, its place counted from the page, and whether it is whole", () => {
  const media = [spanOf(2, 5), { ...spanOf(6, 12, idOf(2)), isWhole: true }];
  assert.deepEqual([...mediaWords(media, 0, P)], [7, 8, 9, 1, 2, 5, 0]);
  assert.deepEqual([...mediaWords(media, 1, P)], [7, 8, 9, 1, -2, 1, 0, 7, 8, 9, 2, 2, 8, 1]);
  assert.deepEqual([...mediaWords(media, 2, P)], [7, 8, 9, 2, -2, 4, 1]);
  assert.equal(mediaWords(media, 3, P).length, 0);
});

test("the cache gives a prompt the pages of its own media, and forks only within them", () => {
  const cache = makeCache();
  remember(cache, PICTURE);
  const other = [spanOf(5, 9, idOf(2))];
  assert.deepEqual([numFound(cache, PICTURE), numFound(cache, []), numFound(cache, other)], [4, 1, 1]);
  remember(cache, other);
  assert.deepEqual([numFound(cache, PICTURE), numFound(cache, []), numFound(cache, other)], [4, 1, 4]);
  const parent = makeRequest("parent", PROMPT, { media: PICTURE });
  cache.attach(parent);
  assert.equal(cache.fork(parent, makeRequest("child", PROMPT, { media: other })), null);
  cache.release(parent);
});

test("pages with media move to another cache under their names; without their media, or with others, they are refused", () => {
  const from = makeCache();
  remember(from, PICTURE);
  assert.equal(from.transfers.lendPrefix(PROMPT, "").items.length, 1);
  const lent = from.transfers.lendPrefix(PROMPT, "", PICTURE);
  assert.deepEqual(
    lent.items.map(({ record }) => record.media.length),
    [0, 7, 7, 0],
  );
  const to = makeCache();
  const arriving = to.transfers.begin();
  for (const { record } of lent.items) {
    if (record.media.length > 0) {
      for (const media of [new Int32Array(0), record.media.with(3, 2), record.media.with(4, 0)])
        assert.equal(to.transfers.receive(arriving, { ...record, media }, [true]), null);
    }
    to.transfers.publish(to.transfers.receive(arriving, record, [true])!);
  }
  to.transfers.end(arriving);
  from.transfers.end(lent);
  to.checkIntegrity([]);
  assert.deepEqual([numFound(to, PICTURE), numFound(to, [])], [4, 1]);
  assert.equal(to.transfers.lendPrefix(PROMPT, "", PICTURE).items.length, 4, "and from there to a third");
});
