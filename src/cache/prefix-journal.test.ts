import assert from "node:assert/strict";
import { test } from "node:test";
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
