// An answer as the engine sees it, with its memory written by hand in place of a matcher's thread.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isOverdue, type Lane } from "./lane.js";
import { aheadState, FAILED, HEADER, type ToMatcher } from "./matcher-messages.js";
import { packTexts, unpackTexts } from "./token-texts.js";
import type { XGrammarCompiler } from "./xgrammar-compiler.js";
import { XGrammarConstraint } from "./xgrammar-constraint.js";

const STOP = 40;

function answer(accepted: readonly number[] = []) {
  const said: string[] = [];
  const patience: number[] = [];
  const aheads: Int32Array[] = [];
  const laneOf = (name: string) =>
    ({
      send: (message: ToMatcher) => {
        if (message.type === "foresee") aheads.push(message.ahead);
        said.push(`${name} ${message.type} ${"tokens" in message ? message.tokens : ""}`.trim());
      },
      add: (id: number) => said.push(`${name} takes ${id}`),
      remove: (id: number) => said.push(`${name} drops ${id}`),
    }) as unknown as Lane;
  const [quick, patient] = [laneOf("quick"), laneOf("patient")];
  const compiler = {
    patient,
    open: (ebnf: string, param: string, lane: Lane, first: Int32Array) => ({
      ebnf,
      param,
      isQuick: lane === quick,
      first,
    }),
    forget: () => said.push("forgotten"),
    patienceMs: () => patience.shift() ?? 0,
  } as unknown as XGrammarCompiler;
  const shared = new Int32Array(new SharedArrayBuffer(4 * (HEADER + 2)));
  const constraint = new XGrammarConstraint(compiler, 7, "root ::= x", "field", shared, new Set([STOP]), quick);
  constraint.takeUp(accepted);
  /** The thread's part: a mask of these tokens, that took so long. */
  const publish = (version: number, tokens: readonly number[], us = 0): void => {
    shared.fill(0, HEADER);
    for (const token of tokens) shared[HEADER + (token >> 5)]! |= 1 << (token & 31);
    shared[1] = us;
    shared[0] = version;
  };
  return { constraint, said, shared, publish, patient, patience, aheads };
}

test("a mask counts when it is that of the tokens accepted so far", () => {
  const { constraint, said, shared, publish } = answer();
  assert.equal(constraint.isReady(), false);
  assert.throws(() => constraint.fillMask(new Int32Array(2)), /no text of it can go on from here/);
  publish(1, [0, 31, 32, 39]);
  assert.equal(constraint.isReady(), true);
  const mask = new Int32Array(2);
  assert.equal(constraint.fillMask(mask), true);
  assert.deepEqual([...mask], [...shared.subarray(HEADER)]);
  for (const token of [1, 30, 33, 38, STOP]) assert.equal(constraint.accept(token), false, `${token}`);
  assert.deepEqual(said, []);
  for (const token of [0, 31, 32, 39]) {
    const { constraint: other, said: words, publish: show } = answer();
    show(1, [0, 31, 32, 39]);
    assert.equal(other.accept(token), true);
    assert.deepEqual(words, [`quick accept ${token}`]);
    assert.deepEqual([other.isReady(), other.isDone()], [false, false]);
    show(2, []);
    assert.equal(other.isReady(), true);
  }
});

test("a token that stops ends it, and asks for nothing more", () => {
  const { constraint, said, publish } = answer();
  publish(1, [STOP]);
  assert.equal(constraint.accept(STOP), true);
  assert.deepEqual([constraint.isDone(), constraint.isReady(), said.length], [true, true, 0]);
  assert.deepEqual([constraint.accept(STOP), constraint.fillMask(new Int32Array(2))], [false, false]);
});

test("guesses are tried as far as their masks are there, and accepted along them in one message", () => {
  const { constraint, said, publish, shared, patience, aheads } = answer();
  publish(1, [5]);
  const guesses = Int32Array.of(9, 9, 5, 6, 7, 9);
  constraint.foresee(guesses, 2, 3);
  assert.deepEqual(said, ["quick foresee 5,6,7"]);
  const ahead = aheads[0]!;
  const ticket = ahead[1]!;
  assert.equal(constraint.numForeseen(), 0, "nothing was written");
  const behind = (i: number, token: number): void => {
    ahead.fill(0, HEADER + 2 * i, HEADER + 2 * i + 2);
    ahead[HEADER + 2 * i + (token >> 5)] = 1 << (token & 31);
  };
  ahead[0] = aheadState(ticket, 3, true);
  constraint.foresee(guesses, 2, 3);
  assert.equal(constraint.numForeseen(), 0, "those of the guesses before");
  constraint.foresee(guesses, 2, 3);
  behind(0, 6);
  behind(1, 39);
  ahead[0] = aheadState(ahead[1]!, 2, false);
  patience.push(0);
  assert.equal(constraint.numForeseen(), 2);
  assert.ok(ahead[1]! < 0, "no further ones are wanted");
  const mask = new Int32Array(2);
  constraint.fillMask(mask, 0);
  assert.deepEqual([...mask], [...shared.subarray(HEADER)]);
  constraint.fillMask(mask, 1);
  assert.deepEqual([...mask], [1 << 6, 0]);
  constraint.fillMask(mask, 2);
  assert.deepEqual([...mask], [0, 1 << 7]);
  said.length = 0;
  assert.equal(constraint.accept(5, true), true);
  assert.equal(constraint.accept(7, true), false, "not behind 5");
  assert.equal(constraint.accept(6, true), true);
  assert.equal(constraint.isReady(), false);
  assert.equal(constraint.accept(39), true);
  assert.deepEqual(said, ["quick accept 5,6,39"]);
  publish(4, [1]);
  constraint.fillMask(mask);
  assert.deepEqual([...mask], [2, 0]);
  publish(4, [1], 1001);
  said.length = 0;
  constraint.foresee(guesses, 0, 1);
  assert.deepEqual([said.length, constraint.numForeseen()], [0, 0], "its masks take too long to wait for them");
});

test("an answer whose masks take long moves to the patient lane, once", () => {
  const { constraint, said, publish } = answer();
  publish(1, [1], 20_000);
  constraint.accept(1);
  publish(2, [1], 20_001);
  constraint.accept(1);
  publish(3, [1], 20_001);
  constraint.accept(1);
  assert.deepEqual(said, ["quick accept 1", "quick drops 7", "patient takes 7", "patient accept 1"]);
  assert.deepEqual(constraint.openMessage(), {
    ...{ type: "open", id: 7, ebnf: "root ::= x", tokens: [1, 1, 1] },
    shared: (constraint.openMessage() as { shared: Int32Array }).shared,
  });
  constraint.dispose();
  assert.deepEqual(said.slice(4), ["patient drops 7", "forgotten"]);
});

test("one that failed is ready to say so, by its field", () => {
  const { constraint, shared } = answer();
  constraint.fail("it takes longer than 1 s");
  assert.deepEqual([shared[0], constraint.isReady()], [FAILED, true]);
  const said = { code: "invalid_grammar", param: "field", message: /one token: it takes longer than 1 s/ };
  assert.throws(() => constraint.fillMask(new Int32Array(2)), said);
  assert.throws(() => constraint.accept(1), said);
  assert.throws(() => constraint.fork(), said);
});

test("an answer that is taken up goes on behind its tokens; only one that has not begun is forked", () => {
  const { constraint, publish } = answer([3, 4]);
  publish(1, []);
  assert.equal(constraint.isReady(), false);
  publish(3, [5]);
  assert.equal(constraint.isReady(), true);
  assert.throws(() => constraint.fork(), /only an answer that has not begun/);
  const fresh = answer();
  assert.throws(() => fresh.constraint.fork(), /no text of it can go on/);
  fresh.publish(1, [5]);
  assert.deepEqual(fresh.constraint.fork(), {
    ...{ ebnf: "root ::= x", param: "field", isQuick: true, first: fresh.shared },
  });
});

test("a step waits for masks that usually come at once, and for no others", (t) => {
  const { wait } = Atomics;
  t.after(() => {
    Atomics.wait = wait;
  });
  const waits: number[][] = [];
  Atomics.wait = ((_: Int32Array, index: number, value: number, ms: number) => {
    waits.push([index, value, ms]);
    return "timed-out";
  }) as typeof wait;
  const { constraint, publish } = answer();
  constraint.settle(3);
  publish(5, [], 1000);
  constraint.settle(4);
  publish(5, [], 1001);
  constraint.settle(5);
  publish(1, []);
  constraint.settle(6);
  constraint.fail("");
  constraint.settle(7);
  assert.deepEqual(waits, [
    [0, 0, 3],
    [0, 5, 4],
  ]);
});

test("a message is overdue by its thread's own time, or by the clock where there is no other or no more patience", () => {
  const table: [waitedMs: number, ownMs: number | null, want: boolean][] = [
    [100, 500, false],
    [101, 100, false],
    [101, 101, true],
    [101, null, true],
    [400, 0, false],
    [401, 0, true],
  ];
  for (const [waitedMs, ownMs, want] of table)
    assert.equal(
      isOverdue(waitedMs, () => ownMs, 100, 400),
      want,
      `${waitedMs} ${ownMs}`,
    );
  isOverdue(100, () => assert.fail("not asked for before the limit"), 100, 400);
});

test("texts of tokens come back from the memory that threads share", () => {
  const texts = { bytes: ["ab", "", "c", "é"].map((text) => new TextEncoder().encode(text)), stopIds: [1, 3] };
  const packed = packTexts(texts);
  assert.deepEqual([...packed.offsets], [0, 2, 2, 3, 5]);
  assert.equal(Buffer.from(packed.bytes).toString(), "abcé");
  assert.ok(packed.bytes.buffer instanceof SharedArrayBuffer && packed.offsets.buffer instanceof SharedArrayBuffer);
  const back = unpackTexts(packed);
  assert.deepEqual(
    back.bytes.map((bytes) => [...bytes]),
    texts.bytes.map((bytes) => [...bytes]),
  );
  assert.deepEqual([back.stopIds, back.bytes[0]!.buffer instanceof SharedArrayBuffer], [[1, 3], false]);
});
