// Checkpoint tensors on their way to the GPU. f32, f16, bf16, q4_0, q8_0, q4_k and q6_k keep their width; other encodings are decoded and
// rounded to bf16, which holds FP8 exactly. A weight larger than a binding is cut into parts by rows.

import { dequantize, toFloat32 } from "../../core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../core/dequantize/quantize.js";
import { f32ToBf16, f32ToF16 } from "../../core/dequantize/small-floats.js";
import { bytesOf, type HostTensor, type TensorDtype } from "../../core/tensor.js";
import type { WeightQuantization } from "../device.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import { BLOCK_UNIT, type BlockEncoding, type Encoding, FLOAT_UNIT, isFloat, rowBytes } from "./kernels/encodings.js";
import { GpuWeight, type WeightPart } from "./tensor.js";

const KEPT: ReadonlySet<TensorDtype> = new Set(["f32", "f16", "bf16", "q4_0", "q8_0", "q4_k", "q6_k"]);
const QUANTIZED = { q8: "q8_0", q4: "q4_0" } as const;
/** What --quantize turns into blocks. */
const QUANTIZABLE: ReadonlySet<TensorDtype> = new Set(["f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "f8_e4m3_64"]);
/** Bytes handed to the queue at a time: it copies them. */
const UPLOAD_BYTES = 32 * 2 ** 20;

export interface LoadOptions {
  readonly quantize?: WeightQuantization;
  readonly transposed?: boolean;
}

export function encodingOf(dtypes: readonly TensorDtype[], cols: number, quantize: WeightQuantization): Encoding {
  const isQuantized = quantize !== "none" && cols % BLOCK_UNIT === 0;
  const wanted = dtypes.map((dtype) =>
    isQuantized && QUANTIZABLE.has(dtype) ? QUANTIZED[quantize as "q8" | "q4"] : dtype,
  );
  const [first] = wanted;
  return wanted.every((dtype) => dtype === first) && KEPT.has(first!) ? (first as Encoding) : "bf16";
}

export function loadWeight(
  queue: GpuQueue,
  parts: readonly HostTensor[],
  { quantize = "none", transposed = false }: LoadOptions,
): GpuWeight {
  const cols = colsOf(parts[0]!, transposed);
  const wrong = parts.find((part) => colsOf(part, transposed) !== cols);
  if (wrong !== undefined)
    throw new RangeError(`cannot stack ${parts.map(({ name, shape }) => `${name} [${shape}]`).join(", ")}`);
  const rows = parts.reduce((sum, part) => sum + rowsOf(part, transposed), 0);
  const encoding = encodingOf(
    parts.map(({ dtype }) => dtype),
    cols,
    quantize,
  );
  const units = isFloat(encoding) ? Math.ceil(cols / FLOAT_UNIT) : cols / BLOCK_UNIT;
  const places = allocParts(queue, rows, cols, encoding, parts[0]!.name);
  let firstRow = 0;
  for (const part of parts) {
    const count = rowsOf(part, transposed);
    const rowsOfPart = new EncodedRows(part, encoding, count, cols, transposed);
    for (const place of places) {
      const from = Math.max(firstRow, place.firstRow);
      const to = Math.min(firstRow + count, place.firstRow + place.rows);
      if (from < to)
        putRows(queue, place, from - place.firstRow, rowsOfPart, from - firstRow, to - from, units, encoding);
    }
    firstRow += count;
  }
  return new GpuWeight(rows, cols, encoding, units, places);
}

/** Bytes of a checkpoint's tensor on the GPU. */
export function packedBytes(dtype: TensorDtype, rows: number, cols: number, quantize: WeightQuantization): number {
  return rows * rowBytes(encodingOf([dtype], cols, quantize), cols);
}

function allocParts(queue: GpuQueue, rows: number, cols: number, encoding: Encoding, name: string): WeightPart[] {
  const bytes = rowBytes(encoding, cols);
  const { maxBufferSize, maxStorageBufferBindingSize } = queue.handle.limits;
  const most = Math.max(1, Math.floor((Math.min(maxBufferSize, maxStorageBufferBindingSize) - 16) / bytes));
  const codeBytes = encoding === "q4_0" ? cols / 2 : cols;
  const parts: WeightPart[] = [];
  for (let firstRow = 0; firstRow < rows; firstRow += most) {
    const count = Math.min(most, rows - firstRow);
    const buffer = queue.alloc(count * bytes, `the weight ${name} of ${rows} x ${cols}`);
    parts.push({ buffer, firstRow, rows: count, factorsAt: (count * codeBytes) / 4 });
  }
  return parts;
}

/** Rows of one checkpoint tensor in the encoding that the device holds, as the checkpoint would have them. */
class EncodedRows {
  readonly bytes: Uint8Array;
  readonly rowBytes: number;

  constructor(part: HostTensor, encoding: Encoding, rows: number, cols: number, transposed: boolean) {
    if (part.dtype === encoding && !transposed) this.bytes = part.bytes();
    else {
      const values = toFloat32(part);
      this.bytes = encode(transposed ? transpose(values, rows, cols) : values, encoding, rows, cols);
    }
    this.rowBytes = bytesOf(encoding, cols);
  }
}

function encode(values: Float32Array, encoding: Encoding, rows: number, cols: number): Uint8Array {
  if (encoding === "f32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (encoding === "q8_0") return quantizeQ8(values, rows, cols);
  if (encoding === "q4_0") return quantizeQ4(values, rows, cols);
  const half = encoding === "f16" ? f32ToF16 : f32ToBf16;
  const out = new Uint16Array(values.length);
  for (let i = 0; i < out.length; i++) out[i] = half(values[i]!);
  return new Uint8Array(out.buffer);
}

function transpose(values: Float32Array, rows: number, cols: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) out[r * cols + c] = values[c * rows + r]!;
  return out;
}

/** Rows [first, first + count) of `rows` become the rows from `to` on of the place. */
function putRows(
  queue: GpuQueue,
  place: WeightPart,
  to: number,
  rows: EncodedRows,
  first: number,
  count: number,
  units: number,
  encoding: Encoding,
): void {
  const step = Math.max(1, Math.floor(UPLOAD_BYTES / rows.rowBytes));
  for (let r = 0; r < count; r += step) {
    const n = Math.min(step, count - r);
    const bytes = rows.bytes.subarray((first + r) * rows.rowBytes, (first + r + n) * rows.rowBytes);
    if (isFloat(encoding) || encoding === "q4_k") putWhole(queue, place.buffer, to + r, bytes, n, units, encoding);
    else if (encoding === "q6_k") queue.write(place.buffer, (to + r) * units * 28, alignQ6K(bytes, (n * units) / 8));
    else putCodes(queue, place, to + r, bytes, n, units, encoding);
  }
}

function putWhole(
  queue: GpuQueue,
  to: GpuBuffer,
  row: number,
  bytes: Uint8Array,
  n: number,
  units: number,
  encoding: Encoding,
): void {
  const held = encoding === "q4_k" ? units * 18 : encoding === "f32" ? units * 32 : units * 16;
  const own = bytes.length / n;
  if (own === held) {
    queue.write(to, row * held, bytes);
    return;
  }
  const padded = new Uint8Array(n * held);
  for (let r = 0; r < n; r++) padded.set(bytes.subarray(r * own, (r + 1) * own), r * held);
  queue.write(to, row * held, padded);
}

/** 210 bytes become 224, which 16-byte loads can read. */
function alignQ6K(bytes: Uint8Array, numBlocks: number): Uint8Array {
  const out = new Uint8Array(numBlocks * 224);
  const factors = new Float32Array(out.buffer);
  const factor = new Float32Array(1);
  for (let b = 0; b < numBlocks; b++) {
    out.set(bytes.subarray(b * 210, b * 210 + 208), b * 224);
    dequantize("f16", bytes.subarray(b * 210 + 208, b * 210 + 210), factor, 1);
    factors[b * 56 + 52] = factor[0]!;
  }
  return out;
}

/** Codes and factors of q4_0 and q8_0, apart from each other. */
function putCodes(
  queue: GpuQueue,
  place: WeightPart,
  row: number,
  bytes: Uint8Array,
  n: number,
  units: number,
  encoding: BlockEncoding,
): void {
  const halves = encoding === "q4_0" ? 8 : 16; // 16-bit words of codes
  const aligned = bytes.byteOffset % 2 === 0 && !(bytes.buffer instanceof SharedArrayBuffer) ? bytes : bytes.slice();
  const source = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.length / 2);
  const codes = new Uint16Array(n * units * halves);
  const factorRow = 2 * Math.ceil(units / 2);
  const factors = new Uint16Array(n * factorRow);
  let at = 0;
  let to = 0;
  for (let r = 0; r < n; r++) {
    for (let u = 0; u < units; u++) {
      factors[r * factorRow + u] = source[at++]!;
      for (let i = 0; i < halves; i++) codes[to++] = source[at++]!;
    }
  }
  queue.write(place.buffer, row * units * halves * 2, codes);
  queue.write(place.buffer, 4 * place.factorsAt + row * factorRow * 2, factors);
}

/** A tensor of more than two dimensions is rows of its last one. */
function colsOf({ shape }: HostTensor, isTransposed: boolean): number {
  return isTransposed ? shape[0]! : shape[shape.length - 1]!;
}

function rowsOf(tensor: HostTensor, isTransposed: boolean): number {
  return tensor.shape.reduce((product, size) => product * size, 1) / colsOf(tensor, isTransposed);
}
