// A matrix for each head: all of them are one op, and an adapter adds to each by itself.

import type { Device, HeadWeights, StagedBatch, Tensor } from "../../device/device.js";
import type { Linear } from "./linear.js";

/** Columns of a tensor, `size` of each head, that begin `stride` apart. */
export class HeadColumns {
  readonly tensor: Tensor;
  readonly stride: number;
  readonly heads: readonly Tensor[]; // [H] of [T, size], views

  constructor(tensor: Tensor, numHeads: number, stride: number, size: number) {
    this.tensor = tensor;
    this.stride = stride;
    this.heads = Array.from({ length: numHeads }, (_, h) => tensor.columns(h * stride, h * stride + size));
  }
}

export class HeadLinears {
  readonly #device: Device;
  readonly #linears: readonly Linear[]; // [H]
  readonly #weights: HeadWeights;
  readonly #out: HeadColumns;
  readonly #x: HeadColumns;

  constructor(device: Device, linears: readonly Linear[], out: HeadColumns, x: HeadColumns) {
    this.#device = device;
    this.#linears = linears;
    this.#weights = device.bindHeads(linears.map(({ weight }) => weight));
    this.#out = out;
    this.#x = x;
  }

  run(batch: StagedBatch): void {
    const [out, x] = [this.#out, this.#x];
    this.#device.headMatmul(out.tensor, x.tensor, this.#weights, out.stride, x.stride, batch.numTokens);
    for (let h = 0; h < this.#linears.length; h++) this.#linears[h]!.addAdapters(out.heads[h]!, x.heads[h]!, batch);
  }
}
