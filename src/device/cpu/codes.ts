// Names of the Device interface as the numbers of native/cpu/include/pagoda_cpu.h.

import type { Activation, ExpertWeights, KvDtype, RouterSpec } from "../device.js";

export const KV_DTYPE_CODE: Record<KvDtype, number> = { f32: 0, f16: 1, bf16: 2, i8: 3, fp8: 4 };

export const ACTIVATION_CODE: Record<Activation, number> = {
  silu: 0,
  gelu_tanh: 1,
  gelu: 2,
  relu: 3,
  relu2: 4,
  sigmoid: 5,
  identity: 6,
};

export const GATE_CODE: Record<ExpertWeights["activation"], number> = { silu: 0, gelu_tanh: 1, relu2: 4, oss: 7 };

export const SCORE_CODE: Record<RouterSpec["score"], number> = { softmax: 0, softmax_topk: 1, sigmoid: 2 };
