// Handing checkpoint tensors to the native library, which packs them into panels (native/cpu/src/encoding.h).
//
// Every checkpoint encoding keeps its own numbers: f32, f16, bf16 as they are; codes of 2 to 8 bits at their width with their factors;
// the coordinates of iq grids as levels and signs, 3 or 4 bits; f8 (with scales or without) and nvfp4 become bf16 (every value of theirs is one). `quantize` turns float matrices into q8_0 or q4_0 codes and leaves block formats as they are.

import { errorFor } from "../../core/errors.js";
import type { HostTensor, TensorDtype } from "../../core/tensor.js";
import type { Weight, WeightQuantization } from "../device.js";
import { type CpuContext, hasTiles } from "./memory.js";

/** Numbers of enum Dtype in native/cpu/src/encoding.h. */
const DTYPE_CODE: Partial<Record<TensorDtype, number>> = {
  f32: 0,
  f16: 1,
  bf16: 2,
  f8_e4m3: 3,
  f8_e5m2: 4,
  q8_0: 5,
  q4_0: 6,
  q4_1: 7,
  q5_0: 8,
  q5_1: 9,
  q2_k: 10,
  q3_k: 11,
  q4_k: 12,
  q5_k: 13,
  q6_k: 14,
  iq4_nl: 15,
  iq4_xs: 16,
  mxfp4: 17,
  nvfp4: 18,
  iq2_xxs: 19,
  iq2_xs: 20,
  iq2_s: 21,
  iq3_xxs: 22,
  iq3_s: 23,
  iq1_s: 24,
  iq1_m: 25,
  tq1_0: 26,
  tq2_0: 27,
  q1_0: 28,
  q2_0: 29,
  f8_e4m3_64: 30,
};
const NUM_FLOAT_DTYPES = 5;
/** Numbers of enum Encoding. */
const OWN_ENCODING = -1;
const QUANTIZED_ENCODING = { q8: 3, q4: 4 };
const BLOCK = 32;

export class CpuWeight implements Weight {
  readonly handle: number;
  /** Where rows are looked up: the same, or the file's own rows beside a matrix from which they cannot be read back. */
  readonly tableHandle: number;
  readonly rows: number;
  readonly cols: number;
  readonly dtype: string;
  readonly byteLength: number;

  constructor(handle: number, tableHandle: number, rows: number, cols: number, dtype: string, byteLength: number) {
    this.handle = handle;
    this.tableHandle = tableHandle;
    this.rows = rows;
    this.cols = cols;
    this.dtype = dtype;
    this.byteLength = byteLength;
  }
}

export interface LoadWeightOptions {
  readonly quantize?: WeightQuantization;
  readonly transposed?: boolean;
  readonly isTable?: boolean;
  readonly isMatrix?: boolean;
}

export function loadCpuWeight(
  context: CpuContext,
  parts: readonly HostTensor[],
  options: LoadWeightOptions,
): CpuWeight {
  const { native, handle } = context;
  const isTransposed = options.transposed === true;
  const cols = colsOf(parts[0]!, isTransposed);
  const create = () => context.create("pg_weight_create", (out) => native.pg_weight_create(handle, cols, out));
  const weight = create();
  let table = weight;
  try {
    let rows = 0;
    const dtypes = new Set<string>();
    for (const part of parts) {
      if (colsOf(part, isTransposed) !== cols) {
        throw mismatch(part, `${cols} columns as in ${parts[0]!.name}`, `${colsOf(part, isTransposed)}`);
      }
      const quantize = canQuantize(part, cols) ? (options.quantize ?? "none") : "none";
      if (options.isTable === true && quantize === "none" && isInFile(context, part)) mapRows(context, weight, part);
      else append(context, weight, part, quantize, isTransposed);
      rows += rowsOf(part, isTransposed);
      dtypes.add(quantize === "none" ? part.dtype : quantize);
    }
    if (isHeadInFile(context, parts, options)) {
      table = create();
      for (const part of parts) mapRows(context, table, part);
    }
    if (options.isMatrix === true || table !== weight)
      context.check(native.pg_weight_only_multiplied(handle, weight), "pg_weight_only_multiplied");
    return new CpuWeight(weight, table, rows, cols, [...dtypes].join("+"), native.pg_weight_bytes(weight));
  } catch (error) {
    native.pg_weight_free(handle, weight);
    if (table !== weight) native.pg_weight_free(handle, table);
    throw error;
  }
}

/** What amx holds in another form where it is only multiplied. */
const FORMS_OF_MATRICES: ReadonlySet<string> = new Set(["q8_0", "q4_0", "bf16"]);

/** An embedding table that is the head too, where a matrix has a form of its own (amx) and the file has the rows. */
function isHeadInFile(context: CpuContext, parts: readonly HostTensor[], options: LoadWeightOptions): boolean {
  const { isTable = false, isMatrix = false, transposed = false, quantize = "none" } = options;
  const isAsInFile = (part: HostTensor) => quantize === "none" || !canQuantize(part, colsOf(part, false));
  const hasForm = (part: HostTensor) =>
    FORMS_OF_MATRICES.has(part.dtype) && isAsInFile(part) && isInFile(context, part);
  return hasTiles(context.isa) && parts.every(hasForm) && !isTable && !isMatrix && !transposed;
}

function isInFile({ native }: CpuContext, part: HostTensor): boolean {
  return part.file !== null && native.readsFiles;
}

/** A table's rows are looked up where they lie in the file: nothing is copied. */
function mapRows(context: CpuContext, weight: number, part: HostTensor): void {
  const { native, handle } = context;
  const { path, offset } = part.file!;
  const rows = rowsOf(part, false);
  const status = native.pg_weight_map_file(handle, weight, codeOf(part), rows, `${path}\0`, offset, part.byteLength);
  context.check(status, `pg_weight_map_file of ${part.name}`);
}

function codeOf(part: HostTensor): number {
  const dtype = DTYPE_CODE[part.dtype];
  if (dtype === undefined) throw mismatch(part, `a dtype of ${Object.keys(DTYPE_CODE).join(", ")}`, part.dtype);
  return dtype;
}

function append(
  context: CpuContext,
  weight: number,
  part: HostTensor,
  quantize: WeightQuantization,
  isTransposed: boolean,
): void {
  const { native, handle } = context;
  const dtype = codeOf(part);
  const encoding = quantize === "none" ? OWN_ENCODING : QUANTIZED_ENCODING[quantize];
  const rows = rowsOf(part, isTransposed);
  const transposed = isTransposed ? 1 : 0;
  const call = `pg_weight_append of ${part.name}`;
  if (isInFile(context, part)) {
    const { path, offset } = part.file!;
    const bytes = part.byteLength;
    context.check(
      native.pg_weight_append_file(handle, weight, dtype, encoding, rows, transposed, `${path}\0`, offset, bytes),
      call,
    );
    return;
  }
  const bytes = part.bytes();
  context.check(
    native.pg_weight_append(handle, weight, dtype, encoding, rows, transposed, bytes, bytes.byteLength),
    call,
  );
}

/** Quantised blocks lie along the row; a matrix that has no whole number of them stays as it is. */
function canQuantize(part: HostTensor, cols: number): boolean {
  const isFloat = (DTYPE_CODE[part.dtype] ?? NUM_FLOAT_DTYPES) < NUM_FLOAT_DTYPES || part.dtype === "f8_e4m3_64";
  return isFloat && cols % BLOCK === 0;
}

/** A tensor of more than two dimensions is rows of its last one. */
function colsOf(tensor: HostTensor, isTransposed: boolean): number {
  const { shape } = tensor;
  return isTransposed ? shape[0]! : shape[shape.length - 1]!;
}

function rowsOf(tensor: HostTensor, isTransposed: boolean): number {
  return tensor.shape.reduce((product, size) => product * size, 1) / colsOf(tensor, isTransposed);
}

function mismatch(part: HostTensor, expected: string, found: string): Error {
  return errorFor("tensor_mismatch", { file: part.file?.path ?? "memory", tensor: part.name, expected, found });
}
