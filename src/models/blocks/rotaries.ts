// The rotary tables of a model: one for each distinct rope among its layers, filled once per step.

import type { Device, RotaryTable, StagedBatch } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import type { Loader } from "../loader.js";
import type { PositionRows } from "../model.js";
import { computeRope, ropeAxes } from "../rope.js";

export interface RotariesOptions {
  /** Size of the heads, or of the part of them that is rotated on its own. */
  readonly headDim: number | readonly number[]; // a list has one for each rope
  readonly maxContext: number;
  readonly isInterleaved?: boolean;
}

export class Rotaries {
  readonly tables: readonly RotaryTable[];
  readonly #device: Device;
  readonly #axes: readonly (Uint8Array | null)[]; // [ropes] of [pairs]

  constructor(loader: Loader, ropes: readonly RopeConfig[], options: RotariesOptions) {
    this.#device = loader.device;
    const { device, capacity } = loader;
    const maxContext = Math.min(options.maxContext, capacity.maxContext ?? options.maxContext);
    const { headDim } = options;
    this.tables = ropes.map((config, i) => {
      const rope = computeRope(config, typeof headDim === "number" ? headDim : headDim[i]!, maxContext);
      return device.createRotary({ ...rope, interleaved: options.isInterleaved ?? false }, capacity.maxTokens);
    });
    this.#axes = ropes.map((config, i) => ropeAxes(config, this.tables[i]!.spec.invFreq.length));
  }

  fill(batch: StagedBatch): void {
    for (let i = 0; i < this.tables.length; i++) this.#device.rotaryTable(this.tables[i]!, batch);
  }

  /** After fill(): tokens that have a position on each of three axes are turned by those. */
  place({ first, count, positions }: PositionRows): void {
    for (const [r, table] of this.tables.entries()) {
      const axes = this.#axes[r];
      const { invFreq, scale } = table.spec;
      const half = invFreq.length;
      const cos = new Float32Array(count * half);
      const sin = new Float32Array(count * half);
      for (let t = 0, at = 0; t < count; t++) {
        for (let i = 0; i < half; i++, at++) {
          const angle = Math.fround(positions[3 * t + (axes?.[i] ?? 0)]! * invFreq[i]!);
          cos[at] = Math.fround(Math.cos(angle)) * scale;
          sin[at] = Math.fround(Math.sin(angle)) * scale;
        }
      }
      this.#device.writeRotary!(table, first, cos, sin, count);
    }
  }
}
