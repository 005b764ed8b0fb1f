// Handing checkpoint tensors to the native library, which packs them into panels (native/cpu/src/encoding.h).

import { errorFor } from "../../core/errors.js";
import type { HostTensor, TensorDtype } from "../../core/tensor.js";
import type { Weight, WeightQuantization } from "../device.js";
import type { CpuContext } from "./memory.js";

/** Numbers of enum Dtype in native/cpu/src/encoding.h. */
const DTYPE_CODE: Partial<Record<TensorDtype, number>> = { f32: 0, f16: 1, bf16: 2 };

export class CpuWeight implements Weight {
  readonly handle: number;
  readonly rows: number;
  readonly cols: number;
  readonly dtype: string;
  readonly byteLength: number;

  constructor(handle: number, rows: number, cols: number, dtype: string, byteLength: number) {
    this.handle = handle;
    this.rows = rows;
    this.cols = cols;
    this.dtype = dtype;
    this.byteLength = byteLength;
  }
}

export interface LoadWeightOptions {
  readonly quantize?: WeightQuantization;
  readonly transposed?: boolean;
}

export function loadCpuWeight(
  context: CpuContext,
  parts: readonly HostTensor[],
  options: LoadWeightOptions,
): CpuWeight {
  const { native, handle } = context;
  const isTransposed = options.transposed === true;
  const cols = colsOf(parts[0]!, isTransposed);
  const weight = context.create("pg_weight_create", (out) => native.pg_weight_create(handle, cols, out));
  try {
    let rows = 0;
    for (const part of parts) {
      const code = DTYPE_CODE[part.dtype];
      const partRows = rowsOf(part, isTransposed);
      if (code === undefined) {
        const known = Object.keys(DTYPE_CODE).join(", ");
        throw errorFor("unsupported_model_option", { file: part.name, param: "dtype", value: part.dtype, known });
      }
      if (colsOf(part, isTransposed) !== cols) {
        throw errorFor("tensor_mismatch", {
          file: part.file?.path ?? "memory",
          tensor: part.name,
          expected: `${cols} columns as in ${parts[0]!.name}`,
          found: colsOf(part, isTransposed),
        });
      }
      const encoding = -1;
      const transposed = isTransposed ? 1 : 0;
      const status =
        part.file === null
          ? native.pg_weight_append(handle, weight, code, encoding, partRows, transposed, part.bytes(), part.byteLength)
          : native.pg_weight_append_file(
              handle,
              weight,
              code,
              encoding,
              partRows,
              transposed,
              `${part.file.path}\0`,
              part.file.offset,
              part.byteLength,
            );
      context.check(status, `pg_weight_append of ${part.name}`);
      rows += partRows;
    }
    return new CpuWeight(weight, rows, cols, parts[0]!.dtype, native.pg_weight_bytes(weight));
  } catch (error) {
    native.pg_weight_free(handle, weight);
    throw error;
  }
}

/** A tensor of more than two dimensions is rows of its last one. */
function colsOf(tensor: HostTensor, isTransposed: boolean): number {
  const { shape } = tensor;
  return isTransposed ? shape[0]! : shape[shape.length - 1]!;
}

function rowsOf(tensor: HostTensor, isTransposed: boolean): number {
  return tensor.shape.reduce((product, size) => product * size, 1) / colsOf(tensor, isTransposed);
}
