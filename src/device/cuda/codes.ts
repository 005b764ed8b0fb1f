// Numbers that the kernels and the host agree on (native/cuda/*.cuh).

import type { TensorDtype } from "../../core/tensor.js";
import type { Activation, ExpertWeights, KvDtype, RouterSpec } from "../device.js";

/** Element types of tensor-core operands; NONE is f32. */
export const KIND = { none: 0, bf16: 1, f16: 2 } as const;
export type Kind = (typeof KIND)[keyof typeof KIND];

/** How the weights of a matrix lie in device memory (native/cuda/fragments.cuh): bytes of 16 rows x 64 columns, and what they multiply. */
export interface Format {
  readonly name: string;
  readonly code: number;
  readonly kind: Kind;
  readonly stepBytes: number;
  /** Codes of 4 or 8 bits, whose kernels are in files of their own. */
  readonly isCoded: boolean;
}
export const FORMAT = {
  f32: { name: "f32", code: 0, kind: KIND.none, stepBytes: 4096, isCoded: false },
  bf16: { name: "bf16", code: 1, kind: KIND.bf16, stepBytes: 2048, isCoded: false },
  f16: { name: "f16", code: 2, kind: KIND.f16, stepBytes: 2048, isCoded: false },
  q4: { name: "q4", code: 3, kind: KIND.bf16, stepBytes: 576, isCoded: true },
  q4Min: { name: "q4_min", code: 4, kind: KIND.bf16, stepBytes: 640, isCoded: true },
  q8: { name: "q8", code: 5, kind: KIND.bf16, stepBytes: 1088, isCoded: true },
  q8Min: { name: "q8_min", code: 6, kind: KIND.bf16, stepBytes: 1280, isCoded: true },
  e4m3: { name: "e4m3", code: 7, kind: KIND.bf16, stepBytes: 1088, isCoded: true },
  e2m1: { name: "e2m1", code: 8, kind: KIND.bf16, stepBytes: 576, isCoded: true },
} as const satisfies Record<string, Format>;

/** Encodings whose codes are kept, with the format that holds them and the code by which pack_codes knows them. */
export const CODED: Partial<Record<TensorDtype, { readonly format: Format; readonly code: number }>> = {
  q4_0: { format: FORMAT.q4, code: 0 },
  q4_1: { format: FORMAT.q4Min, code: 1 },
  q5_0: { format: FORMAT.q8Min, code: 2 },
  q5_1: { format: FORMAT.q8Min, code: 3 },
  q8_0: { format: FORMAT.q8, code: 4 },
  q4_k: { format: FORMAT.q4Min, code: 5 },
  q5_k: { format: FORMAT.q8Min, code: 6 },
  q6_k: { format: FORMAT.q8Min, code: 7 },
  f8_e4m3: { format: FORMAT.e4m3, code: 8 },
  mxfp4: { format: FORMAT.e2m1, code: 9 },
  // Levels of a table, which 8 bits hold as they are; 2 and 3 bits with scales for each 16.
  iq4_nl: { format: FORMAT.q8, code: 10 },
  iq4_xs: { format: FORMAT.q8, code: 11 },
  q2_k: { format: FORMAT.q8Min, code: 12 },
  q3_k: { format: FORMAT.q8Min, code: 13 },
  f8_e4m3_64: { format: FORMAT.e4m3, code: 14 },
};

/** What pack_weight reads. */
export const STAGED_CODE: Partial<Record<TensorDtype, number>> = { f32: 0, f16: 1, bf16: 2, f8_e4m3: 3, f8_e5m2: 4 };

export const KV_CODE: Record<KvDtype, number> = { f32: 0, f16: 1, bf16: 2, i8: 3, fp8: 4 };
export const ACTIVATION_CODE: Record<Activation, number> = {
  silu: 0,
  gelu_tanh: 1,
  gelu: 2,
  relu: 3,
  relu2: 4,
  sigmoid: 5,
  identity: 6,
};
export const EXPERT_CODE: Record<ExpertWeights["activation"], number> = { silu: 0, gelu_tanh: 1, relu2: 4, oss: 7 };
export const SCORE_CODE: Record<RouterSpec["score"], number> = { softmax: 0, softmax_topk: 1, sigmoid: 2 };
