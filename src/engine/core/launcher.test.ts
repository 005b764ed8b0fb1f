// What a flight asks of the device, call by call.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordedCore, type RecordedOptions, RecordingDevice } from "../../../test/support/recorded-core.js";
import type { GroupOptions } from "../../cache/cache-group.js";
import type { Draws } from "../../core/draws.js";
import { uniformAt } from "../../core/random.js";
import type { SamplingParams } from "../../core/sampling.js";
import type { StagedBatch, Tensor, TokenBuffer } from "../../device/device.js";
import type { TokenConstraint } from "../../grammar/constraint.js";

test("a prompt in chunks, then token by token: logits where a token comes, and nowhere else", () => {
  const engine = new RecordedCore();
  engine.add("a", 10, { maxTokens: 3 });
  assert.deepEqual(engine.step(), ["stage 0:[1,2,3,4,5,6,7,8] 1,2", "forward", "land"]);
  const token = ["forward", "logits 0+1", "sample 0: 0", "land"];
  assert.deepEqual(engine.step(), ["stage 8:[9,10] 1,2,3 -> 1", ...token]);
  assert.deepEqual(engine.step(), ["stage 10:[11] 1,2,3 -> 0", ...token]);
  assert.deepEqual(engine.step(), ["stage 11:[12] 1,2,3 -> 0", ...token]);
  assert.deepEqual(engine.answers(), ["a#0 11", "a#0 12", "a#0 13 length"]);
  assert.equal(engine.core.step(), false);
});

test("more logit rows than a block holds are computed and sampled block by block", () => {
  const engine = new RecordedCore({ maxLogitRows: 2 });
  for (const id of ["a", "b", "c", "d", "e"]) engine.add(id, 1, { maxTokens: 1 });
  assert.deepEqual(engine.step(), [
    "stage 0:[1] 1; 0:[1] 2; 0:[1] 3; 0:[1] 4; 0:[1] 5 -> 0,1,2,3,4",
    ...["forward", "logits 0+2", "sample 0: 0 1", "logits 2+2", "sample 2: 0 1", "logits 4+1", "sample 4: 0", "land"],
  ]);
  assert.deepEqual(
    engine.answers(),
    ["a", "b", "c", "d", "e"].map((id) => `${id}#0 2 length`),
  );
});

test("a prompt's logprobs: a report for each of its tokens but the first, then the draw", () => {
  const engine = new RecordedCore({ maxLogitRows: 4 });
  engine.add("a", 10, { maxTokens: 2, promptLogprobs: 1, logprobs: 3 });
  engine.add("b", 3, { maxTokens: 1 });
  assert.deepEqual(engine.step(), [
    "stage 0:[1,2,3,4,5,6,7,8] 1,2 -> 0,1,2,3,4,5,6,7",
    ...["forward", "logits 0+4", "sample 0: 0=2^1 1=3^1 2=4^1 3=5^1"],
    ...["logits 4+4", "sample 4: 0=6^1 1=7^1 2=8^1 3=9^1", "land"],
  ]);
  assert.deepEqual(engine.step(), [
    "stage 0:[1,2,3] 4; 8:[9,10] 1,2,3 -> 2,3,4",
    ...["forward", "logits 0+3", "sample 0: 0 1=10^1 2^3", "land"],
  ]);
  const [other, first] = engine.outputs();
  assert.deepEqual(
    first!.promptLogprobs!.map((entry) => entry?.id),
    [undefined, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  );
  assert.deepEqual([first!.logprobs!.length, first!.logprobs![0]!.top.length], [1, 3]);
  assert.deepEqual([other!.callId, other!.tokens, other!.promptLogprobs], ["b", [4], null]);
  assert.deepEqual(engine.step(), ["stage 10:[11] 1,2,3 -> 0", "forward", "logits 0+1", "sample 0: 0^3", "land"]);
  assert.equal(engine.outputs()[0]!.promptLogprobs, null, "they came with the first token");
});

test("prompts that are scored side by side get their own reports", () => {
  const engine = new RecordedCore();
  engine.add("a", 20, { maxTokens: 1, promptLogprobs: 0 });
  engine.add("b", [31, 32, 33, 34, 35, 36, 37, 38, 39, 40], { maxTokens: 1, promptLogprobs: 0 });
  engine.add("c", 9, { maxTokens: 1 });
  engine.drain();
  const scores = engine
    .outputs()
    .map(({ callId, promptLogprobs }) => [callId, promptLogprobs?.map((entry) => entry?.id)]);
  const upTo = (first: number, last: number) => [
    undefined,
    ...Array.from({ length: last - first }, (_, i) => first + 1 + i),
  ];
  assert.deepEqual(Object.fromEntries(scores), { a: upTo(1, 20), b: upTo(31, 40), c: undefined });
});

test("further samples draw from the same logits, behind all other entries", () => {
  const engine = new RecordedCore({ maxLogitRows: 1 });
  const draw = (index: number, position: number, seed = 3) => `0~${uniformAt(seed, index, position).toFixed(3)}`;
  engine.add("a", 2, { n: 3, temperature: 1 });
  engine.add("b", 3, { n: 2, temperature: 1, seed: 4 });
  assert.deepEqual(engine.step(), [
    "stage 0:[1,2] 1; 0:[1,2,3] 2 -> 1,4",
    ...["forward", "logits 0+1", `sample 0: ${draw(0, 2)}`, `sample 8: ${draw(1, 2)} ${draw(2, 2)}`],
    ...["logits 1+1", `sample 1: ${draw(0, 3, 4)}`, `sample 10: ${draw(1, 3, 4)}`, "land"],
    ...["copy page 1>3 of 0", "copy page 1>4 of 0", "copy page 2>5 of 0"],
  ]);
  assert.deepEqual(
    engine.outputs().map(({ callId, index, tokens }) => [callId, index, tokens.length]),
    [
      ["a", 1, 1],
      ["a", 2, 1],
      ["b", 1, 1],
      ["a", 0, 1],
      ["b", 0, 1],
    ],
  );
  const second = engine.step();
  assert.equal(second.filter((line) => line.startsWith("sample")).length, 5, "each its own");
  engine.drain();
  engine.add("c", 1, { maxTokens: 1, n: 3 });
  assert.equal(engine.step()[4], "sample 8: 0 0", "the next flight begins with the first entry again");
});

test("a mask that fails takes no entries of others' further samples", () => {
  const failing: TokenConstraint = {
    ...{ isReady: () => true, accept: () => true, isDone: () => false, fork: () => failing, dispose: () => {} },
    fillMask: () => {
      throw new Error("no mask");
    },
  };
  const engine = new RecordedCore({
    ...{ compiler: { ready: async () => {}, compile: () => failing, warm() {}, settle() {}, close() {} } },
  });
  engine.add("a", 2, { maxTokens: 1, n: 3 }, { constraint: { kind: "json", source: "" } });
  engine.add("b", [7], { maxTokens: 1, n: 2 });
  assert.deepEqual(engine.step().slice(3, 5), ["sample 0: 0 1", "sample 8: 1"]);
  assert.deepEqual(engine.answers(), [
    ...["a#1  error (no mask)", "a#2  error (no mask)", "b#1 8 length", "a#0  error (no mask)", "b#0 8 length"],
  ]);
  engine.add("c", 1, { maxTokens: 1 });
  engine.drain();
  assert.deepEqual(engine.answers(), ["c#0 2 length"], "nor does it harm who comes after it");
});

test("a flight has entries for all further samples that the scheduler puts into it", () => {
  const engine = new RecordedCore({ pages: 20 });
  engine.add("a", 1, { maxTokens: 1, n: 6 });
  engine.add("b", 1, { maxTokens: 1, n: 128 });
  const forks = engine.step().find((line) => line.startsWith("sample 8"))!;
  assert.equal(forks.split(" ").length - 2, 5 + 127);
  const answers = engine.answers();
  assert.deepEqual(
    [answers.length, ...new Set(answers.map((answer) => answer.replace(/.*#\d+ /, "")))],
    [134, "2 length"],
  );
});

test("a hook's logits are kept for the host, and its further samples draw from what it made", () => {
  const engine = new RecordedCore();
  const seen: number[][] = [];
  engine.add("a", 2, { maxTokens: 1 });
  engine.add("b", 3, { maxTokens: 1, n: 2 }, {}, (logits, { tokens, promptLen }) => {
    seen.push([logits.indexOf(9), promptLen, ...tokens]);
    logits.fill(0).fill(1, 40, 41);
  });
  assert.deepEqual(engine.step(), [
    "stage 0:[1,2] 1; 0:[1,2,3] 2 -> 1,4",
    ...["forward", "logits 0+2", "keep logits 1+1", "sample 0: 0 1", "land", "copy page 2>3 of 0"],
  ]);
  assert.deepEqual(engine.answers(), ["b#1 40 length", "a#0 3 length", "b#0 40 length"]);
  assert.deepEqual(seen, [
    [4, 3, 1, 2, 3],
    [4, 3, 1, 2, 3],
  ]);
});

test("hidden states are kept that a vector is made of, from their rows of the batch", () => {
  const engine = new RecordedCore({ maxPagesPerBatch: 3 });
  engine.add("g", 2, { maxTokens: 1 });
  for (const pooling of ["mean", "last", "first"] as const) engine.add(pooling, 3, {}, { kind: "pool", pooling });
  assert.deepEqual(engine.step(), [
    "stage 0:[1,2] 1; 0:[1,2,3] 2; 0:[1,2,3] 3; 0:[1,2,3] 4 -> 1",
    ...["forward", "keep hidden 2+3", "keep hidden 7+1", "keep hidden 8+1", "logits 0+1", "sample 0: 0", "land"],
  ]);
  assert.deepEqual(
    engine.outputs().map(({ callId, vector }) => [callId, vector === null ? null : [...vector]]),
    [
      ["g", null],
      ["mean", [2, 1]],
      ["last", [3, 2]],
      ["first", [1, 0]],
    ],
  );
  engine.add("long", 27, {}, { kind: "pool", pooling: "first" });
  engine.step();
  engine.step();
  engine.add("after", 20, {}, { kind: "pool", pooling: "first" }); // beside a chunk of which nothing is needed
  engine.drain();
  assert.deepEqual(
    engine.outputs().map(({ callId, vector }) => [callId, ...vector!]),
    [
      ["long", 1, 0],
      ["after", 1, 0],
    ],
  );
  for (const pooling of ["mean", "last", "first", "weighted_mean"] as const) {
    engine.add(pooling, 14, {}, { kind: "pool", pooling, salt: `long ${pooling}` });
    const kept = engine.drain().filter((line) => line.startsWith("keep"));
    const all = ["keep hidden 0+12", "keep hidden 0+2"];
    const expected = { first: ["keep hidden 0+1"], last: ["keep hidden 1+1"], mean: all, weighted_mean: all };
    assert.deepEqual(kept, expected[pooling], pooling);
    const [x, position] = engine.outputs()[0]!.vector!;
    const values = { first: 1, last: 14, mean: 7.5, weighted_mean: 1015 / 105 };
    assert.ok(Math.abs(x! - values[pooling]) < 1e-5 && Math.abs(x! - position! - 1) < 1e-5, pooling);
  }
});

test("a text whose tokens see each other runs in one piece; the second of a pair is told apart", () => {
  const engine = new RecordedCore({ isBidirectional: true });
  engine.add("a", 5, {}, { kind: "pool", pooling: "mean", secondStart: 3 });
  engine.add("b", 2, {}, { kind: "pool", pooling: "mean", secondStart: 2 });
  assert.deepEqual(engine.step().slice(0, 4), [
    "stage 0:[1,2,3,4,5] 1,2 types 0,0,0,1,1 sees 5,5,5,5,5; 0:[1,2] 3 sees 2,2",
    ...["forward", "keep hidden 0+5", "keep hidden 5+2"],
  ]);
});

test("tables of all groups, and states: copied before the step that reads them, and after the one that makes them", () => {
  const engine = new RecordedCore({
    groups: [
      { kind: "full", numPages: 20 },
      { kind: "window", numPages: 20, window: 4 },
      { kind: "state", numPages: 12 },
    ],
  });
  engine.add("a", 9, { maxTokens: 1, n: 2 }, { salt: "" });
  assert.deepEqual(engine.step(), [
    "stage 0:[1,2,3,4,5,6,7,8] 1,2|1,2 state 1",
    ...["forward", "copy state 1>2", "land"],
  ]);
  assert.deepEqual(engine.step(), [
    "stage 8:[9] 1,2,3|0,2,3 state 1 -> 0",
    ...["forward", "logits 0+1", "sample 0: 0", "sample 8: 0", "land", "copy page 3>4 of 0", "copy page 3>4 of 1"],
  ]);
  engine.add("b", 9, { maxTokens: 2 }, { salt: "" });
  const lines = engine.step();
  assert.deepEqual(lines, [
    ...["copy state 1>3", "copy state 2>1"], // that of the child, which is over, then that of the cached prefix
    "stage 8:[9] 1,2,3|0,2,3 state 1 -> 0",
    ...["forward", "logits 0+1", "sample 0: 0", "land"],
  ]);
  assert.ok(!engine.drain().some((line) => line.startsWith("copy")), "once is enough");
});

/** Says whether it knows a step, and remembers their sizes. */
class KnowingDevice extends RecordingDevice {
  readonly sizes: number[] = [];
  isKnown = false;

  tryReplay(staged: StagedBatch, out: TokenBuffer, _logits: Tensor, draws: Draws): boolean {
    this.sizes.push(staged.numTokens);
    this.lines.push(`known? ${draws.count} rows of ${staged.numTokens}`);
    if (this.isKnown) out.ids.fill(7, 0, draws.count);
    return this.isKnown;
  }
}

test("a device is asked whether it knows a step; one that does runs all of it", () => {
  const engine = new RecordedCore({ device: new KnowingDevice(), maxLogitRows: 3 });
  const device = engine.device as KnowingDevice;
  engine.add("a", 2, { maxTokens: 3 });
  const known = "known? 1 rows of 2";
  assert.deepEqual(engine.step(), ["stage 0:[1,2] 1 -> 1", known, "forward", "logits 0+1", "sample 0: 0", "land"]);
  device.isKnown = true;
  assert.deepEqual(engine.step(), ["stage 2:[3] 1 -> 0", "known? 1 rows of 1", "land"]);
  engine.add("b", 1, { maxTokens: 1, logprobs: 1 }); // plain: what is reported of a draw is no matter
  engine.add("c", 1, { maxTokens: 1 });
  assert.deepEqual(engine.step()[1], "known? 3 rows of 3");
  for (const [what, sampling, hook] of [
    ["further samples", { n: 2 }, null],
    ["prompt logprobs", { promptLogprobs: 0 }, null],
    ["a hook", {}, () => {}],
  ] as const) {
    engine.add("d", 2, { maxTokens: 1, ...sampling }, {}, hook);
    assert.ok(!engine.drain().some((line) => line.startsWith("known")), what);
  }
  engine.add("p", 2, { maxTokens: 2, promptLogprobs: 0 });
  engine.step();
  assert.equal(engine.step()[1], "known? 1 rows of 1", "behind the prompt nothing is reported of it");
  for (const id of ["e", "f", "g", "h"]) engine.add(id, 1, { maxTokens: 1 });
  assert.ok(!engine.drain().some((line) => line.startsWith("known")), "more rows than a block");
  engine.add("v", 2, {}, { kind: "pool" });
  assert.ok(!engine.drain().some((line) => line.startsWith("known")), "a vector");
  engine.add("i", 1, { maxTokens: 1 });
  assert.ok(
    engine.drain().some((line) => line.startsWith("known")),
    "a plain step after others is plain",
  );
});

test("a step after which states are copied is not known; one without is", () => {
  const groups: GroupOptions[] = [
    { kind: "full", numPages: 20 },
    { kind: "state", numPages: 12 },
  ];
  const engine = new RecordedCore({ device: new KnowingDevice(), groups });
  engine.add("a", 4, { maxTokens: 2 });
  assert.deepEqual(engine.step().slice(1), ["forward", "copy state 1>2", "logits 0+1", "sample 0: 0", "land"]);
  assert.deepEqual(engine.step().slice(1, 3), ["known? 1 rows of 1", "forward"]);
  const alone = new RecordedCore({ groups: [{ kind: "state", numPages: 6 }] });
  alone.add("a", 2, { maxTokens: 1 });
  assert.equal(alone.step()[0], "stage 0:[1,2]  state 1 -> 1", "a model of states alone has no pages");
});

test("each draw of a plain step has its own number", () => {
  const engine = new RecordedCore();
  engine.add("a", 2, { maxTokens: 1, temperature: 1, seed: 5 });
  engine.add("b", 1, { maxTokens: 1, temperature: 1, seed: 6 });
  const draws = [uniformAt(5, 0, 2), uniformAt(6, 0, 1)].map((uniform, row) => `${row}~${uniform.toFixed(3)}`);
  assert.equal(engine.step()[3], `sample 0: ${draws.join(" ")}`);
});

test("what is kept for the host begins anew in each flight", () => {
  const engine = new RecordedCore();
  const starts: number[] = [];
  const readLater = engine.device.readLater.bind(engine.device);
  engine.device.readLater = (out, ...rest) => {
    starts.push(out.byteOffset);
    readLater(out, ...rest);
  };
  engine.add("a", 1, { maxTokens: 3 }, {}, () => {});
  engine.drain();
  for (const id of ["v", "w"]) {
    engine.add(id, 3, {}, { kind: "pool", pooling: "mean" });
    engine.drain();
  }
  assert.deepEqual(starts, [0, 0, 0, 0, 0]);
});

/** Sizes of the steps of so many one-token prompts, of `maxTokens` each. */
function sizesOf(maxTokens: readonly number[], options: RecordedOptions): number[] {
  const engine = new RecordedCore({ device: new KnowingDevice(), pages: 320, ...options });
  for (const [i, max] of maxTokens.entries()) engine.add(`c${i}`, 1, { maxTokens: max });
  engine.drain();
  assert.equal(
    engine.outputs().length,
    maxTokens.reduce((sum, max) => sum + max),
  );
  return (engine.device as KnowingDevice).sizes;
}

test("a batch of decodes gets a size that comes back, by rows of the null page, until it has stayed for 64 steps", () => {
  const engine = new RecordedCore({ device: new KnowingDevice(), maxPagesPerBatch: 4 });
  for (let i = 0; i < 9; i++) engine.add(`c${i}`, 1, { maxTokens: 1 });
  const [stage, known] = engine.step();
  assert.ok(stage!.endsWith("0:[1] 9; 0:[0] 0 -> 0,1,2,3,4,5,6,7,8,9"), stage);
  assert.equal(known, "known? 10 rows of 10");
  const sizes = sizesOf([20, ...Array(9).fill(95)], { maxPagesPerBatch: 4 });
  assert.deepEqual(sizes, [...Array(20 + 64).fill(10), ...Array(95 - 20 - 64).fill(9)]);
});

test("no step is padded beyond 256 rows, a block of logits or the batch, nor where a row may read the null page", () => {
  const wide = { pageSize: 1, maxPagesPerBatch: 330, maxLogitRows: 400 };
  assert.deepEqual(sizesOf(Array(250).fill(1), wide), [256]);
  assert.deepEqual(sizesOf(Array(257).fill(1), wide), [257]);
  const nine = Array(9).fill(1);
  assert.deepEqual(sizesOf(nine, { maxPagesPerBatch: 3, maxLogitRows: 10 }), [10]);
  assert.deepEqual(sizesOf(nine, { maxPagesPerBatch: 3, maxLogitRows: 9 }), [9]);
  assert.deepEqual(sizesOf(nine, { pageSize: 3, maxPagesPerBatch: 3 }), [9]);
  const full: GroupOptions = { kind: "full", numPages: 20 };
  const latent: GroupOptions = { kind: "latent", numPages: 20 };
  const windowed: GroupOptions = { kind: "window", numPages: 40, window: 4 };
  assert.deepEqual(sizesOf(nine, { maxPagesPerBatch: 3, groups: [full, latent] }), [10]);
  const grouped = new RecordedCore({ device: new KnowingDevice(), maxPagesPerBatch: 3, groups: [full, latent] });
  for (let i = 0; i < 9; i++) grouped.add(`c${i}`, 1, { maxTokens: 1 });
  assert.match(grouped.step()[0]!, /; 0:\[1\] 9\|9; 0:\[0\] 0\|0 -> /);
  assert.deepEqual(sizesOf(nine, { maxPagesPerBatch: 3, groups: [full, windowed] }), [9]);
  const plain = new RecordedCore({ maxPagesPerBatch: 3 });
  for (let i = 0; i < 9; i++) plain.add(`c${i}`, 1, { maxTokens: 1 });
  assert.ok(plain.step()[0]!.endsWith("-> 0,1,2,3,4,5,6,7,8"), "a device that knows no steps");
});

test("prompts of several tokens, and those that get no token, are no batch of decodes", () => {
  const mixed = (prompt: number, maxTokens: number) => {
    const engine = new RecordedCore({ device: new KnowingDevice(), maxPagesPerBatch: 4 });
    for (let i = 0; i < 8; i++) engine.add(`c${i}`, 1, { maxTokens: 1 });
    engine.add("d", prompt, { maxTokens });
    return engine.step()[1];
  };
  assert.equal(mixed(2, 1), "known? 9 rows of 10");
  assert.equal(mixed(1, 0), "known? 8 rows of 9");
});

test("two flights under way: the second begins with tokens of the first, which the host does not know", () => {
  const device = new RecordingDevice();
  device.info = { ...device.info, asyncDepth: 2 };
  const ahead = new RecordedCore({ device });
  ahead.add("a", 2, { maxTokens: 3 });
  ahead.add("b", 3, { maxTokens: 2 });
  const sampled = ["forward", "logits 0+2", "sample 0: 0 1"];
  assert.deepEqual(ahead.step(), ["stage 0:[1,2] 1; 0:[1,2,3] 2 -> 1,4", ...sampled]);
  assert.deepEqual(ahead.step(), ["stage 2:[-1] 1; 3:[-2] 2 -> 0,1 after another", ...sampled, "land"]);
  assert.deepEqual(ahead.answers(), ["a#0 3", "b#0 4"]);
  assert.deepEqual(ahead.step(), ["stage 3:[-1] 1 -> 0 after another", "forward", "logits 0+1", "sample 0: 0", "land"]);
  assert.deepEqual(ahead.answers(), ["a#0 4", "b#0 5 length"]);
  assert.deepEqual([ahead.core.numInFlight, ahead.core.hasWork], [1, true]);
  assert.deepEqual(ahead.step(), ["land"]);
  assert.deepEqual(ahead.answers(), ["a#0 5 length"]);
});

test("what a request asks of its draws does not keep the next flight from starting", () => {
  const asked: Partial<SamplingParams>[] = [
    { logprobs: 3 },
    { topK: 5, topP: 0.9, minP: 0.1, temperature: 1, seed: 2 },
    { logitBias: [[9, 1]], minTokens: 2 },
    { n: 3 },
  ];
  for (const sampling of asked) {
    const device = new RecordingDevice();
    device.info = { ...device.info, asyncDepth: 2 };
    const ahead = new RecordedCore({ device });
    ahead.add("a", 2, { maxTokens: 4, ...sampling });
    ahead.step();
    const [staged] = ahead.step();
    assert.ok(staged!.endsWith("after another"), `${JSON.stringify(sampling)}: ${staged}`);
  }
});

test("only the step whose logits further samples draw from is unknown; the flight behind it is not", () => {
  const device = new KnowingDevice();
  device.info = { ...device.info, asyncDepth: 2 };
  const ahead = new RecordedCore({ device });
  ahead.add("a", 2, { maxTokens: 4, n: 2 });
  assert.ok(!ahead.step().some((line) => line.startsWith("known")));
  assert.equal(ahead.step()[1], "known? 1 rows of 1");
});
