// The reference device with what 16-bit tensor cores round: weights that are not f32, and what they are multiplied with, to bf16 (of f16
// weights to f16). Sums stay exact. It says what 16-bit arithmetic costs a model, whoever does it (engine/core/verify.ts).

import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from "../../core/dequantize/small-floats.js";
import type { HostTensor } from "../../core/tensor.js";
import type { ExpertWeights, MatmulOptions, RouterSpec, Tensor, Weight, WeightQuantization } from "../device.js";
import { ReferenceDevice } from "./reference-device.js";
import { ReferenceTensor, type ReferenceWeight } from "./tensor.js";

type Round = (x: number) => number;
const toBf16: Round = (x) => bf16ToF32(f32ToBf16(x));
/** f16 saturates, as the kernels do. */
const toF16: Round = (x) => f16ToF32(f32ToF16(Math.min(65504, Math.max(-65504, x))));

export class RoundedDevice extends ReferenceDevice {
  readonly #roundOf = new WeakMap<Weight, Round>();

  override loadWeight(
    parts: readonly HostTensor[],
    options: { quantize?: WeightQuantization; transposed?: boolean } = {},
  ): ReferenceWeight {
    const weight = super.loadWeight(parts, options);
    if (parts.every(({ dtype }) => dtype === "f32") && (options.quantize ?? "none") === "none") return weight;
    const round = parts.every(({ dtype }) => dtype === "f16") ? toF16 : toBf16;
    this.#roundOf.set(weight, round);
    const { data } = weight;
    for (let i = 0; i < data.length; i++) data[i] = round(data[i]!);
    return weight;
  }

  override matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void {
    super.matmul(out, this.#rounded(x, weight, n), weight, n, options);
  }

  /** What goes into the experts; what goes from their first product to the second stays as it is. */
  override mixtureOfExperts(
    out: Tensor,
    x: Tensor,
    routerLogits: Tensor,
    router: RouterSpec,
    experts: ExpertWeights,
    n: number,
  ): void {
    super.mixtureOfExperts(out, this.#rounded(x, experts.down[0]!, n), routerLogits, router, experts, n);
  }

  #rounded(x: Tensor, weight: Weight, n: number): Tensor {
    const round = this.#roundOf.get(weight);
    if (round === undefined) return x;
    const copy = new ReferenceTensor(new Float32Array(n * x.cols), 0, n, x.cols, x.cols);
    for (let r = 0; r < n; r++) copy.data.set((x as ReferenceTensor).row(r).map(round), r * x.cols);
    return copy;
  }
}
