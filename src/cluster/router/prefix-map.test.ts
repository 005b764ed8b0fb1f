import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../../test/support/simulation.js";
import { HASH_WORDS, hashPage, hashSalt } from "../../cache/page-hash.js";
import { prefixKey } from "../../cache/prefix-journal.js";
import { hashPages } from "../../cache/request-pages.js";
import { type PrefixMessage, wordsToText } from "../bus/wire.js";
import { PrefixMap, pageKeys } from "./prefix-map.js";

const message = (seq: number, isSnapshot: boolean, changes: number[], epoch = 1): PrefixMessage => ({
  type: "prefixes",
  epoch,
  seq,
  isSnapshot,
  changes: wordsToText(Int32Array.from(changes)),
});

const numHeld = (map: PrefixMap, keys: readonly number[], nowMs: number): number =>
  map.match(keys, nowMs).get("a") ?? 0;

test("changes are followed in order; after a gap everything is asked for again; old news is ignored", () => {
  const asked: string[] = [];
  const map = new PrefixMap((replica) => asked.push(replica));
  map.open("a");
  assert.deepEqual(asked, ["a"]);
  map.take("a", message(4, true, [1, 10, 0, 1, 11, 0]));
  assert.equal(numHeld(map, [10, 11, 12], 0), 2);
  map.take("a", message(5, false, [1, 12, 0]));
  assert.equal(numHeld(map, [10, 11, 12], 0), 3);
  map.take("a", message(7, false, [0, 10, 0]));
  assert.deepEqual(asked, ["a", "a"]);
  assert.equal(numHeld(map, [10, 11, 12], 0), 3);
  map.take("a", message(8, true, [1, 11, 0]));
  assert.equal(numHeld(map, [10, 11], 0), 0, "a prefix is held from its beginning or not at all");
  assert.equal(numHeld(map, [11], 0), 1);
  map.take("a", message(6, true, [1, 10, 0]));
  assert.equal(numHeld(map, [11], 0), 1);
  map.take("a", message(0, true, [], 2)); // a new engine
  assert.equal(numHeld(map, [11], 0), 0);
  map.drop("a");
  map.take("a", message(1, false, [1, 11, 0], 2));
  assert.equal(numHeld(map, [11], 0), 0);
});

test("pages that were sent to be computed are expected for a while, and not after they were evicted", () => {
  const map = new PrefixMap(() => undefined);
  map.open("a");
  map.take("a", message(0, true, []));
  map.expect("a", [1, 2], 1000);
  assert.equal(numHeld(map, [1, 2, 3], 2000), 2);
  assert.equal(numHeld(map, [1, 2, 3], 1_000_000), 0);
  map.take("a", message(1, false, [1, 1, 0, 0, 1, 0]));
  assert.equal(numHeld(map, [1, 2, 3], 2000), 0);
  for (let key = 0; key < 10_000; key++) map.expect("a", [key + 5], 2000);
  assert.equal(numHeld(map, [10_004], 2000), 1);
  assert.equal(numHeld(map, [5], 2000), 0, "the oldest make room");
});

test("one walk says what each replica holds from the beginning on, and how many hold a page", () => {
  const map = new PrefixMap(() => undefined);
  for (const id of ["a", "b", "c", "d"]) {
    map.open(id);
    map.take(id, message(0, true, []));
  }
  map.take("a", message(1, false, [1, 1, 0, 1, 2, 0, 1, 3, 0]));
  map.take("b", message(1, false, [1, 1, 0, 1, 3, 0])); // the page between is missing
  map.expect("c", [1, 2], 0);
  map.take("c", message(1, false, [1, 1, 0])); // what was expected came
  assert.deepEqual(
    [...map.match([1, 2, 3, 4], 5)],
    [
      ["a", 3],
      ["b", 1],
      ["c", 2],
    ],
  );
  assert.deepEqual(
    [...map.match([1, 2, 3, 4], 20_000)],
    [
      ["a", 3],
      ["b", 1],
      ["c", 1],
    ],
  );
  assert.deepEqual(
    [1, 2, 3, 4].map((key) => map.numHolders(key)),
    [3, 1, 2, 0],
  );
  map.take("a", message(2, false, [0, 1, 0]));
  map.drop("b");
  assert.deepEqual(
    [1, 2, 3].map((key) => map.numHolders(key)),
    [1, 1, 1],
  );
  map.drop("a");
  map.drop("c");
  assert.deepEqual(
    [1, 2, 3].map((key) => map.numHolders(key)),
    [0, 0, 0],
  );
});

test("a prompt's pages have the identities of the cache: those of whole pages before its last token, by salt", () => {
  const prompt = Int32Array.from({ length: 33 }, (_, i) => i);
  const keys = pageKeys(prompt, "", 16);
  assert.equal(keys.length, 2);
  assert.equal(pageKeys(prompt.subarray(0, 32), "", 16).length, 1, "the last token is always computed");
  assert.deepEqual(pageKeys(prompt.subarray(0, 20), "", 16), keys.slice(0, 1));
  assert.notDeepEqual(pageKeys(prompt, "tenant", 16), keys);
});

test("pages are expected for ten seconds, 4096 of them; what was said once is old news", () => {
  const map = new PrefixMap(() => undefined);
  map.open("a");
  map.expect("a", [1], 1000);
  assert.deepEqual([numHeld(map, [1], 10_999), numHeld(map, [1], 11_000), map.numHolders(1)], [1, 0, 0]);
  const keys = Array.from({ length: 4096 }, (_, i) => i + 10);
  map.expect("a", keys, 2000);
  assert.equal(map.numHolders(10), 1);
  map.expect("a", [5000], 2000);
  assert.deepEqual([map.numHolders(10), map.numHolders(11)], [0, 1]);
  map.drop("a");
  assert.deepEqual([map.numHolders(11), map.numHolders(5000)], [0, 0]);
  map.open("b");
  map.take("b", message(0, true, [1, 1, 0]));
  map.take("b", message(0, true, []));
  map.take("b", message(1, false, [1, 2, 0]));
  map.take("b", message(1, false, [1, 3, 0]));
  assert.deepEqual([map.numPages("b"), map.numHolders(3)], [2, 0]);
});

test("a page is named by all the tokens up to its end", () => {
  const prompt = Int32Array.from({ length: 13 }, (_, i) => i * i);
  const hash = new Int32Array(HASH_WORDS);
  hashSalt(hash, 0, "s");
  const expected = [0, 4, 8].map((from) => {
    hashPage(hash, 0, hash, 0, prompt, from, 4);
    return prefixKey(hash[0]!, hash[1]!);
  });
  assert.deepEqual(pageKeys(prompt, "s", 4), expected);
  const other = prompt.with(5, 99);
  const keys = pageKeys(other, "s", 4);
  assert.deepEqual([keys[0] === expected[0], keys[1] === expected[1], keys[2] === expected[2]], [true, false, false]);
});

test("media are part of the names as they are in the cache", () => {
  const prompt = new Int32Array(13).fill(5);
  const media = [{ start: 5, end: 7, id: Int32Array.of(1, 2, 3, 4) }];
  const request = makeRequest("r", prompt, { media });
  hashPages(request, 3, 4);
  const { hashes } = request;
  const expected = [1, 2, 3].map((i) => prefixKey(hashes[i * HASH_WORDS]!, hashes[i * HASH_WORDS + 1]!));
  assert.deepEqual(pageKeys(prompt, "", 4, media), expected);
  const plain = pageKeys(prompt, "", 4);
  assert.deepEqual(
    [plain[0] === expected[0], plain[1] === expected[1], plain[2] === expected[2]],
    [true, false, false],
  );
});
