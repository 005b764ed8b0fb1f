// The rotary tables of a model: one for each distinct rope among its layers, filled once per step.

import type { Device, RotaryTable, StagedBatch } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import type { Loader } from "../loader.js";
import { computeRope } from "../rope.js";

export interface RotariesOptions {
  /** Size of the heads, or of the part of them that is rotated on its own. */
  readonly headDim: number | readonly number[]; // a list has one for each rope
  readonly maxContext: number;
  readonly isInterleaved?: boolean;
}

export class Rotaries {
  readonly tables: readonly RotaryTable[];
  readonly #device: Device;

  constructor(loader: Loader, ropes: readonly RopeConfig[], options: RotariesOptions) {
    this.#device = loader.device;
    const { device, capacity } = loader;
    const maxContext = Math.min(options.maxContext, capacity.maxContext ?? options.maxContext);
    const { headDim } = options;
    this.tables = ropes.map((config, i) => {
      const rope = computeRope(config, typeof headDim === "number" ? headDim : headDim[i]!, maxContext);
      return device.createRotary({ ...rope, interleaved: options.isInterleaved ?? false }, capacity.maxTokens);
    });
  }

  fill(batch: StagedBatch): void {
    for (let i = 0; i < this.tables.length; i++) this.#device.rotaryTable(this.tables[i]!, batch);
  }
}
