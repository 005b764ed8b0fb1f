import assert from "node:assert/strict";
import { test } from "node:test";
import { Owners } from "./owners.js";

const tenant = (name: string) => ({ name, salt: name, isAdmin: false });

test("a call, its further prompts and its samples are their tenant's; the oldest calls are forgotten", () => {
  const owners = new Owners();
  const [ann, bob] = [tenant("ann"), tenant("bob")];
  owners.note("call-7", ann);
  for (const id of ["call-7", "call-7#1", "call-7-2", "call-7-2#3"]) {
    assert.ok(owners.isOf(id, ann), id);
    assert.ok(!owners.isOf(id, bob), id);
  }
  assert.ok(!owners.isOf("call", ann));
  for (let i = 0; i < 19_999; i++) owners.note(`other${i}`, bob);
  assert.ok(owners.isOf("call-7", ann), "one of twenty thousand");
  owners.note("one more", bob);
  assert.ok(!owners.isOf("call-7", ann));
  assert.ok(owners.isOf("other0", bob));
});
