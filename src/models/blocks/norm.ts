// Norms of either kind behind one call: RMS, or LayerNorm with or without a bias.

import type { Device, Tensor } from "../../device/device.js";
import type { Loader } from "../loader.js";

/** How a family norms. */
export interface NormStyle {
  readonly kind: "rms" | "layer";
  readonly eps: number;
  /** Added to the stored weights: some families store them less one. */
  readonly offset: number;
  /** LayerNorm only. */
  readonly hasBias: boolean;
}

export function rmsStyle(eps: number, offset = 0): NormStyle {
  return { kind: "rms", eps, offset, hasBias: false };
}

/** LayerNorm with a bias. */
export function layerNormStyle(eps: number): NormStyle {
  return { kind: "layer", eps, offset: 0, hasBias: true };
}

export class Norm {
  readonly #device: Device;
  readonly #weight: Tensor; // [1, size]
  readonly #bias: Tensor | null; // [1, size]; null is RMS
  readonly #eps: number;
  readonly #groupCols: number;

  /** `groupCols`: the run of columns normed together; weight has as many numbers, or one for each column. */
  constructor(device: Device, weight: Tensor, bias: Tensor | null, eps: number, groupCols = weight.cols) {
    this.#device = device;
    this.#weight = weight;
    this.#bias = bias;
    this.#eps = eps;
    this.#groupCols = groupCols;
  }

  /** out may be x. */
  run(out: Tensor, x: Tensor, n: number): void {
    if (this.#bias === null) this.#device.rmsNorm(out, x, this.#weight, this.#eps, n, this.#groupCols);
    else this.#device.layerNorm(out, x, this.#weight, this.#bias, this.#eps, n, this.#groupCols);
  }
}

/** A norm without bias of a weight that is there already; groups of `groupCols` columns are normed by themselves. */
export function normOf(loader: Loader, weight: Tensor, { kind, eps }: NormStyle, groupCols: number): Norm {
  const zeros = (): Tensor => loader.device.loadTensor(new Float32Array(weight.cols), 1, weight.cols);
  return new Norm(loader.device, weight, kind === "rms" ? null : zeros(), eps, groupCols);
}

/** A norm without weights, over each run of `size` columns. */
export function plainNorm(loader: Loader, size: number, style: NormStyle): Norm {
  return normOf(loader, loader.device.loadTensor(new Float32Array(size).fill(1), 1, size), style, size);
}

/** `${name}.weight` and, where the style has one, `${name}.bias`. */
export function loadNorm(loader: Loader, name: string, size: number, style: NormStyle, groupCols = size): Norm {
  const { kind, eps, offset, hasBias } = style;
  const weight = loader.vector(`${name}.weight`, size, offset);
  if (kind === "rms") return new Norm(loader.device, weight, null, eps, groupCols);
  const bias = hasBias
    ? loader.vector(`${name}.bias`, size)
    : loader.device.loadTensor(new Float32Array(size), 1, size);
  return new Norm(loader.device, weight, bias, eps, groupCols);
}
