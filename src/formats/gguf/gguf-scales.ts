// Matrices with a factor of their own beside them: `X.weight` and `X.scale`, one number, or one for each expert of a stack (NVFP4, whose
// block scales alone do not reach). The product is what such a matrix means. It is made when the tensor is read, and rounded to f16: a
// scale is any f32, and the numbers of a 4-bit matrix times it fit no 4-bit type. `X.input_scale` is for activations rounded to 4 bits,
// which they are not here.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { f32ToF16 } from "../../core/dequantize/small-floats.js";
import { FormatError } from "../../core/errors.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { elementsOf, madeTensor, TensorTable } from "../tensor-views.js";

const SCALE = /\.(scale|input_scale)$/;

/** The same tensors with their scales multiplied in; `kept` ones stay, and so does one without its matrix, which is refused as unknown later. */
export function withScales(source: TensorSource, kept: (name: string) => boolean): TensorSource {
  const names = [...source.names()];
  const isScale = (name: string) => SCALE.test(name) && !kept(name);
  if (!names.some(isScale)) return source;
  const table = new TensorTable(source.path, () => source.close());
  for (const name of names) {
    if (isScale(name) && source.has(name.replace(SCALE, ".weight"))) continue;
    const scale = name.endsWith(".weight") ? name.replace(/weight$/, "scale") : null;
    const tensor = source.get(name);
    table.add(scale !== null && isScale(scale) && source.has(scale) ? scaled(tensor, source.get(scale)) : tensor);
  }
  return table;
}

/** tensor [..., rows, cols]; scale [1], or [E] of a stack [E, rows, cols]. */
function scaled(tensor: HostTensor, scale: HostTensor): HostTensor {
  const { name, shape } = tensor;
  const count = elementsOf(scale.shape);
  if (count !== 1 && !(shape.length === 3 && count === shape[0])) {
    throw new FormatError("tensor_mismatch", {
      file: tensor.file?.path ?? "",
      tensor: scale.name,
      expected: shape.length === 3 ? `1 or ${shape[0]} numbers` : "1 number",
      found: `${count}`,
    });
  }
  return madeTensor(name, "f16", shape, () => {
    const values = toFloat32(tensor);
    const factors = toFloat32(scale);
    const each = values.length / count;
    return new Uint8Array(Uint16Array.from(values, (v, i) => f32ToF16(v * factors[Math.floor(i / each)]!)).buffer);
  });
}
