// Numbers that the kernels and the host agree on (native/cuda/*.cuh).

import type { TensorDtype } from "../../core/tensor.js";
import type { Activation, ExpertWeights, KvDtype, RouterSpec } from "../device.js";

/** Element types of tensor-core operands; NONE is f32. */
export const KIND = { none: 0, bf16: 1, f16: 2 } as const;
export type Kind = (typeof KIND)[keyof typeof KIND];
export const KIND_NAME = ["f32", "bf16", "f16"] as const;

/** What pack_weight reads. */
export const STAGED_CODE: Partial<Record<TensorDtype, number>> = { f32: 0, f16: 1, bf16: 2, f8_e4m3: 3, f8_e5m2: 4 };

export const KV_CODE: Record<KvDtype, number> = { f32: 0, f16: 1, bf16: 2, i8: 3 };
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
