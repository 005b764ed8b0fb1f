import assert from "node:assert/strict";
import { test } from "node:test";
import { vocabularyHash } from "./registration.js";

const hashOf = (texts: readonly string[], eosIds: readonly number[] = [2]): string =>
  vocabularyHash(texts.length, (id) => Buffer.from(texts[id]!), eosIds);

test("vocabularies have the same name when every token has the same bytes and answers end at the same ones, and only then", () => {
  const own = hashOf(["a", "bc", "d"], [2, 1]);
  assert.equal(hashOf(["a", "bc", "d"], [1, 2]), own);
  assert.match(own, /^[0-9a-f]{32}$/);
  for (const other of [
    hashOf(["a", "bc", "e"], [1, 2]),
    hashOf(["ab", "c", "d"], [1, 2]),
    hashOf(["a", "bc", "d"], [1]),
  ])
    assert.notEqual(other, own);
});
