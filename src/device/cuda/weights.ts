// Checkpoint tensors on their way to the device. f32 stays f32; f16 and bf16 keep their numbers in fragment order; f8 becomes bf16,
// which holds every f8 number; block formats are dequantised and rounded to bf16.

import { dequantize, toFloat32 } from "../../core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../core/dequantize/quantize.js";
import { errorFor } from "../../core/errors.js";
import type { HostTensor } from "../../core/tensor.js";
import type { WeightQuantization } from "../device.js";
import { KIND, KIND_NAME, type Kind, STAGED_CODE } from "./codes.js";
import type { CudaRuntime } from "./runtime.js";
import { CudaWeight } from "./tensor.js";

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
    const isRounded = quantize !== "none" && cols % BLOCK === 0;
    const kind = isRounded ? KIND.bf16 : kindOfParts(parts);
    const paddedCols = Math.ceil(cols / 64) * 64;
    const bytes = kind === KIND.none ? rows * cols * 4 : Math.ceil(rows / 16) * 16 * paddedCols * 2;
    const address = this.#runtime.context.alloc(bytes, `the weight ${parts[0]!.name} of ${rows} x ${cols}`);
    const weight = new CudaWeight(address, rows, cols, kind, KIND_NAME[kind], bytes);
    let firstRow = 0;
    for (const part of parts) {
      const partRows = rowsOf(part, transposed);
      const code = STAGED_CODE[part.dtype];
      if (code !== undefined && !isRounded) this.#append(weight, part.bytes(), code, firstRow, partRows, transposed);
      else {
        const values = toFloat32(part);
        if (isRounded && code !== undefined) roundTrip(values, partRows, cols, quantize as "q8" | "q4");
        const floats = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
        this.#append(weight, floats, STAGED_CODE.f32!, firstRow, partRows, transposed);
      }
      firstRow += partRows;
    }
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
    const rowBytes = bytes.length / rows;
    // A transposed part has its rows side by side: it travels whole.
    const step = isTransposed ? rows : Math.max(1, Math.floor(STAGED_BYTES / rowBytes));
    for (let r = 0; r < rows; r += step) {
      const count = Math.min(step, rows - r);
      const part = bytes.subarray(r * rowBytes, (r + count) * rowBytes);
      this.#reserve(part.length);
      this.#runtime.upload(this.#staged, part);
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

/** f32 only where all parts are; f16 only where all are f16 (bf16 numbers may be out of its range). */
function kindOfParts(parts: readonly HostTensor[]): Kind {
  if (parts.every((part) => part.dtype === "f32")) return KIND.none;
  return parts.every((part) => part.dtype === "f16") ? KIND.f16 : KIND.bf16;
}

function roundTrip(data: Float32Array, rows: number, cols: number, quantize: "q8" | "q4"): void {
  if (quantize === "q8") dequantize("q8_0", quantizeQ8(data, rows, cols), data, data.length);
  else dequantize("q4_0", quantizeQ4(data, rows, cols), data, data.length);
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
