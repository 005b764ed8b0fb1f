// A checkpoint some of whose tensors are changed on the way: rows in another order, factors multiplied in.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { madeTensor } from "../../formats/tensor-views.js";
import type { TensorChange } from "../loader.js";

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

/** Column i of the result is column columnOf(i) of a matrix; f32 where its encoding has blocks. */
export function columnsMoved(columnOf: (column: number) => number): TensorChange {
  const moved = (tensor: HostTensor): HostTensor => {
    const { name, shape, dtype } = tensor;
    const [rows, cols] = shape as [number, number];
    const isPlain = dtype === "f16" || dtype === "bf16";
    return madeTensor(name, isPlain ? dtype : "f32", shape, () => {
      const bytes = isPlain ? tensor.bytes() : null;
      // A view of halves needs an even place in its buffer.
      const from = bytes === null ? toFloat32(tensor) : new Uint16Array(bytes.slice().buffer);
      const out = bytes === null ? new Float32Array(rows * cols) : new Uint16Array(rows * cols);
      for (let c = 0; c < cols; c++) {
        const source = columnOf(c);
        for (let r = 0; r < rows; r++) out[r * cols + c] = from[r * cols + source]!;
      }
      return new Uint8Array(out.buffer);
    });
  };
  return { shapeBefore: (shape) => shape, made: moved };
}
