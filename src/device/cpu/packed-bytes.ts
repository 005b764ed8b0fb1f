// Predicts what weights take in the cpu device's memory, before anything is loaded (`pagoda inspect`). The figures follow from the
// layouts of native/cpu/src/encoding.h; a test compares them with what loading really takes.

import type { TensorDtype } from "../../core/tensor.js";
import type { WeightQuantization, WeightShape } from "../device.js";

/** Bits a weight takes on the cpu device, its share of scales and minimums included. */
const CPU_BITS: Readonly<Partial<Record<TensorDtype, number>>> = {
  f32: 32,
  f16: 16,
  bf16: 16,
  q8_0: 8.5,
  q5_0: 5.5,
  q5_1: 6,
  q4_0: 4.5,
  q4_1: 5,
  q2_k: 3.125,
  q3_k: 3.5625,
  q4_k: 4.625,
  q5_k: 5.625,
  q6_k: 6.5625,
  iq4_nl: 4.5,
  iq4_xs: 4.3125,
  mxfp4: 4.5,
  nvfp4: 16,
  iq2_xxs: 3.3125,
  iq2_xs: 3.5625,
  iq2_s: 3.5625,
  iq3_xxs: 4.3125,
  iq3_s: 4.3125,
  iq1_s: 3.3125,
  iq1_m: 3.5625,
  tq1_0: 2.0625,
  tq2_0: 2.0625,
  q1_0: 2.5,
  q2_0: 2.5,
};

const QUANTIZED_BITS = { q8: 8.5, q4: 4.5 };
/** The embedding, which may also be the head, is looked up row by row and shapes every logit: it is never below 8 bits. */
const VOCABULARY = /(embed_tokens|lm_head|wte)\.weight$/;

/** Bytes of a checkpoint's tensor once a device holds it. */
export function packedBytes({ name, dtype, shape }: WeightShape, quantize: WeightQuantization): number {
  const count = shape.reduce((a, b) => a * b, 1);
  if (shape.length < 2) return count * 4;
  const isFloat = dtype === "f32" || dtype === "f16" || dtype === "bf16" || dtype.startsWith("f8_");
  if (quantize === "none" || !isFloat || shape.at(-1)! % 32 !== 0) return (count * (CPU_BITS[dtype] ?? 16)) / 8;
  return (count * QUANTIZED_BITS[VOCABULARY.test(name) ? "q8" : quantize]) / 8;
}
