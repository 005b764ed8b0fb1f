// From the hidden states of patches to rows in the place of embeddings: patches of a block become one token, end to end or as their mean, which
// a few matrices bring to the text model's size.

import type { Activation, Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import type { Linear } from "../blocks/linear.js";
import type { Norm } from "../blocks/norm.js";
import { readRows } from "./read-rows.js";

/** Patches of a block end to end, their numbers side by side channel by channel, or their mean; or patches as they are. */
export type Gather = "concat" | "channels" | "mean" | "none";

export interface Grid {
  readonly rows: number; // of patches
  readonly columns: number;
  readonly hiddenSize: number;
  /** Edge of the blocks that patches come in; 1: row by row. */
  readonly block: number;
  /** Edge of the block that becomes a token. */
  readonly merge: number;
}

export function gather(
  kind: Gather,
  hidden: Float32Array,
  { rows, columns, hiddenSize, block, merge }: Grid,
): Float32Array {
  if (kind === "none") return hidden;
  const unit = merge * merge;
  const across = Math.floor(columns / merge);
  const tokens = Math.floor(rows / merge) * across;
  const width = kind === "mean" ? hiddenSize : hiddenSize * unit;
  const out = new Float32Array(tokens * width);
  for (let t = 0; t < tokens; t++) {
    for (let k = 0; k < unit; k++) {
      const row = Math.floor(t / across) * merge + Math.floor(k / merge);
      const column = (t % across) * merge + (k % merge);
      const from = (block === 1 ? row * columns + column : t * unit + k) * hiddenSize;
      const to = t * width;
      if (kind === "concat") out.set(hidden.subarray(from, from + hiddenSize), to + k * hiddenSize);
      else if (kind === "channels") for (let c = 0; c < hiddenSize; c++) out[to + c * unit + k] = hidden[from + c]!;
      else for (let c = 0; c < hiddenSize; c++) out[to + c]! += hidden[from + c]! / unit;
    }
  }
  return out;
}

export interface ProjectorStep {
  readonly linear: Linear;
  readonly activation: Activation | null;
}

export class Projector {
  readonly #device: Device;
  readonly #norm: Norm | null;
  readonly #steps: readonly ProjectorStep[];
  readonly #activations: readonly (MapOp | null)[];
  readonly #input: Tensor;
  readonly #outputs: readonly Tensor[];

  constructor(device: Device, maxTokens: number, norm: Norm | null, steps: readonly ProjectorStep[]) {
    this.#device = device;
    this.#activations = steps.map(({ activation }) =>
      activation === null ? null : device.createMap({ kind: "activation", activation }),
    );
    this.#norm = norm;
    this.#steps = steps;
    this.#input = device.allocTensor(maxTokens, steps[0]!.linear.weight.cols);
    this.#outputs = steps.map(({ linear }) => device.allocTensor(maxTokens, linear.weight.rows));
  }

  /** values [n, inputs] to [n, outputs]. `batch` is any that is staged. */
  async run(values: Float32Array, batch: StagedBatch): Promise<Float32Array> {
    const device = this.#device;
    let x = this.#input;
    const n = values.length / x.cols;
    device.write(x, 0, values, n);
    this.#norm?.run(x, x, n);
    for (const [i, { linear }] of this.#steps.entries()) {
      const out = this.#outputs[i]!;
      linear.run(out, x, batch, n);
      const activation = this.#activations[i]!;
      if (activation !== null) device.map(out, activation, out, null, n);
      x = out;
    }
    return readRows(device, x, n, x.cols);
  }
}
