import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyRing } from "./auth.js";

test("without keys everybody is one tenant; with keys only their holders are, each with its own salt", () => {
  assert.equal(new KeyRing([]).tenantOf(null)?.salt, "");
  const ring = new KeyRing(["alpha", "beta"]);
  const [a, b] = [ring.tenantOf("alpha")!, ring.tenantOf("beta")!];
  assert.notEqual(a.salt, b.salt);
  assert.equal(new KeyRing(["beta", "gamma", "alpha"]).tenantOf("alpha")!.salt, a.salt, "not by position");
  for (const key of [null, "", "alph", "alphaa", "ALPHA"]) assert.equal(ring.tenantOf(key), null);
  assert.ok(!a.name.includes("alpha") && !a.salt.includes("alpha"), "the key itself is nowhere");
});
