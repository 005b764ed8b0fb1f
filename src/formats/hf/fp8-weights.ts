// FP8 weights with scales beside them, as bf16: the values that Hugging Face computes with when it dequantises such a
// checkpoint. A scale belongs to the whole matrix, to a row, or to a block of rows and columns.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { F8_E4M3_VALUES, F8_E5M2_VALUES, f32ToBf16 } from "../../core/dequantize/small-floats.js";
import { FormatError } from "../../core/errors.js";
import type { HostTensor } from "../../core/tensor.js";
import { elementsOf, madeTensor } from "../tensor-views.js";

/** weight [out, in]; scale [], [1], [out], [out, 1] or [ceil(out / block[0]), ceil(in / block[1])]; w = f8 * scale. */
export function fp8Tensor(weight: HostTensor, scale: HostTensor, block: readonly [number, number]): HostTensor {
  const [rows = 0, cols = 0] = weight.shape;
  const [blockRows, blockCols] = scaleBlock(weight, scale, block);
  return madeTensor(weight.name, "bf16", weight.shape, () => {
    const values = weight.dtype === "f8_e4m3" ? F8_E4M3_VALUES : F8_E5M2_VALUES;
    const codes = weight.bytes();
    const scales = toFloat32(scale);
    const scalesPerRow = Math.ceil(cols / blockCols);
    const out = new Uint16Array(rows * cols);
    for (let row = 0; row < rows; row++) {
      const scaleRow = Math.floor(row / blockRows) * scalesPerRow;
      for (let col = 0; col < cols; col++) {
        const at = row * cols + col;
        out[at] = f32ToBf16(Math.fround(values[codes[at]!]! * scales[scaleRow + Math.floor(col / blockCols)]!));
      }
    }
    return new Uint8Array(out.buffer);
  });
}

/** Rows and columns that share a scale. */
function scaleBlock(weight: HostTensor, scale: HostTensor, block: readonly [number, number]): [number, number] {
  const [rows = 0, cols = 0] = weight.shape;
  const count = elementsOf(scale.shape);
  if (count === 1) return [rows, cols];
  if (count === rows && scale.shape[0] === rows) return [1, cols];
  const [blockRows, blockCols] = block;
  const expected = [Math.ceil(rows / blockRows), Math.ceil(cols / blockCols)];
  if (scale.shape[0] === expected[0] && scale.shape[1] === expected[1]) return [blockRows, blockCols];
  throw new FormatError("tensor_mismatch", {
    file: scale.file?.path ?? "",
    tensor: scale.name,
    expected: `[1], [${rows}, 1] or [${expected.join(", ")}]`,
    found: `[${scale.shape.join(", ")}]`,
  });
}
