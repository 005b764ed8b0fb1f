import assert from "node:assert/strict";
import { test } from "node:test";
import { suggest } from "./suggest.js";

test("what may have been meant: the closest first, however it is spelt; everything when nothing is close", () => {
  const known = ["port", "host", "maxTokens", "minTokens", "topP"];
  assert.equal(suggest("prot", known), "port");
  assert.equal(suggest("max_tokens", known), "maxTokens, minTokens");
  assert.equal(suggest("min", known), "minTokens");
  assert.equal(suggest("colour", known), known.join(", "));
  assert.equal(suggest("abcdefg", ["abcdxyz", "abcwxyz"]), "abcdxyz", "three letters may differ");
  assert.equal(suggest("abc", ["xyc", "xyz"]), "xyc", "of a short name, half of them");
  assert.equal(suggest("ab", ["a", "b", "ba", "xb"]), "a, b, xb");
  assert.equal(suggest("kitten", ["sitting", "kitchen", "mitten", "kit"]), "mitten, kitchen, sitting, kit");
});
