import assert from "node:assert/strict";
import { test } from "node:test";
import { cosine, cutVector, scaleToOne } from "./vectors.js";

test("vectors are scaled to length 1, zeros stay; a cosine is of directions alone", () => {
  assert.deepEqual(scaleToOne(Float32Array.of(3, 0, 4)), Float32Array.of(0.6, 0, 0.8));
  assert.deepEqual(scaleToOne(Float32Array.of(0, 0)), Float32Array.of(0, 0));
  assert.equal(cosine(Float32Array.of(3, 4), Float32Array.of(8, 6)), 0.96);
  assert.equal(cosine(Float32Array.of(1, 2), Float32Array.of(-2, 1)), 0);
  assert.equal(cosine(Float32Array.of(0, 0), Float32Array.of(1, 1)), 0);
});

test("a vector is cut to any size up to its own", () => {
  const vector = Float32Array.of(1, 2, 3);
  assert.equal(cutVector(vector, undefined), vector);
  assert.deepEqual(cutVector(vector, 1), Float32Array.of(1));
  assert.deepEqual(cutVector(vector, 3), vector);
  for (const dimensions of [0, 4, 1.5, Number.NaN])
    assert.throws(() => cutVector(vector, dimensions), /dimensions is .* from 1 to 3/);
});
