// From the hidden states of patches to rows in the place of embeddings: patches of a block become one token, end to end or as their mean, which
// a few matrices bring to the text model's size.

import type { Activation, Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import type { Linear } from "../blocks/linear.js";
import type { Norm } from "../blocks/norm.js";
import type { Moment } from "./tower.js";

/** Patches of a block end to end, or their mean. */
export type Gather = "concat" | "mean";

export interface ProjectorStep {
  /** What goes into the matrix is normed. */
  readonly norm?: Norm;
  readonly linear: Linear;
  /** null: none. */
  readonly activation: Activation | null;
}

export interface ProjectorShape {
  readonly hiddenSize: number;
  /** Patches of a token. */
  readonly unit: number;
  readonly gather: Gather;
  /** When hidden states are taken: those of each moment come behind those of the one before. */
  readonly moments: readonly Moment[];
  /** Factor on what was gathered; omitted: 1. */
  readonly scale?: number;
}

export class Projector {
  readonly #device: Device;
  readonly #shape: ProjectorShape;
  readonly #steps: readonly ProjectorStep[];
  readonly #activations: readonly (MapOp | null)[];
  readonly #input: Tensor;
  /** Columns of the input, one after another. */
  readonly #places: readonly Tensor[];
  readonly #outputs: readonly Tensor[];
  readonly #other: Tensor | null;
  readonly #add: MapOp;
  readonly #scale: MapOp | null;

  /** `maxRows`: of the tower. */
  constructor(device: Device, maxRows: number, shape: ProjectorShape, steps: readonly ProjectorStep[]) {
    const { hiddenSize, unit, gather, moments, scale = 1 } = shape;
    const isMean = gather === "mean";
    const factor = isMean ? scale / unit : scale;
    const maxTokens = Math.floor(maxRows / unit);
    const parts = isMean ? moments.length : moments.length * unit;
    this.#device = device;
    this.#shape = shape;
    this.#steps = steps;
    this.#add = device.createMap({ kind: "add", scale: 1 });
    this.#scale = factor === 1 ? null : device.createMap({ kind: "scale", factor });
    this.#activations = steps.map(({ activation }) =>
      activation === null ? null : device.createMap({ kind: "activation", activation }),
    );
    const input = device.allocTensor(maxTokens, parts * hiddenSize);
    this.#input = input;
    this.#places =
      parts === 1
        ? [input]
        : Array.from({ length: parts }, (_, i) => input.columns(i * hiddenSize, (i + 1) * hiddenSize));
    this.#other = isMean && unit > 1 ? device.allocTensor(maxTokens, hiddenSize) : null;
    this.#outputs = steps.map(({ linear }) => device.allocTensor(maxTokens, linear.weight.rows));
  }

  get outSize(): number {
    return this.#outputs.at(-1)!.cols;
  }

  /** Takes the hidden states of a moment that it waits for, of the rows that become `n` tokens. */
  take(moment: Moment, x: Tensor, staged: StagedBatch, n: number): void {
    const { moments, unit, gather } = this.#shape;
    for (const [m, wanted] of moments.entries()) {
      if (wanted !== moment) continue;
      for (let k = 0; k < unit; k++) {
        if (gather === "concat") this.#device.gatherLogitRows(this.#places[m * unit + k]!, x, staged, k * n, n);
        else this.#sum(this.#places[m]!, x, staged, k, n);
      }
    }
  }

  #sum(sum: Tensor, x: Tensor, staged: StagedBatch, k: number, n: number): void {
    const into = k === 0 ? sum : this.#other!;
    this.#device.gatherLogitRows(into, x, staged, k * n, n);
    if (k > 0) this.#device.map(sum, this.#add, sum, into, n);
  }

  /** What was taken becomes n rows of embeddings. */
  run(staged: StagedBatch, n: number): Tensor {
    const device = this.#device;
    let x = this.#input;
    if (this.#scale !== null) device.map(x, this.#scale, x, null, n);
    for (const [i, { norm, linear }] of this.#steps.entries()) {
      const out = this.#outputs[i]!;
      norm?.run(x, x, n);
      linear.run(out, x, staged, n);
      const activation = this.#activations[i]!;
      if (activation !== null) device.map(out, activation, out, null, n);
      x = out;
    }
    return x;
  }
}
