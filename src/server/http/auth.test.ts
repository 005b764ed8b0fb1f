import assert from "node:assert/strict";
import { test } from "node:test";
import { type Context, Hono } from "hono";
import type { AppEnv } from "../context.js";
import { toHttpError } from "./api-error.js";
import { authenticate, clientOf, KeyRing } from "./auth.js";

test("without keys everybody is one tenant; with keys only their holders are, each with its own salt", () => {
  assert.equal(new KeyRing([]).tenantOf(null)?.salt, "");
  const ring = new KeyRing(["alpha", "beta"]);
  const [a, b] = [ring.tenantOf("alpha")!, ring.tenantOf("beta")!];
  assert.notEqual(a.salt, b.salt);
  assert.equal(new KeyRing(["beta", "gamma", "alpha"]).tenantOf("alpha")!.salt, a.salt, "not by position");
  for (const key of [null, "", "alph", "alphaa", "ALPHA"]) assert.equal(ring.tenantOf(key), null);
  assert.ok(!a.name.includes("alpha") && !a.salt.includes("alpha"), "the key itself is nowhere");
});

test("keys of admins see everybody's requests, others their own; without keys there is nobody to hide from", () => {
  const ring = new KeyRing(["plain", "second"], ["admin"]);
  assert.equal(ring.size, 3);
  assert.deepEqual(
    ["plain", "second", "admin"].map((key) => ring.tenantOf(key)!.isAdmin),
    [false, false, true],
  );
  const { name, salt } = ring.tenantOf("plain")!;
  assert.equal(name, `key-${salt.slice(0, 6)}`);
  assert.deepEqual(new KeyRing([]).tenantOf("any"), { name: "anonymous", salt: "", isAdmin: true });
  assert.equal(new KeyRing([""]).tenantOf(null), null, "no key is not the empty one");
});

test("a key comes as a bearer or as x-api-key; without one, or with another, it is said which", async () => {
  const app = new Hono<AppEnv>();
  app.onError((error, c) => {
    const { status, headers, body } = toHttpError(error);
    return c.json(body.error.message, status as 400, { ...headers });
  });
  app.get("/", authenticate(new KeyRing(["alpha"])), (c) => c.json([c.get("tenant").isAdmin, clientOf(c).length > 20]));
  const ask = async (headers: Record<string, string>): Promise<[number, string | null, unknown]> => {
    const reply = await app.request("/", { headers });
    return [reply.status, reply.headers.get("www-authenticate"), await reply.json()];
  };
  for (const headers of [
    { authorization: "Bearer alpha" },
    { authorization: "bearer  alpha" },
    { "x-api-key": "alpha" },
    { authorization: "Bearer alpha", "x-api-key": "beta" },
    { authorization: "Basic xyz", "x-api-key": "alpha" },
  ])
    assert.deepEqual(await ask(headers as Record<string, string>), [200, null, [false, true]]);
  const missing = "No API key was given. Send it as `Authorization: Bearer KEY`.";
  assert.deepEqual(await ask({}), [401, "Bearer", missing]);
  assert.deepEqual(await ask({ authorization: "alpha" }), [401, "Bearer", missing]);
  const wrong = "The API key is not one of this server's.";
  assert.deepEqual(await ask({ authorization: "Bearer beta" }), [401, "Bearer", wrong]);
});

test("without keys a client is known by its address", () => {
  const context = (values: unknown) => new Map(Object.entries(values as object)) as unknown as Context<AppEnv>;
  assert.equal(clientOf(context({ tenant: { salt: "" }, address: "10.0.0.7" })), "10.0.0.7");
  assert.equal(clientOf(context({ tenant: { salt: "salt" }, address: "10.0.0.7" })), "salt");
});
