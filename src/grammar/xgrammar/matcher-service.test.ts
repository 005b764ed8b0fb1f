// The matcher's side of an answer, message by message, on this thread.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConstraintSpec } from "../constraint.js";
import { aheadState, FAILED, HEADER } from "./matcher-messages.js";
import { MatcherService } from "./matcher-service.js";
import { MAX_HEAP_MB } from "./module.js";

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
  service.handle(instance, { type: "accept", id: 1, tokens: [0] });
  assert.deepEqual([shared[0], allowed(shared)], [2, "bc"]);
  service.handle(instance, { type: "accept", id: 1, tokens: [3] });
  assert.equal(shared[0], FAILED);
});

test("masks behind guesses are written as long as the guesses are allowed, and leave the answer where it was", async () => {
  const service = new MatcherService(VOCABULARY);
  const instance = await service.ready();
  const shared = makeShared();
  const ahead = new Int32Array(new SharedArrayBuffer(4 * (HEADER + 4)));
  const foresee = (tokens: number[], ticket: number, wanted = ticket): unknown[] => {
    ahead[1] = wanted;
    ahead.fill(0, HEADER);
    service.handle(instance, { type: "foresee", id: 1, tokens, ahead, ticket });
    return [ahead[0], ...[0, 1, 2, 3].map((i) => allowed(ahead.subarray(i)))];
  };
  service.handle(instance, { type: "open", id: 1, ebnf: 'root ::= "a" ("b" | "c") "d"', tokens: [], shared });
  assert.deepEqual(foresee([0, 2, 3], 1), [aheadState(1, 3, true), "bc", "d", "$", ""]);
  assert.deepEqual(
    foresee([0, 2, 3, STOP], 2),
    [aheadState(2, 3, true), "bc", "d", "$", ""],
    "nothing is behind the end",
  );
  assert.deepEqual(foresee([0, 0, 3], 3), [aheadState(3, 1, true), "bc", "", "", ""]);
  assert.deepEqual(foresee([1], 4), [aheadState(4, 0, true), "", "", "", ""]);
  assert.deepEqual(foresee([0, 1], 5, 6), [aheadState(5, 0, true), "", "", "", ""], "nobody waits any more");
  assert.deepEqual([shared[0], allowed(shared)], [1, "a"]);
  service.handle(instance, { type: "accept", id: 1, tokens: [0, 1] });
  assert.deepEqual([shared[0], allowed(shared)], [3, "d"]);
  assert.deepEqual(foresee([3], 7), [aheadState(7, 1, true), "$", "", "", ""]);
  service.handle(instance, { type: "accept", id: 1, tokens: [3, STOP] });
  assert.equal(shared[0], 5);
});

test("an instance that broke is never asked again: its answers go on in the next one, from their tokens", async () => {
  const service = new MatcherService(VOCABULARY);
  const broken = await service.ready();
  const shared = makeShared();
  service.handle(broken, { type: "open", id: 1, ebnf: 'root ::= "a" "b" [cd]', tokens: [], shared });
  service.handle(broken, { type: "accept", id: 1, tokens: [0] });
  assert.throws(() => broken.createMatcher("root ::= ("));
  broken.fillMask = () => assert.fail("its memory cannot be trusted");
  const next = await service.ready();
  assert.notEqual(next, broken);
  service.handle(next, { type: "accept", id: 1, tokens: [1] });
  assert.deepEqual([shared[0], allowed(shared)], [3, "cd"]);
  service.handle(next, { type: "accept", id: 1, tokens: [2] });
  assert.equal(shared[0], 4);
  service.handle(next, { type: "close", id: 1 });
});

test("a check says what a grammar is, or why it cannot be used", async () => {
  const service = new MatcherService(VOCABULARY);
  const check = async (kind: ConstraintSpec["kind"], source: string) => {
    const answer = service.handle(await service.ready(), { type: "check", id: 9, spec: { kind, source } })!;
    assert.equal(answer.id, 9);
    return answer.verdict;
  };
  const good = await check("regex", "a");
  assert.ok(good.ok && good.ms >= 0 && good.ms < 60_000);
  assert.match(good.ebnf, /^root ::= regex_0_0\n/);
  const refused = async (kind: ConstraintSpec["kind"], source: string) => {
    const verdict = await check(kind, source);
    assert.ok(!verdict.ok);
    return [verdict.code, verdict.details.reason];
  };
  assert.deepEqual(await refused("json_schema", '{"type": "x"}'), ["invalid_schema", 'the type "x" is not known']);
  assert.deepEqual(await refused("regex", "z"), ["invalid_grammar", "no text can begin under it"]);
  const [code, reason] = await refused("grammar", "root ::= (");
  assert.equal(code, "invalid_grammar");
  assert.match(String(reason), /^EBNF parser error at line 1/);
});

test("an answer is taken up after its tokens; one that cannot be begun, and what is not there, end quietly", async () => {
  const service = new MatcherService(VOCABULARY);
  const instance = await service.ready();
  const [taken, bad] = [makeShared(), makeShared()];
  const ebnf = 'root ::= "a" "b" "c"';
  service.handle(instance, { type: "open", id: 1, ebnf, tokens: [0, 1], shared: taken });
  assert.deepEqual([taken[0], allowed(taken)], [3, "c"]);
  assert.ok(taken[1]! >= 0 && taken[1]! < 2 ** 30);
  service.handle(instance, { type: "accept", id: 1, tokens: [2] });
  assert.deepEqual([taken[0], allowed(taken)], [4, "$"]);
  service.handle(instance, { type: "accept", id: 1, tokens: [STOP] });
  assert.equal(taken[0], 5, "the end is a token too, and has no mask of its own");
  assert.equal(service.handle(instance, { type: "close", id: 1 }), null);
  service.handle(instance, { type: "accept", id: 1, tokens: [2] });
  assert.equal(taken[0], 5, "closed is closed");
  assert.equal(service.handle(instance, { type: "close", id: 1 }), null);
  service.handle(instance, { type: "open", id: 2, ebnf: "root ::= (", tokens: [], shared: bad });
  assert.equal(bad[0], FAILED);
});

test("what a matcher dies of, in terms of the grammar", async () => {
  const reasonOf = async (thrown: unknown) => {
    const instance = await new MatcherService(VOCABULARY).ready();
    try {
      instance.guard(() => {
        throw thrown;
      });
    } catch (error) {
      assert.equal(instance.isBroken, true);
      return (error as Error).message;
    }
  };
  const memory = `it needs more than ${MAX_HEAP_MB} MiB to compile`;
  for (const text of ["Aborted(OOM)", "memory access out of bounds", "Cannot enlarge memory arrays", "out of memory"])
    assert.equal(await reasonOf(new Error(text)), memory);
  const nested = "it is nested too deeply, or a rule leads back to itself without reading anything";
  for (const text of ["Maximum call stack size exceeded", "too much recursion"])
    assert.equal(await reasonOf(new RangeError(text)), nested);
  assert.equal(await reasonOf(new Error("Aborted()")), "it is too large to compile");
  assert.equal(await reasonOf("unreachable"), "unreachable");
});

test("the last 64 grammars stay compiled", async () => {
  const instance = await new MatcherService(VOCABULARY).ready();
  const make = (i: number) => instance.createMatcher(`root ::= "a"{${i + 1}} [b-d]`);
  // The first stays in use, so it is never the one that goes; the others go and are made again.
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 70; i++) {
      const [first, other] = [make(0), make(i)];
      assert.ok(instance.allowsAny(first) && instance.allowsAny(other));
      first.delete();
      other.delete();
    }
  }
  assert.equal(instance.isBroken, false);
});
