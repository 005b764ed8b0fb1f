// out = x @ weight^T + bias, or out += scale * (...): a matrix with all that belongs to it.

import type {
  Activation,
  Device,
  MatmulOptions,
  StagedBatch,
  Tensor,
  Weight,
  WeightQuantization,
} from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { Project } from "./block.js";

/** A matrix of the checkpoint within a Linear: what an adapter attaches to, and where a shard may cut. */
export interface Site {
  /** As in the checkpoint, without `.weight`. */
  readonly name: string;
  /** Its rows are [firstRow, firstRow + rows) of the Linear's. */
  readonly firstRow: number;
  readonly rows: number;
  /** Where a row of the Linear, counted from firstRow, lies in the checkpoint's matrix; omitted: in the same place. */
  readonly rowOf?: (row: number) => number;
}

export class Linear {
  readonly weight: Weight;
  /** In the order of their rows; none where the matrix is not the checkpoint's own. */
  readonly sites: readonly Site[];
  readonly #device: Device;
  readonly #options: MatmulOptions;

  constructor(
    device: Device,
    weight: Weight,
    bias: Tensor | null,
    project: Project = {},
    parts: readonly LinearPart[] = [],
  ) {
    this.weight = weight;
    this.sites = sitesOf(parts);
    this.#device = device;
    this.#options = { ...project, bias };
  }

  /** x and out have a row for each token of the batch; those of the head one for each of n logit rows. */
  run(out: Tensor, x: Tensor, batch: StagedBatch, n = batch.numTokens): void {
    this.#device.matmul(out, x, this.weight, n, this.#options);
  }

  /** out = act(gate) * up of a matrix whose rows are [gate; up], where the device does that in one pass; false: it did nothing. */
  runGated(out: Tensor, x: Tensor, activation: Activation, batch: StagedBatch): boolean {
    if (this.#options.bias) return false;
    return this.#device.gatedMatmul?.(out, x, this.weight, activation, batch.numTokens) ?? false;
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
  return new Linear(loader.device, weight, bias, scale === 1 ? project : { ...project, scale }, parts);
}

function sitesOf(parts: readonly LinearPart[]): Site[] {
  let end = 0;
  return parts.map((part) => {
    end += part.rows;
    return { ...part, firstRow: end - part.rows };
  });
}
