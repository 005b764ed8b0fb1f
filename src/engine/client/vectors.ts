// Arithmetic on embeddings.

import { RequestError } from "../../core/errors.js";

/** Of length 1; zeros stay as they are. */
export function scaleToOne(vector: Float32Array): Float32Array {
  const length = lengthOf(vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}

/** The first numbers of a Matryoshka embedding, which are an embedding of their own. */
export function cutVector(vector: Float32Array, dimensions: number | undefined): Float32Array {
  if (dimensions === undefined) return vector;
  if (Number.isSafeInteger(dimensions) && dimensions >= 1 && dimensions <= vector.length)
    return vector.slice(0, dimensions);
  const expected = `a whole number from 1 to ${vector.length}, the size of this model's embeddings`;
  throw new RequestError("invalid_value", { param: "dimensions", value: dimensions, expected });
}

export function cosine(a: Float32Array, b: Float32Array): number {
  let dot = 0;
  for (let i = 0; i < a.length; i++) dot += a[i]! * b[i]!;
  const lengths = lengthOf(a) * lengthOf(b);
  return lengths === 0 ? 0 : dot / lengths;
}

function lengthOf(vector: Float32Array): number {
  let squares = 0;
  for (const value of vector) squares += value * value;
  return Math.sqrt(squares);
}
