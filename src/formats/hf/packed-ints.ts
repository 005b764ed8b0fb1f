// The three ways in which Hugging Face checkpoints pack integers into 32-bit words, as IntMatrix. in = inputs, out = outputs,
// n = integers per word, lowest bits first unless said otherwise:
//   gptq                 qweight [in/n, out] along inputs; scales [groups, out]; qzeros [groups, out/n] along outputs, one too low
//   awq                  qweight [in, out/8] and qzeros [groups, out/8] along outputs, in the order 0 2 4 6 1 3 5 7; scales [groups, out]
//   compressed-tensors   weight_packed [out, in/n] along inputs; weight_scale [out, groups]; weight_zero_point [out/n, groups] along outputs

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { FormatError } from "../../core/errors.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import type { IntMatrix } from "./int-weights.js";

export interface GptqOptions {
  readonly bits: 4 | 8;
  /** -1: the whole column is one group. */
  readonly groupSize: number;
  /** Added to what qzeros says: 1, or 0 in the second version of the format. */
  readonly zeroOffset: 0 | 1;
}

export function gptqMatrix(source: TensorSource, name: string, options: GptqOptions): IntMatrix {
  const { bits, zeroOffset } = options;
  const perWord = 32 / bits;
  const packed = requireWords(source, `${name}.qweight`);
  const rows = packed.shape[1]!;
  const cols = packed.shape[0]! * perWord;
  const groupSize = options.groupSize === -1 ? cols : options.groupSize;
  const groups = Math.ceil(cols / groupSize);
  const scales = source.get(`${name}.scales`, [groups, rows]);
  const zeros = requireWords(source, `${name}.qzeros`, [groups, rows / perWord]);
  // Columns sorted by importance when the weights were quantised ("desc_act"): the groups are not in their order.
  const order = source.has(`${name}.g_idx`) ? groupIndex(source.get(`${name}.g_idx`, [cols]), groups) : null;
  const isInOrder = order === null || order.every((group, col) => group === Math.floor(col / groupSize));
  return {
    rows,
    cols,
    bits,
    groupSize: isInOrder ? groupSize : null,
    open: () => {
      const zeroWords = wordsOf(zeros);
      let words: Int32Array | null = null;
      return {
        readCodes: (codes, row, block) => {
          words ??= wordsOf(packed);
          for (let i = 0; i < codes.length; i += perWord) {
            const word = words[((block * 32 + i) / perWord) * rows + row]!;
            for (let k = 0; k < perWord; k++) codes[i + k] = (word >>> (bits * k)) & ((1 << bits) - 1);
          }
        },
        scales: toFloat32(scales),
        // Stored one lower: a zero point of 0 was stored as all ones.
        zeros: Uint8Array.from(
          { length: groups * rows },
          (_, i) => (unpack(zeroWords, i, bits) + zeroOffset) & ((1 << bits) - 1),
        ),
        rowStride: 1,
        groupStride: rows,
        groupOf: isInOrder ? (col) => Math.floor(col / groupSize) : (col) => order[col]!,
      };
    },
  };
}

/** Where in a word of AWQ the output j of 8 lies. */
const AWQ_PLACE = [0, 4, 1, 5, 2, 6, 3, 7];

export function awqMatrix(source: TensorSource, name: string, options: { readonly groupSize: number }): IntMatrix {
  const packed = requireWords(source, `${name}.qweight`);
  const cols = packed.shape[0]!;
  const rows = packed.shape[1]! * 8;
  const groupSize = options.groupSize === -1 ? cols : options.groupSize;
  const groups = Math.ceil(cols / groupSize);
  const scales = source.get(`${name}.scales`, [groups, rows]);
  const zeros = requireWords(source, `${name}.qzeros`, [groups, rows / 8]);
  const codeAt = (words: Int32Array, line: number, row: number) =>
    (words[line * (rows / 8) + (row >> 3)]! >>> (4 * AWQ_PLACE[row & 7]!)) & 15;
  return {
    rows,
    cols,
    bits: 4,
    groupSize,
    open: () => {
      const zeroWords = wordsOf(zeros);
      let words: Int32Array | null = null;
      return {
        readCodes: (codes, row, block) => {
          words ??= wordsOf(packed);
          for (let i = 0; i < codes.length; i++) codes[i] = codeAt(words, block * 32 + i, row);
        },
        scales: toFloat32(scales),
        zeros: Uint8Array.from({ length: groups * rows }, (_, i) => codeAt(zeroWords, Math.floor(i / rows), i % rows)),
        rowStride: 1,
        groupStride: rows,
        groupOf: (col) => Math.floor(col / groupSize),
      };
    },
  };
}

/** compressed-tensors' "pack-quantized": shape and bits are the tensors' own. */
export function packedMatrix(source: TensorSource, name: string): IntMatrix {
  const shape = source.get(`${name}.weight_shape`, [2]);
  const [rows, cols] = toFloat32(shape) as unknown as [number, number];
  const packed = requireWords(source, `${name}.weight_packed`);
  const bits = packed.shape[1]! === Math.ceil(cols / 8) ? 4 : 8;
  const perWord = 32 / bits;
  if (packed.shape[0] !== rows || packed.shape[1] !== Math.ceil(cols / perWord)) {
    throw mismatch(source, packed, `[${rows}, ${cols}] in 4 or 8 bits`);
  }
  const scales = source.get(`${name}.weight_scale`);
  const groups = scales.shape.length === 2 && scales.shape[0] === rows ? scales.shape[1]! : 0;
  if (groups < 1 || cols % groups !== 0) throw mismatch(source, scales, `[${rows}, groups of ${cols} columns]`);
  const order = source.has(`${name}.weight_g_idx`)
    ? groupIndex(source.get(`${name}.weight_g_idx`, [cols]), groups)
    : null;
  const groupSize = cols / groups;
  const isInOrder = order === null || order.every((group, col) => group === Math.floor(col / groupSize));
  const zeros = source.has(`${name}.weight_zero_point`)
    ? requireWords(source, `${name}.weight_zero_point`, [Math.ceil(rows / perWord), groups])
    : null;
  const wordsPerRow = packed.shape[1]!;
  return {
    rows,
    cols,
    bits,
    groupSize: isInOrder ? groupSize : null,
    open: () => {
      const zeroWords = zeros === null ? null : wordsOf(zeros);
      let words: Int32Array | null = null;
      const zeroAt = (row: number, group: number) =>
        (zeroWords![Math.floor(row / perWord) * groups + group]! >>> (bits * (row % perWord))) & ((1 << bits) - 1);
      return {
        readCodes: (codes, row, block) => {
          words ??= wordsOf(packed);
          for (let i = 0; i < codes.length; i += perWord) {
            const word = words[row * wordsPerRow + (block * 32 + i) / perWord]!;
            for (let k = 0; k < perWord; k++) codes[i + k] = (word >>> (bits * k)) & ((1 << bits) - 1);
          }
        },
        scales: toFloat32(scales),
        zeros:
          zeros === null
            ? null
            : Uint8Array.from({ length: rows * groups }, (_, i) => zeroAt(Math.floor(i / groups), i % groups)),
        rowStride: groups,
        groupStride: 1,
        groupOf: isInOrder ? (col) => Math.floor(col / groupSize) : (col) => order[col]!,
      };
    },
  };
}

/** Plain i8 weights [out, in] with weight_scale [out, 1] or [1]: compressed-tensors' "int-quantized". */
export function byteMatrix(source: TensorSource, name: string): IntMatrix {
  const weight = source.get(`${name}.weight`);
  const [rows, cols] = weight.shape as [number, number];
  const scales = source.get(`${name}.weight_scale`);
  const count = scales.shape.reduce((product, dim) => product * dim, 1);
  if (weight.shape.length !== 2 || (count !== 1 && count !== rows))
    throw mismatch(source, scales, `[${rows}, 1] or [1]`);
  if (source.has(`${name}.weight_zero_point`)) {
    throw mismatch(source, source.get(`${name}.weight_zero_point`), "no zero point for 8-bit weights");
  }
  return {
    rows,
    cols,
    bits: 8,
    groupSize: cols,
    open: () => {
      let bytes: Uint8Array | null = null;
      return {
        readCodes: (codes, row, block) => {
          bytes ??= weight.bytes();
          for (let i = 0; i < codes.length; i++) codes[i] = bytes[row * cols + block * 32 + i]! ^ 128;
        },
        scales: toFloat32(scales),
        zeros: null,
        rowStride: count === 1 ? 0 : 1,
        groupStride: 0,
        groupOf: () => 0,
      };
    },
  };
}

function requireWords(source: TensorSource, name: string, shape?: readonly number[]): HostTensor {
  const tensor = source.get(name, shape);
  if (tensor.dtype !== "i32" || tensor.shape.length !== 2) throw mismatch(source, tensor, "a matrix of i32");
  return tensor;
}

function wordsOf(tensor: HostTensor): Int32Array {
  const bytes = tensor.bytes();
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Int32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4);
}

/** Integer i of words packed along their last dimension. */
function unpack(words: Int32Array, i: number, bits: number): number {
  const perWord = 32 / bits;
  return (words[Math.floor(i / perWord)]! >>> (bits * (i % perWord))) & ((1 << bits) - 1);
}

function groupIndex(tensor: HostTensor, groups: number): Float32Array {
  const order = toFloat32(tensor);
  if (order.some((group) => group < 0 || group >= groups)) {
    throw new FormatError("tensor_mismatch", {
      file: tensor.file?.path ?? "",
      tensor: tensor.name,
      expected: `group numbers 0..${groups - 1}`,
      found: String(order.find((group) => group < 0 || group >= groups)),
    });
  }
  return order;
}

function mismatch(source: TensorSource, tensor: HostTensor, expected: string): FormatError {
  const found = `${tensor.dtype} [${tensor.shape.join(", ")}]`;
  return new FormatError("tensor_mismatch", { file: source.path, tensor: tensor.name, expected, found });
}
