// Embeddings as clients want them: of length 1 unless told otherwise.

export function normalize(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}
