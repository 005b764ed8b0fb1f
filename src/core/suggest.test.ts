import assert from "node:assert/strict";
import { test } from "node:test";
import { closeTo, suggest } from "./suggest.js";

test("what may have been meant: the closest first, however it is spelt; everything when nothing is close", () => {
  const known = ["port", "host", "maxTokens", "minTokens", "topP"];
  assert.deepEqual(closeTo("prot", known), ["port"]);
  assert.deepEqual(closeTo("max_tokens", known), ["maxTokens", "minTokens"]);
  assert.deepEqual(closeTo("min", known), ["minTokens"]);
  assert.deepEqual(closeTo("colour", known), []);
  assert.deepEqual(closeTo("abcdefg", ["abcdxyz", "abcwxyz"]), ["abcdxyz"], "three letters may differ");
  assert.deepEqual(closeTo("abc", ["xyc", "xyz"]), ["xyc"], "of a short name, half of them");
  assert.deepEqual(closeTo("ab", ["a", "b", "ba", "xb"]), ["a", "b", "xb"]);
  assert.deepEqual(closeTo("kitten", ["sitting", "kitchen", "mitten", "kit"]), ["mitten", "kitchen", "sitting", "kit"]);
  assert.ok(suggest("colour", known).includes(known.join(", ")), "everything, where nothing is close");
  assert.ok(!suggest("kitten", ["sitting", "kitchen", "mitten", "kit"]).includes("kit?"), "three at most");
});
