// A checkpoint some of whose tensors are changed on the way: rows in another order, factors multiplied in.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { madeTensor } from "../../formats/tensor-views.js";

export function mappedSource(
  source: TensorSource,
  map: (tensor: HostTensor, name: string) => HostTensor,
): TensorSource {
  return {
    path: source.path,
    has: (name) => source.has(name),
    get: (name, shape) => map(source.get(name, shape), name),
    names: () => source.names(),
    close: () => source.close(),
  };
}

/** Each row of a matrix, or number of a vector, times its factor, in f32. */
export function scaledRows(tensor: HostTensor, factors: Float32Array): HostTensor {
  const { name, shape } = tensor;
  return madeTensor(name, "f32", shape, () => {
    const values = toFloat32(tensor);
    const cols = values.length / factors.length;
    return new Uint8Array(values.map((value, i) => value * factors[Math.floor(i / cols)]!).buffer);
  });
}
