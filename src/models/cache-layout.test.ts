import assert from "node:assert/strict";
import { test } from "node:test";
import { type AttentionNeed, layoutBidirectional, layoutCaches } from "./cache-layout.js";

const NEED: AttentionNeed = { numHeads: 4, numKvHeads: 2, keyDim: 8, valueDim: 8, window: 0 };
const SHAPE = { numKvHeads: 2, keyDim: 8, valueDim: 8, window: 0, attentionChunk: 0 };

test("layers of one shape share a group, others have their own; each way to read one is a plan", () => {
  const { caches, plans, places, states } = layoutCaches([
    NEED,
    { ...NEED, window: 16 },
    null,
    { ...NEED, numHeads: 8 },
    { ...NEED, attentionChunk: 32 },
    NEED,
  ]);
  assert.deepEqual(caches, [
    { ...SHAPE, kind: "full", layers: [0, 3, 5] },
    { ...SHAPE, kind: "window", layers: [1], window: 16 },
    { ...SHAPE, kind: "window", layers: [4], attentionChunk: 32 },
  ]);
  assert.deepEqual(plans, [
    { group: 0, numHeads: 4, window: 0, attentionChunk: 0 },
    { group: 1, numHeads: 4, window: 16, attentionChunk: 0 },
    { group: 0, numHeads: 8, window: 0, attentionChunk: 0 },
    { group: 2, numHeads: 4, window: 0, attentionChunk: 32 },
  ]);
  assert.deepEqual(places, [
    { group: 0, layer: 0, plan: 0 },
    { group: 1, layer: 0, plan: 1 },
    null,
    { group: 0, layer: 1, plan: 2 },
    { group: 2, layer: 0, plan: 3 },
    { group: 0, layer: 2, plan: 0 },
  ]);
  assert.deepEqual(states, []);
});

test("whatever differs in shape or kind is another group", () => {
  const others: Partial<AttentionNeed>[] = [
    ...[{ numKvHeads: 4 }, { keyDim: 16 }, { valueDim: 16 }, { window: 1 }, { attentionChunk: 1 }, { isLatent: true }],
  ];
  for (const other of others) {
    const { caches } = layoutCaches([NEED, { ...NEED, ...other }]);
    assert.equal(caches.length, 2, JSON.stringify(other));
  }
  const latent = layoutCaches([{ ...NEED, isLatent: true, expandedFloats: 96 }]).caches;
  assert.deepEqual(latent, [{ ...SHAPE, kind: "latent", layers: [0], expandedFloats: 96 }]);
});

test("a layer that reads another's keys has its place, and may see less of them", () => {
  const shared = { ...NEED, sharedWith: 1 };
  const { caches, plans, places } = layoutCaches([NEED, NEED, shared, { ...shared, window: 4 }]);
  assert.deepEqual(caches, [{ ...SHAPE, kind: "full", layers: [0, 1] }]);
  assert.deepEqual(places.slice(2), [
    { group: 0, layer: 1, plan: 0 },
    { group: 0, layer: 1, plan: 1 },
  ]);
  assert.deepEqual(plans[1], { group: 0, numHeads: 4, window: 4, attentionChunk: 0 });
});

test("recurrent states lie end to end in a group of their own, the last", () => {
  const { caches, states } = layoutCaches([null, NEED, null], [5, 0, 7]);
  assert.deepEqual(states, [{ group: 1, offset: 0 }, null, { group: 1, offset: 5 }]);
  assert.deepEqual(caches[1], {
    ...{ kind: "state", layers: [0, 2], numKvHeads: 0, keyDim: 0, valueDim: 0, stateFloats: 12 },
  });
  assert.equal(layoutCaches([NEED], [0]).caches.length, 1);
});

test("layers that see the whole text write to one place, and differ in what they see of it", () => {
  const near = { ...NEED, window: 4 };
  const { caches, plans, places, states } = layoutBidirectional([NEED, near, { ...near, numHeads: 8 }, near, NEED]);
  assert.deepEqual(caches, [{ ...SHAPE, kind: "full", layers: [0] }]);
  assert.deepEqual(plans, [
    { group: 0, numHeads: 4, window: 0 },
    { group: 0, numHeads: 4, window: 4 },
    { group: 0, numHeads: 8, window: 4 },
  ]);
  assert.deepEqual(
    places.map((place) => [place!.group, place!.layer, place!.plan]),
    [0, 1, 2, 1, 0].map((plan) => [0, 0, plan]),
  );
  assert.deepEqual(states, Array(5).fill(null));
});
