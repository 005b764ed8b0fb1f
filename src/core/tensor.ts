// A tensor of a checkpoint, on disk or in memory, before a device has taken it. Formats make these; devices consume them.

/**
 * Element or block encodings of checkpoint tensors. Names of block encodings are GGUF's, in lower case; f8_e4m3_64 is the form that FP8 weights
 * with scales beside them are given: an f32 and the 64 codes it multiplies, products rounded to bf16.
 */
export type TensorDtype =
  | "f32"
  | "f16"
  | "bf16"
  | "f8_e4m3"
  | "f8_e5m2"
  | "f8_e4m3_64"
  | "i8"
  | "u8"
  | "i32"
  | "i64"
  | "q8_0"
  | "q4_0"
  | "q4_1"
  | "q5_0"
  | "q5_1"
  | "q2_k"
  | "q3_k"
  | "q4_k"
  | "q5_k"
  | "q6_k"
  | "iq4_nl"
  | "iq4_xs"
  | "iq1_s"
  | "iq1_m"
  | "iq2_xxs"
  | "iq2_xs"
  | "iq2_s"
  | "iq3_xxs"
  | "iq3_s"
  | "tq1_0"
  | "tq2_0"
  | "q1_0"
  | "q2_0"
  | "mxfp4"
  | "nvfp4";

/** [elements per block, bytes per block]; plain types are blocks of one. */
export const BLOCK_OF: Readonly<Record<TensorDtype, readonly [number, number]>> = {
  f32: [1, 4],
  f16: [1, 2],
  bf16: [1, 2],
  f8_e4m3: [1, 1],
  f8_e5m2: [1, 1],
  f8_e4m3_64: [64, 68],
  i8: [1, 1],
  u8: [1, 1],
  i32: [1, 4],
  i64: [1, 8],
  q8_0: [32, 34],
  q4_0: [32, 18],
  q4_1: [32, 20],
  q5_0: [32, 22],
  q5_1: [32, 24],
  q2_k: [256, 84],
  q3_k: [256, 110],
  q4_k: [256, 144],
  q5_k: [256, 176],
  q6_k: [256, 210],
  iq4_nl: [32, 18],
  iq4_xs: [256, 136],
  iq1_s: [256, 50],
  iq1_m: [256, 56],
  iq2_xxs: [256, 66],
  iq2_xs: [256, 74],
  iq2_s: [256, 82],
  iq3_xxs: [256, 98],
  iq3_s: [256, 110],
  tq1_0: [256, 54],
  tq2_0: [256, 66],
  q1_0: [128, 18],
  q2_0: [64, 18],
  mxfp4: [32, 17],
  nvfp4: [64, 36],
};

/** Bytes of `count` elements; count must be a whole number of blocks. */
export function bytesOf(dtype: TensorDtype, count: number): number {
  const [elements, bytes] = BLOCK_OF[dtype];
  return (count / elements) * bytes;
}

/**
 * A named tensor. `shape` is row-major, outermost first (as in safetensors; GGUF's order is reversed when read). The last
 * dimension is the one a matmul sums over, unless a model says otherwise when it loads it.
 */
export interface HostTensor {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
  /** Where the bytes are on disk, so that a native device can map them instead of copying; null when made in memory. */
  readonly file: { readonly path: string; readonly offset: number } | null;
  readonly byteLength: number;
  /** The bytes. May read from disk each time; callers keep the result only as long as they need it. */
  bytes(): Uint8Array;
}

/** The tensors of one checkpoint, by name. */
export interface TensorSource {
  /** Shown in errors: the file or folder. */
  readonly path: string;
  has(name: string): boolean;
  /** Throws FormatError tensor_missing when absent, and tensor_mismatch when `shape` is given and differs. */
  get(name: string, shape?: readonly number[]): HostTensor;
  names(): Iterable<string>;
  close(): void;
}
