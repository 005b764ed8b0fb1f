// FP8 weights with scales beside them. A scale belongs to the whole matrix, to a row, or to a block of rows and columns. The values are
// those that Hugging Face computes with when it dequantises such a checkpoint: products rounded to bf16.
//
//   f8_e4m3_64   e4m3, where no 64 columns of a row have two scales: the codes stay, with a scale before each 64 of them
//   bf16         the others

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { F8_E4M3_VALUES, F8_E5M2_VALUES, f32ToBf16 } from "../../core/dequantize/small-floats.js";
import { FormatError } from "../../core/errors.js";
import type { HostTensor } from "../../core/tensor.js";
import { elementsOf, madeTensor } from "../tensor-views.js";

/** Columns behind a scale of f8_e4m3_64. */
const GROUP = 64;

/** weight [out, in]; scale [], [1], [out], [out, 1] or [ceil(out / block[0]), ceil(in / block[1])]; w = f8 * scale. */
export function fp8Tensor(weight: HostTensor, scale: HostTensor, block: readonly [number, number]): HostTensor {
  const [rows, cols] = weight.shape as [number, number];
  const [blockRows, blockCols] = scaleBlock(weight, scale, block);
  const isUniform = blockCols === cols || blockCols % GROUP === 0;
  if (weight.dtype === "f8_e4m3" && cols % GROUP === 0 && isUniform) {
    return madeTensor(weight.name, "f8_e4m3_64", weight.shape, () => withScales(weight, scale, blockRows, blockCols));
  }
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

/** Each 64 codes of a row behind their scale, in words: they are copied, not looked at. */
function withScales(weight: HostTensor, scale: HostTensor, blockRows: number, blockCols: number): Uint8Array {
  const [rows, cols] = weight.shape as [number, number];
  const bytes = weight.bytes();
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  const codes = new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4);
  const scales = toFloat32(scale);
  const scalesPerRow = Math.ceil(cols / blockCols);
  const words = new Uint32Array((rows * cols * 17) / GROUP);
  const floats = new Float32Array(words.buffer);
  let [from, to] = [0, 0];
  for (let row = 0; row < rows; row++) {
    const scaleRow = Math.floor(row / blockRows) * scalesPerRow;
    for (let col = 0; col < cols; col += GROUP) {
      floats[to++] = scales[scaleRow + Math.floor(col / blockCols)]!;
      for (let i = 0; i < GROUP / 4; i++) words[to++] = codes[from++]!;
    }
  }
  return new Uint8Array(words.buffer);
}

/** Rows and columns that share a scale. */
function scaleBlock(weight: HostTensor, scale: HostTensor, block: readonly [number, number]): [number, number] {
  const [rows, cols] = weight.shape as [number, number];
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
