// The matcher's side of an answer, message by message, on this thread.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FAILED, HEADER } from "./matcher-messages.js";
import { MatcherService } from "./matcher-service.js";

const STOP = 4;
const VOCABULARY = { bytes: ["a", "b", "c", "d", ""].map((text) => Buffer.from(text)), stopIds: [STOP] };
const makeShared = (): Int32Array => new Int32Array(new SharedArrayBuffer(4 * (HEADER + 1)));
/** The letters that may come next. */
const allowed = (shared: Int32Array): string =>
  [..."abcd$"].filter((_, token) => (shared[HEADER]! >> token) & 1).join("");

test("each token is followed by the next mask, and one that is not allowed ends the answer", async () => {
  const service = new MatcherService(VOCABULARY);
  const instance = await service.ready();
  const shared = makeShared();
  service.handle(instance, { type: "open", id: 1, ebnf: 'root ::= "a" ("b" | "c") "d"', tokens: [], shared });
  assert.deepEqual([shared[0], allowed(shared)], [1, "a"]);
  service.handle(instance, { type: "accept", id: 1, token: 0 });
  assert.deepEqual([shared[0], allowed(shared)], [2, "bc"]);
  service.handle(instance, { type: "accept", id: 1, token: 3 });
  assert.equal(shared[0], FAILED);
});

test("an instance that broke is never asked again: its answers go on in the next one, from their tokens", async () => {
  const service = new MatcherService(VOCABULARY);
  const broken = await service.ready();
  const shared = makeShared();
  service.handle(broken, { type: "open", id: 1, ebnf: 'root ::= "a" "b" [cd]', tokens: [], shared });
  service.handle(broken, { type: "accept", id: 1, token: 0 });
  assert.throws(() => broken.createMatcher("root ::= ("));
  broken.fillMask = () => assert.fail("its memory cannot be trusted");
  const next = await service.ready();
  assert.notEqual(next, broken);
  service.handle(next, { type: "accept", id: 1, token: 1 });
  assert.deepEqual([shared[0], allowed(shared)], [3, "cd"]);
  service.handle(next, { type: "accept", id: 1, token: 2 });
  assert.equal(shared[0], 4);
  service.handle(next, { type: "close", id: 1 });
});
