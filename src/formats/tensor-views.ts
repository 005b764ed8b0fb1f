// Tensors as parts and rearrangements of other tensors, and a table of them as a TensorSource. Views are lazy: bytes are read
// when asked for, and a view that is a plain range of a file stays one, so that a native device can still map it.

import { closeSync, openSync } from "node:fs";
import { FormatError } from "../core/errors.js";
import { bytesOf, type HostTensor, type TensorDtype, type TensorSource } from "../core/tensor.js";
import { readFully } from "./read-fully.js";

/** A tensor that is a range of a file. */
export function fileTensor(
  name: string,
  dtype: TensorDtype,
  shape: readonly number[],
  path: string,
  offset: number,
): HostTensor {
  const byteLength = bytesOf(dtype, elementsOf(shape));
  const bytes = () => readRange(path, name, offset, byteLength);
  return { name, dtype, shape, file: { path, offset }, byteLength, bytes };
}

/** A tensor whose bytes are made on demand. */
export function madeTensor(
  name: string,
  dtype: TensorDtype,
  shape: readonly number[],
  bytes: () => Uint8Array,
): HostTensor {
  return { name, dtype, shape, file: null, byteLength: bytesOf(dtype, elementsOf(shape)), bytes };
}

export function renamed(tensor: HostTensor, name: string): HostTensor {
  const { dtype, shape, file, byteLength } = tensor;
  return { name, dtype, shape, file, byteLength, bytes: () => tensor.bytes() };
}

/** The same bytes under another shape of as many elements. */
export function reshaped(tensor: HostTensor, name: string, shape: readonly number[]): HostTensor {
  const { dtype, file, byteLength } = tensor;
  return { name, dtype, shape, file, byteLength, bytes: () => tensor.bytes() };
}

/** Entries [from, from + count) along the outermost dimension. */
export function sliceOuter(tensor: HostTensor, name: string, from: number, count: number): HostTensor {
  const shape = [count, ...tensor.shape.slice(1)];
  const entryBytes = tensor.byteLength / tensor.shape[0]!;
  if (tensor.file !== null) {
    return fileTensor(name, tensor.dtype, shape, tensor.file.path, tensor.file.offset + from * entryBytes);
  }
  const bytes = () => tensor.bytes().subarray(from * entryBytes, (from + count) * entryBytes);
  return madeTensor(name, tensor.dtype, shape, bytes);
}

/** Entry `index` of the outermost dimension, without that dimension: one expert of a stack. */
export function entryOf(tensor: HostTensor, name: string, index: number): HostTensor {
  return reshaped(sliceOuter(tensor, name, index, 1), name, tensor.shape.slice(1));
}

/** Row i of the result is row rowOf(i) of the tensor: blocks lie along a row, so any encoding can be permuted. */
export function permuteRows(tensor: HostTensor, name: string, rowOf: (row: number) => number): HostTensor {
  const rows = tensor.shape[0]!;
  const rowBytes = tensor.byteLength / rows;
  return madeTensor(name, tensor.dtype, tensor.shape, () => {
    const from = tensor.bytes();
    const out = new Uint8Array(from.length);
    for (let row = 0; row < rows; row++) {
      const source = rowOf(row) * rowBytes;
      out.set(from.subarray(source, source + rowBytes), row * rowBytes);
    }
    return out;
  });
}

/** Tensors by name. */
export class TensorTable implements TensorSource {
  readonly path: string;
  readonly #tensors = new Map<string, HostTensor>();
  readonly #onClose: () => void;

  constructor(path: string, onClose: () => void = () => {}) {
    this.path = path;
    this.#onClose = onClose;
  }

  /** A name may come once only. */
  add(tensor: HostTensor): void {
    if (this.#tensors.has(tensor.name)) {
      throw new FormatError("file_corrupt", {
        file: tensor.file?.path ?? this.path,
        what: `tensor ${tensor.name}`,
        expected: "one of each name",
        found: "a second one",
      });
    }
    this.#tensors.set(tensor.name, tensor);
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  get(name: string, shape?: readonly number[]): HostTensor {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined) {
      const expected = shape?.join(", ") ?? "any";
      throw new FormatError("tensor_missing", { file: this.path, tensor: name, expected });
    }
    if (shape !== undefined && !sameShape(shape, tensor.shape)) {
      throw new FormatError("tensor_mismatch", {
        file: tensor.file?.path ?? this.path,
        tensor: name,
        expected: `shape [${shape.join(", ")}]`,
        found: `[${tensor.shape.join(", ")}]`,
      });
    }
    return tensor;
  }

  names(): Iterable<string> {
    return this.#tensors.keys();
  }

  close(): void {
    this.#onClose();
  }
}

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((dim, i) => dim === b[i]);
}

function readRange(path: string, name: string, offset: number, length: number): Uint8Array {
  const fd = openSync(path, "r");
  try {
    const bytes = new Uint8Array(length);
    const done = readFully(fd, bytes, offset);
    if (done < length) {
      throw new FormatError("file_corrupt", {
        file: path,
        what: `tensor ${name}`,
        expected: `${length} bytes`,
        found: `${done}; the file has shrunk since it was opened`,
      });
    }
    return bytes;
  } finally {
    closeSync(fd);
  }
}
