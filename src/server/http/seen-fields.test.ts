import assert from "node:assert/strict";
import { test } from "node:test";
import { SeenFields } from "./seen-fields.js";

test("a field is told once at each path, and not for ever new ones", () => {
  const seen = new SeenFields();
  assert.deepEqual(seen.add("/a", ["x", "y", "x"]), ["x", "y"]);
  assert.deepEqual(seen.add("/a", ["y", "z"]), ["z"]);
  assert.deepEqual(seen.add("/b", ["x"]), ["x"]);
  assert.equal(seen.add("/b", ["l".repeat(500)])[0]!.length, 80);
  const many = Array.from({ length: 2000 }, (_, i) => `f${i}`);
  assert.equal(seen.add("/c", many).length, 995);
  assert.deepEqual(seen.add("/c", ["another"]), []);
});
