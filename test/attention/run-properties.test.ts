// The reference run against the textbook softmax, and bit for bit against itself under every way to batch, chunk and split.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AttentionPlanner, type PlannerOptions } from "../../src/attention/planner.js";
import { AttentionScratch } from "../../src/device/reference/attention.js";
import { SoftmaxStates } from "../../src/device/reference/softmax-state.js";
import { AttentionCase, type CaseRow, type CaseShape, maxDifference, noise } from "../support/attention-case.js";

const SHAPE: CaseShape = { seed: 5, numKvHeads: 2, groupSize: 3, keyDim: 12, valueDim: 8, pageSize: 4 };

function plannerFor(shape: CaseShape, options: Partial<PlannerOptions> = {}): AttentionPlanner {
  return new AttentionPlanner({
    groupSize: shape.groupSize,
    headDim: shape.keyDim,
    window: 0,
    numWorkers: 4,
    split: "fixed",
    kvChunk: 16,
    ...options,
  });
}

test("equals the naive softmax for random ragged batches, masks, head shapes and plans", () => {
  fc.assert(
    fc.property(
      fc.record({
        seed: fc.nat(1000),
        numKvHeads: fc.constantFrom(1, 2),
        groupSize: fc.constantFrom(1, 2, 5),
        keyDim: fc.constantFrom(4, 9),
        valueDim: fc.constantFrom(3, 9),
        pageSize: fc.constantFrom(1, 4, 16),
      }),
      fc.array(fc.tuple(fc.nat(120), fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 24 }))), {
        minLength: 1,
        maxLength: 5,
      }),
      fc.record({
        window: fc.constantFrom(0, 1, 5, 64),
        numWorkers: fc.constantFrom(1, 3, 50),
        split: fc.constantFrom("fixed" as const, "balanced" as const),
        kvChunk: fc.constantFrom(8, 20, 64),
      }),
      fc.constantFrom(0, 2),
      fc.boolean(),
      fc.constantFrom(0, 40),
      (shape, lengths, options, softcap, withSinks, padItems) => {
        const rows = lengths.map(([start, queryLen], sequence) => ({ sequence, start, queryLen }));
        const problem = new AttentionCase(shape, rows);
        const sinks = withSinks
          ? Float32Array.from({ length: problem.numHeads }, (_, h) => 3 * noise(shape.seed, h, 0, 0))
          : null;
        const masking = { window: options.window, softcap, sinks };
        const got = problem.run(plannerFor(shape, options).plan(problem.batch, padItems), masking);
        const want = problem.naive(masking);
        assert.ok(maxDifference(got.out, want.out) < 1e-5, `out differs by ${maxDifference(got.out, want.out)}`);
        assert.ok(maxDifference(got.lse, want.lse) < 1e-5, `lse differs by ${maxDifference(got.lse, want.lse)}`);
      },
    ),
    { numRuns: 120, seed: 21 },
  );
});

/** Output rows of a sequence, position by position, however it was cut into chunks and whatever shared its batches. */
function outputsOf(
  sequence: number,
  length: number,
  cuts: readonly number[],
  others: CaseRow[],
  options: object,
): Float32Array {
  const width = SHAPE.numKvHeads * SHAPE.groupSize * SHAPE.valueDim;
  const all = new Float32Array(length * width);
  const planner = plannerFor(SHAPE, options);
  let start = 0;
  for (const end of [...cuts, length]) {
    const problem = new AttentionCase(SHAPE, [...others, { sequence, start, queryLen: end - start }]);
    const { out } = problem.run(planner.plan(problem.batch), options);
    all.set(out.subarray(out.length - (end - start) * width), start * width);
    start = end;
  }
  return all;
}

test("a token's bits do not depend on chunking, batch mates, tiles or the choice to split (fixed mode)", () => {
  const length = 90;
  const others: CaseRow[] = [
    { sequence: 8, start: 33, queryLen: 1 },
    { sequence: 9, start: 0, queryLen: 40 },
  ];
  const everyToken = Array.from({ length: length - 1 }, (_, i) => i + 1);
  for (const window of [0, 7, 40]) {
    const sinks = window === 7 ? new Float32Array(6).fill(0.5) : null;
    const base = { window, sinks, kvChunk: 16 };
    const alone = outputsOf(1, length, [], [], { ...base, numWorkers: 1 });
    const variants: [string, readonly number[], CaseRow[], object][] = [
      ["split over 64 workers", [], [], { ...base, numWorkers: 64 }],
      ["token by token, split", everyToken, [], { ...base, numWorkers: 64 }],
      ["token by token, whole", everyToken, [], { ...base, numWorkers: 1 }],
      ["in chunks of 16", [16, 32, 48, 64, 80], [], { ...base, numWorkers: 4 }],
      ["in uneven chunks with others", [4, 52, 89], others, { ...base, numWorkers: 16 }],
      ["with tiles of one row", [48], others, { ...base, numWorkers: 7, qTile: 1 }],
      ["with one tile", [], others, { ...base, numWorkers: 64, qTile: 1024 }],
    ];
    for (const [name, cuts, mates, options] of variants) {
      const got = outputsOf(1, length, cuts, mates, options);
      assert.deepEqual(new Uint32Array(got.buffer), new Uint32Array(alone.buffer), `window ${window}, ${name}`);
    }
  }
});

test("the plans of the invariance test do differ: some split, some do not", () => {
  const problem = new AttentionCase(SHAPE, [{ sequence: 1, start: 0, queryLen: 90 }]);
  assert.equal(plannerFor(SHAPE, { numWorkers: 1 }).plan(problem.batch).numPartials, 0);
  assert.ok(plannerFor(SHAPE, { numWorkers: 64 }).plan(problem.batch).numPartials > 0);
});

test("reused scratch carries nothing over", () => {
  const problem = new AttentionCase(SHAPE, [{ sequence: 1, start: 50, queryLen: 9 }]);
  const other = new AttentionCase(SHAPE, [{ sequence: 2, start: 100, queryLen: 30 }]);
  const planner = plannerFor(SHAPE, { numWorkers: 64 });
  const scratch = new AttentionScratch(other.spec);
  const fresh = problem.run(planner.plan(problem.batch)).out;
  other.run(planner.plan(other.batch), {}, scratch);
  assert.deepEqual(problem.run(planner.plan(problem.batch), {}, scratch).out, fresh);
});

test("merging states is associative and order independent within rounding; the empty state is its exact identity", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.double({ min: -60, max: 60 }), fc.double({ min: -5, max: 5 })), { maxLength: 12 }),
      (keys) => {
        const dim = 2;
        const states = new SoftmaxStates(keys.length + 2, dim);
        for (const [i, [score, value]] of keys.entries()) {
          states.m[i] = score;
          states.d[i] = 1;
          states.o.set([value, -value], i * dim);
        }
        const forward = keys.length;
        const backward = keys.length + 1;
        for (let i = 0; i < keys.length; i++) {
          states.merge(forward, states, i);
          states.merge(backward, states, keys.length - 1 - i);
        }
        if (keys.length === 0) {
          assert.ok(states.isEmpty(forward));
          assert.equal(states.lse(forward), -Infinity);
          return;
        }
        assert.ok(Math.abs(states.lse(forward) - states.lse(backward)) < 1e-4);
        const forwardOut = states.o[forward * dim]! / states.d[forward]!;
        assert.ok(Math.abs(forwardOut - states.o[backward * dim]! / states.d[backward]!) < 1e-4);

        const before = [states.o[forward * dim], states.m[forward], states.d[forward]];
        states.merge(forward, new SoftmaxStates(1, dim), 0);
        assert.deepEqual([states.o[forward * dim], states.m[forward], states.d[forward]], before);
      },
    ),
    { numRuns: 200, seed: 22 },
  );
});

test("scores far apart and very large neither overflow nor vanish", () => {
  const states = new SoftmaxStates(2, 1);
  states.m.set([30_000, -30_000]);
  states.d.set([1, 1]);
  states.o.set([2, 5]);
  states.merge(1, states, 0);
  assert.equal(states.o[1]! / states.d[1]!, 2);
  assert.equal(states.lse(1), 30_000);
});
