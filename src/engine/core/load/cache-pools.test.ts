import assert from "node:assert/strict";
import { test } from "node:test";
import type { PlanShape } from "../../../attention/planner.js";
import type { CacheSpec } from "../../../core/cache-spec.js";
import { ReferenceDevice } from "../../../device/reference/reference-device.js";
import { allocCaches, pageBytesOf, pagedCaches, pageSpecs, plannerFor } from "./cache-pools.js";

const SHAPE = { layers: [0, 2, 4], numKvHeads: 2, keyDim: 6, valueDim: 4 };
const FULL: CacheSpec = { kind: "full", ...SHAPE };
const LATENT: CacheSpec = { kind: "latent", ...SHAPE, numKvHeads: 1 };
const STATE: CacheSpec = { kind: "state", ...SHAPE, stateFloats: 10 };
const PAGE = { pageSize: 16, dtype: "f32" } as const;

test("states are one group at most, behind those with pages", () => {
  assert.deepEqual(pagedCaches([FULL, LATENT]), [FULL, LATENT]);
  assert.deepEqual(pagedCaches([FULL, STATE]), [FULL]);
  assert.deepEqual(pagedCaches([STATE]), []);
  for (const wrong of [
    [STATE, FULL],
    [FULL, STATE, STATE],
    [STATE, STATE],
    [FULL, STATE, FULL],
  ])
    assert.throws(() => pagedCaches(wrong), /one state group at most, as its last/);
});

test("each group has a pool of its shape, and pages of its bytes", () => {
  const device = new ReferenceDevice();
  const shapes = pageSpecs([FULL, LATENT], PAGE).map(({ group, numLayers, isLatent }) => [group, numLayers, isLatent]);
  assert.deepEqual(shapes, [
    [0, 3, false],
    [1, 3, true],
  ]);
  const token = 3 * 2 * (6 + 4) * 4;
  assert.deepEqual(pageBytesOf([FULL, STATE], device, PAGE), [16 * token, 40]);
  assert.equal(pageBytesOf([FULL, LATENT], device, PAGE).length, 2);
  const [pool, states] = allocCaches([FULL, STATE], device, PAGE, [7, 3]);
  assert.deepEqual((pool!.spec as { numPages: number }).numPages, 7);
  assert.deepEqual(states!.spec, { numSlots: 3, floats: 10 });
  assert.equal(allocCaches([FULL, LATENT], device, PAGE, [7, 3]).length, 2);
});

test("a plan is of its group's heads", () => {
  const shapes: PlanShape[] = [];
  const device = new ReferenceDevice();
  const createPlanner = device.createPlanner.bind(device);
  device.createPlanner = (shape) => {
    shapes.push(shape);
    return createPlanner(shape);
  };
  plannerFor({ group: 1, numHeads: 8, window: 5 }, [LATENT, FULL], device, "fixed", "f16");
  plannerFor({ group: 0, numHeads: 8, window: 0, attentionChunk: 9 }, [LATENT, FULL], device, "balanced", "f32");
  const shared = { headDim: 6 };
  assert.deepEqual(shapes, [
    {
      ...shared,
      ...{ group: 1, groupSize: 4, numKvHeads: 2, window: 5, attentionChunk: 0, mostAhead: 5 },
      ...{ split: "fixed", kvDtype: "f16" },
    },
    {
      ...shared,
      group: 0,
      groupSize: 8,
      numKvHeads: 1,
      window: 0,
      attentionChunk: 9,
      mostAhead: 2 ** 30,
      split: "balanced",
      kvDtype: "f32",
    },
  ]);
});
