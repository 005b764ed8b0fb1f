import assert from "node:assert/strict";
import { test } from "node:test";
import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { TensorDtype } from "../../core/tensor.js";
import { madeTensor, TensorTable } from "../tensor-views.js";
import { fp8Tensor } from "./fp8-weights.js";
import { intTensor } from "./int-weights.js";
import { awqMatrix, byteMatrix, gptqMatrix, packedMatrix } from "./packed-ints.js";

/** The bytes at an address that is `shift` past one of whole words, as where a file is mapped. */
function shifted(bytes: Uint8Array, shift: number): Uint8Array {
  const buffer = new Uint8Array(bytes.length + 8);
  buffer.set(bytes, shift);
  return buffer.subarray(shift, shift + bytes.length);
}

function tensorOf(
  name: string,
  dtype: TensorDtype,
  shape: number[],
  values: Int32Array | Float32Array | Uint8Array,
  shift = 0,
) {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return madeTensor(name, dtype, shape, () => shifted(bytes, shift));
}
function sourceOf(...tensors: ReturnType<typeof tensorOf>[]): TensorTable {
  const table = new TensorTable("f");
  for (const tensor of tensors) table.add(tensor);
  return table;
}
const nibbles = (...codes: number[]) => codes.reduceRight((word, code) => (word << 4) | code, 0) | 0;

test("words at any address are the same words", () => {
  for (let shift = 0; shift < 8; shift++) {
    const words = Int32Array.of(nibbles(0, 1, 2, 3, 4, 5, 6, 7), nibbles(15, 14, 13, 12, 11, 10, 9, 8));
    const packed = sourceOf(
      tensorOf("x.weight_shape", "i32", [2], Int32Array.of(1, 16)),
      tensorOf("x.weight_packed", "i32", [1, 2], words, shift),
      tensorOf("x.weight_scale", "f32", [1, 1], Float32Array.of(1)),
    );
    assert.deepEqual(
      [...toFloat32(intTensor("x.weight", packedMatrix(packed, "x")))],
      [-8, -7, -6, -5, -4, -3, -2, -1, 7, 6, 5, 4, 3, 2, 1, 0],
    );
    const codes = Uint8Array.from({ length: 64 }, () => 0x38); // 1 in e4m3
    const scaled = fp8Tensor(
      tensorOf("x.weight", "f8_e4m3", [1, 64], codes, shift),
      tensorOf("x.scale", "f32", [1], Float32Array.of(3)),
      [128, 128],
    );
    assert.deepEqual([...toFloat32(scaled)], Array(64).fill(3), `${shift}`);
  }
});

test("gptq: inputs down a column of words, zero points one too low, groups by number", () => {
  // 8 inputs, 8 outputs: each output's word holds its inputs 0 to 7.
  const qweight = Int32Array.from({ length: 8 }, (_, output) =>
    nibbles(...Array.from({ length: 8 }, (_, i) => (i + output) & 15)),
  );
  const source = (order: number[]) =>
    sourceOf(
      tensorOf("x.qweight", "i32", [1, 8], qweight),
      tensorOf(
        "x.qzeros",
        "i32",
        [2, 1],
        Int32Array.of(nibbles(0, 1, 2, 3, 4, 5, 6, 7), nibbles(15, 1, 1, 1, 1, 1, 1, 1)),
      ),
      tensorOf(
        "x.scales",
        "f32",
        [2, 8],
        Float32Array.from({ length: 16 }, (_, i) => (i < 8 ? 1 : 2)),
      ),
      tensorOf("x.g_idx", "i32", [8], Int32Array.from(order)),
    );
  const row = (output: number, order: number[], zeroOffset: 0 | 1) => {
    const matrix = gptqMatrix(source(order), "x", { bits: 4, groupSize: 4, zeroOffset });
    return [...toFloat32(intTensor("x.weight", matrix))].slice(8 * output, 8 * output + 8);
  };
  const inOrder = [0, 0, 0, 0, 1, 1, 1, 1];
  // Output 0: zeros 0 + 1 and, all ones plus one, 0.
  assert.deepEqual(row(0, inOrder, 1), [-1, 0, 1, 2, 8, 10, 12, 14]);
  assert.deepEqual(row(0, inOrder, 0), [0, 1, 2, 3, -22, -20, -18, -16]);
  assert.deepEqual(row(3, inOrder, 1), [-1, 0, 1, 2, 10, 12, 14, 16]);
  assert.deepEqual(row(0, [1, 0, 1, 0, 1, 0, 1, 0], 1), [0, 0, 4, 2, 8, 4, 12, 6]);
});

test("awq: outputs along a word in an order of their own", () => {
  // Places 0 to 7 of a word are outputs 0 2 4 6 1 3 5 7.
  const source = sourceOf(
    tensorOf(
      "x.qweight",
      "i32",
      [2, 1],
      Int32Array.of(nibbles(0, 2, 4, 6, 1, 3, 5, 7), nibbles(8, 8, 8, 8, 9, 9, 9, 9)),
    ),
    tensorOf("x.qzeros", "i32", [1, 1], Int32Array.of(nibbles(0, 0, 0, 0, 1, 1, 1, 1))),
    tensorOf("x.scales", "f32", [1, 8], Float32Array.of(1, 1, 1, 1, 1, 1, 1, 2)),
  );
  const values = [...toFloat32(intTensor("x.weight", awqMatrix(source, "x", { groupSize: -1 })))];
  assert.deepEqual(values, [0, 8, 0, 8, 2, 8, 2, 8, 4, 8, 4, 8, 6, 8, 12, 16]);
});

test("FP8: a scale for all, for each row, or for blocks, by the shape of the scales", () => {
  const ONE = 0x38; // in e4m3
  const scales = (weight: [number, number], scale: number[], block: [number, number]) => {
    const count = scale.reduce((product, size) => product * size, 1);
    const tensor = fp8Tensor(
      tensorOf("w", "f8_e4m3", weight, new Uint8Array(weight[0] * weight[1]).fill(ONE)),
      tensorOf(
        "s",
        "f32",
        scale,
        Float32Array.from({ length: count }, (_, i) => i + 1),
      ),
      block,
    );
    return [tensor.dtype, ...toFloat32(tensor)];
  };
  assert.deepEqual(scales([2, 4], [], [1, 2]), ["bf16", 1, 1, 1, 1, 1, 1, 1, 1]);
  assert.deepEqual(scales([2, 4], [2], [1, 2]), ["bf16", 1, 1, 1, 1, 2, 2, 2, 2]);
  assert.deepEqual(scales([2, 4], [2, 1], [9, 9]), ["bf16", 1, 1, 1, 1, 2, 2, 2, 2]);
  assert.deepEqual(scales([2, 4], [2, 2], [1, 2]), ["bf16", 1, 1, 2, 2, 3, 3, 4, 4]);
  assert.deepEqual(scales([2, 3], [1, 2], [2, 2]), ["bf16", 1, 1, 2, 1, 1, 2]);
  // As many scales as rows, and yet blocks.
  assert.deepEqual(scales([4, 2], [2, 2], [2, 1]), ["bf16", 1, 2, 1, 2, 3, 4, 3, 4]);
  const wide = (block: [number, number], scale: number[]) => scales([1, 128], scale, block);
  assert.deepEqual(wide([1, 64], [1, 2]), ["f8_e4m3_64", ...Array(64).fill(1), ...Array(64).fill(2)]);
  assert.deepEqual(wide([1, 96], [1, 2]), ["bf16", ...Array(96).fill(1), ...Array(32).fill(2)]);
  assert.deepEqual(wide([1, 128], [1, 1]), ["f8_e4m3_64", ...Array(128).fill(1)]);
  for (const shape of [[3], [2, 3], [1, 2], [4, 2]])
    assert.throws(() => scales([2, 4], shape, [1, 2]), /s: expected \[1\], \[2, 1\] or \[2, 2\], found/);
});

test("plain bytes: a scale for each row or for all", () => {
  const bytes = Uint8Array.from([1, 255, 127, 128, 0, 2]);
  const values = (scales: number[], shape: number[]) => {
    const source = sourceOf(
      tensorOf("x.weight", "i8", [2, 3], bytes),
      tensorOf("x.weight_scale", "f32", shape, Float32Array.from(scales)),
    );
    return [...toFloat32(intTensor("x.weight", byteMatrix(source, "x")))];
  };
  assert.deepEqual(values([1, 2], [2, 1]), [1, -1, 127, -256, 0, 4]);
  assert.deepEqual(values([2], [1]), [2, -2, 254, -256, 0, 4]);
  assert.throws(() => values([1, 2, 3], [3, 1]), /x\.weight_scale: expected \[2, 1\] or \[1\], found f32 \[3, 1\]/);
});
