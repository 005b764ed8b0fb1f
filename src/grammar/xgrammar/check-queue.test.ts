import assert from "node:assert/strict";
import { test } from "node:test";
import { CheckQueue } from "./check-queue.js";
import type { LaneJob } from "./lane.js";
import type { Verdict } from "./matcher-messages.js";

const OK: Verdict = { ok: true, ebnf: "", ms: 1 };

/** A queue over a lane that holds its jobs until they are answered by hand. */
function heldQueue() {
  const begun: number[] = [];
  let job: LaneJob | null = null;
  const add = (id: number, next: LaneJob): void => {
    begun.push(id);
    job = next;
  };
  const queue = new CheckQueue({ add, warm: () => undefined, close: () => undefined });
  const ask = (client: string, id: number, isWanted = () => true) =>
    queue.check(id, { kind: "regex", source: "a" }, { client, isWanted });
  return { begun, ask, answer: () => job!.answer!(OK), fail: () => job!.fail("") };
}

test("clients take turns, and each client's grammars keep their order", () => {
  const { begun, ask, answer } = heldQueue();
  for (const id of [1, 2, 3]) void ask("many", id);
  void ask("other", 10);
  void ask("third", 20);
  answer();
  void ask("other", 11);
  for (let i = 0; i < 4; i++) answer();
  assert.deepEqual(begun, [1, 10, 2, 20, 11, 3]);
});

test("of two clients the one that had no turn is next, though the other asked first", () => {
  const { begun, ask, answer } = heldQueue();
  void ask("a", 1);
  void ask("a", 2);
  void ask("b", 10);
  for (let i = 0; i < 2; i++) answer();
  void ask("a", 3);
  answer();
  assert.deepEqual(begun, [1, 10, 2, 3]);
});

test("what nobody waits for is never begun; what fails says so", async () => {
  const { begun, ask, answer, fail } = heldQueue();
  const slow = ask("a", 1);
  const left = ask("a", 2, () => false);
  const last = ask("b", 3);
  fail();
  answer();
  assert.deepEqual(await Promise.all([slow, left, last]), ["too slow", "unwanted", OK]);
  assert.deepEqual(begun, [1, 3]);
});
