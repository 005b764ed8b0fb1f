// out = x @ weight^T + bias, or out += scale * (...): a matrix with all that belongs to it.

import type { Activation, Device, MatmulOptions, Tensor, Weight, WeightQuantization } from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { Project } from "./block.js";

export class Linear {
  readonly weight: Weight;
  readonly #device: Device;
  readonly #options: MatmulOptions;

  constructor(device: Device, weight: Weight, bias: Tensor | null, project: Project = {}) {
    this.weight = weight;
    this.#device = device;
    this.#options = { ...project, bias };
  }

  run(out: Tensor, x: Tensor, n: number): void {
    this.#device.matmul(out, x, this.weight, n, this.#options);
  }

  /** out = act(gate) * up of a matrix whose rows are [gate; up], where the device does that in one pass; false: it did nothing. */
  runGated(out: Tensor, x: Tensor, activation: Activation, n: number): boolean {
    if (this.#options.bias) return false;
    return this.#device.gatedMatmul?.(out, x, this.weight, activation, n) ?? false;
  }
}

/** A matrix of the checkpoint: `${name}.weight` and, where there is one, `${name}.bias`. */
export interface LinearPart {
  readonly name: string;
  /** Outputs. */
  readonly rows: number;
  /** Where an output lies in the checkpoint's matrix; left out: in the same place. */
  readonly rowOf?: (row: number) => number;
}

export interface LinearOptions {
  readonly hasBias?: boolean;
  readonly project?: Project;
  readonly transposed?: boolean;
  readonly quantize?: WeightQuantization;
  /** The input is multiplied by it, the bias is not. */
  readonly inputScale?: number;
}

/** One Linear of all parts' rows: stacking lets one matmul do the work of several. */
export function loadLinear(
  loader: Loader,
  parts: readonly LinearPart[],
  cols: number,
  options: LinearOptions = {},
): Linear {
  const { hasBias = false, project = {}, transposed = false, quantize = loader.quantize, inputScale = 1 } = options;
  const weight = loader.matrix(
    parts.map(({ name, ...part }) => ({ ...part, name: `${name}.weight`, cols })),
    { transposed, quantize },
  );
  const bias = hasBias
    ? loader.vectors(
        parts.map(({ name, rows, ...part }) => ({ ...part, name: `${name}.bias`, size: rows })),
        1 / inputScale, // the result is scaled as a whole
      )
    : null;
  const scale = inputScale * (project.scale ?? 1);
  return new Linear(loader.device, weight, bias, scale === 1 ? project : { ...project, scale });
}
