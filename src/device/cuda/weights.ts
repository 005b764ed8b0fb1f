// Checkpoint tensors on their way to the device. f32 stays f32; f16 and bf16 keep their numbers, most block encodings and FP8
// (e4m3) their codes and scales (codes.ts); the other encodings are decoded and rounded to bf16.

import { dequantize, toFloat32 } from "../../core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../core/dequantize/quantize.js";
import { errorFor } from "../../core/errors.js";
import type { HostTensor, TensorDtype } from "../../core/tensor.js";
import type { WeightQuantization } from "../device.js";
import { CODED, FORMAT, type Format, STAGED_CODE } from "./codes.js";
import type { CudaRuntime } from "./runtime.js";
import { CudaWeight, weightBytes } from "./tensor.js";

export interface LoadWeightOptions {
  readonly quantize?: WeightQuantization;
  readonly transposed?: boolean;
}

const BLOCK = 32;
/** Rows staged on the device at a time, in bytes. */
const STAGED_BYTES = 64 * 2 ** 20;

export class WeightLoader {
  readonly #runtime: CudaRuntime;
  #staged = 0;
  #stagedBytes = 0;

  constructor(runtime: CudaRuntime) {
    this.#runtime = runtime;
  }

  load(parts: readonly HostTensor[], { quantize = "none", transposed = false }: LoadWeightOptions): CudaWeight {
    const cols = colsOf(parts[0]!, transposed);
    for (const part of parts) {
      if (colsOf(part, transposed) !== cols) throw mismatch(part, `${cols} columns`, `${colsOf(part, transposed)}`);
    }
    const rows = parts.reduce((sum, part) => sum + rowsOf(part, transposed), 0);
    const isQuantized = quantize !== "none" && cols % BLOCK === 0;
    const encodings = parts.map(({ dtype }) => (isQuantized && isFloat(dtype) ? QUANTIZED[quantize] : dtype));
    const format = formatOf(encodings, cols, transposed);
    const bytes = weightBytes(rows, cols, format);
    const address = this.#runtime.context.alloc(bytes, `the weight ${parts[0]!.name} of ${rows} x ${cols}`);
    const weight = new CudaWeight(address, rows, cols, format);
    let firstRow = 0;
    for (const [i, part] of parts.entries()) {
      const partRows = rowsOf(part, transposed);
      const encoding = encodings[i]!;
      const encoded = encoding === part.dtype ? part.bytes() : encode(part, partRows, cols, quantize as "q8" | "q4");
      if (encoding === "f8_e4m3_64" && format.isCoded) checkScales(part, encoded);
      if (format.isCoded) this.#appendCodes(weight, encoded, encoding, firstRow, partRows);
      else {
        const isStaged = STAGED_CODE[encoding] !== undefined;
        const staged = isStaged ? encoded : decode(encoding, encoded, partRows * cols);
        this.#append(weight, staged, STAGED_CODE[isStaged ? encoding : "f32"]!, firstRow, partRows, transposed);
      }
      firstRow += partRows;
    }
    // Products prefetch weights before the kernels ahead of them have ended: these must be packed by then.
    this.#runtime.queue.flush();
    this.#runtime.context.synchronize();
    return weight;
  }

  /** Copies rows to the device block by block and puts them where the weight wants them. */
  #append(
    weight: CudaWeight,
    bytes: Uint8Array,
    dtype: number,
    firstRow: number,
    rows: number,
    isTransposed: boolean,
  ): void {
    const { queue, modules } = this.#runtime;
    // A transposed part has its rows side by side: it travels whole.
    this.#stage(bytes, rows, isTransposed ? rows : 1, (r, count) => {
      const threads = count * (weight.paddedCols / 2);
      queue
        .begin(modules.functionOf("weights", "pack_weight"), Math.ceil(threads / 256), 1, 1, 256, 0)
        .long(weight.address)
        .long(this.#staged)
        .long(firstRow + r)
        .long(count)
        .long(weight.cols)
        .long(weight.paddedCols)
        .int(dtype)
        .int(weight.kind)
        .int(isTransposed ? 1 : 0)
        .int(0)
        .end();
    });
  }

  /** Rows of whole blocks: their codes and scales are put where the format has them. */
  #appendCodes(weight: CudaWeight, bytes: Uint8Array, encoding: TensorDtype, firstRow: number, rows: number): void {
    const { queue, modules } = this.#runtime;
    this.#stage(bytes, rows, 1, (r, count) => {
      queue
        .begin(
          modules.functionOf("weights", "pack_codes"),
          Math.ceil((count * weight.cols) / BLOCK / 128),
          1,
          1,
          128,
          0,
        )
        .long(weight.address)
        .long(this.#staged)
        .long(firstRow + r)
        .long(count)
        .long(bytes.length / rows)
        .int(weight.cols)
        .int(weight.paddedCols / 64)
        .int(CODED[encoding]!.code)
        .int(weight.format.code)
        .end();
    });
  }

  /** Copies rows to the staging memory, as many at a time as it holds but at least `least`; `pack` takes them from there. */
  #stage(bytes: Uint8Array, rows: number, least: number, pack: (firstRow: number, count: number) => void): void {
    const rowBytes = bytes.length / rows;
    const step = Math.max(least, Math.floor(STAGED_BYTES / rowBytes));
    for (let r = 0; r < rows; r += step) {
      const count = Math.min(step, rows - r);
      const part = bytes.subarray(r * rowBytes, (r + count) * rowBytes);
      this.#reserve(part.length);
      this.#runtime.upload(this.#staged, part);
      pack(r, count);
    }
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#stagedBytes) return;
    this.#runtime.queue.flush();
    this.#runtime.context.synchronize();
    if (this.#staged !== 0) this.#runtime.context.free(this.#staged);
    this.#stagedBytes = Math.max(bytes, 2 * this.#stagedBytes);
    this.#staged = this.#runtime.context.alloc(this.#stagedBytes, "weights on their way to the GPU");
  }

  /** Frees the staging memory; load may be called again. */
  release(): void {
    if (this.#staged !== 0) this.#runtime.context.free(this.#staged);
    this.#staged = 0;
    this.#stagedBytes = 0;
  }
}

const QUANTIZED = { q8: "q8_0", q4: "q4_0" } as const satisfies Record<"q8" | "q4", TensorDtype>;

/** What `quantize` may turn into codes of its own. */
function isFloat(dtype: TensorDtype): boolean {
  return STAGED_CODE[dtype] !== undefined || dtype === "f8_e4m3_64";
}

/** Kernels hold scales times 2^120 (native/cuda/fragments.cuh). */
const MAX_F8_SCALE = 256;

function checkScales(part: HostTensor, blocks: Uint8Array): void {
  const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
  for (let at = 0; at < blocks.length; at += 68) {
    const scale = view.getFloat32(at, true);
    if (!(Math.abs(scale) < MAX_F8_SCALE)) throw mismatch(part, `scales below ${MAX_F8_SCALE}`, `${scale}`);
  }
}

/** The narrowest format that holds these encodings, one under the other. f32 only where all are; f16 only where all are f16 (bf16
 * numbers may be out of its range). */
export function formatOf(encodings: readonly TensorDtype[], cols: number, isTransposed: boolean): Format {
  if (encodings.every((dtype) => dtype === "f32")) return FORMAT.f32;
  if (encodings.every((dtype) => dtype === "f16")) return FORMAT.f16;
  if (isTransposed || cols % BLOCK !== 0) return FORMAT.bf16;
  const formats = new Set(encodings.map((dtype) => CODED[dtype]?.format));
  const [only] = formats;
  if (formats.size === 1) return only ?? FORMAT.bf16;
  // Codes with a minimum hold those without one, and 7 bits hold 4; 8 bits are no one else's.
  const canWiden = [...formats].every((f) => f === FORMAT.q4 || f === FORMAT.q4Min || f === FORMAT.q8Min);
  if (!canWiden) return FORMAT.bf16;
  return formats.has(FORMAT.q8Min) ? FORMAT.q8Min : FORMAT.q4Min;
}

/** Bytes of a matrix of this encoding on the device. */
export function packedBytes(dtype: TensorDtype, rows: number, cols: number, quantize: WeightQuantization): number {
  const encoding = quantize !== "none" && cols % BLOCK === 0 && isFloat(dtype) ? QUANTIZED[quantize] : dtype;
  return weightBytes(rows, cols, formatOf([encoding], cols, false));
}

function decode(encoding: TensorDtype, bytes: Uint8Array, count: number): Uint8Array {
  const values = new Float32Array(count);
  dequantize(encoding, bytes, values, count);
  return new Uint8Array(values.buffer);
}

function encode(part: HostTensor, rows: number, cols: number, quantize: "q8" | "q4"): Uint8Array {
  const values = toFloat32(part);
  return quantize === "q8" ? quantizeQ8(values, rows, cols) : quantizeQ4(values, rows, cols);
}

/** A tensor of more than two dimensions is rows of its last one. */
function colsOf({ shape }: HostTensor, isTransposed: boolean): number {
  return isTransposed ? shape[0]! : shape[shape.length - 1]!;
}

function rowsOf(tensor: HostTensor, isTransposed: boolean): number {
  return tensor.shape.reduce((product, size) => product * size, 1) / colsOf(tensor, isTransposed);
}

function mismatch(part: HostTensor, expected: string, found: string): Error {
  return errorFor("tensor_mismatch", { file: part.file?.path ?? "memory", tensor: part.name, expected, found });
}
