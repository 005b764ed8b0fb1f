// Which compiled kernels a GPU takes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { archOf, imagesFor, isFor, PTX, sourceNames } from "./sources.js";

test("a GPU takes its own cubin, then those before it in its generation, else PTX", () => {
  assert.deepEqual(imagesFor(archOf(8, 9)), ["sm_89", "sm_86", "sm_80"]);
  assert.deepEqual(imagesFor(archOf(8, 7)), ["sm_87", "sm_86", "sm_80"]);
  assert.deepEqual(imagesFor(archOf(9, 0)), ["sm_90a"]);
  assert.deepEqual(imagesFor(archOf(10, 3)), ["sm_103", "sm_100"]);
  assert.deepEqual(imagesFor(archOf(12, 0)), ["sm_120"]);
  assert.deepEqual(imagesFor(archOf(11, 0)), [PTX], "no cubin is of its generation");
});

test("kernels of an earlier GPU run on a later one, compiled by its driver", () => {
  assert.deepEqual(imagesFor("sm_90a", "sm_86"), [PTX]);
  assert.deepEqual(imagesFor("sm_89", "sm_80"), ["sm_80"]);
});

test("only Hopper has the sources that need it", () => {
  const missing = sourceNames().filter((name) => !isFor(name, PTX));
  assert.ok(missing.includes("matmul-tile") && missing.includes("attention-wgmma"));
  assert.ok(sourceNames().every((name) => isFor(name, "sm_90a")));
});
