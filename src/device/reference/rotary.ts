// Rotary embedding. Angles are the f32 product position * invFreq, as Hugging Face computes them; cos and sin are kept in f32.

import type { RotarySpec, RotaryTable } from "../device.js";
import type { ReferenceStagedBatch } from "./staged-batch.js";

export class ReferenceRotary implements RotaryTable {
  readonly spec: RotarySpec;
  readonly half: number; // rotaryDim / 2
  readonly cos: Float32Array; // [maxTokens, half]
  readonly sin: Float32Array; // [maxTokens, half]

  constructor(spec: RotarySpec, maxTokens: number) {
    this.spec = spec;
    this.half = spec.invFreq.length;
    this.cos = new Float32Array(maxTokens * this.half);
    this.sin = new Float32Array(maxTokens * this.half);
  }

  fill(staged: ReferenceStagedBatch): void {
    const { invFreq, scale } = this.spec;
    const { positions } = staged.batch;
    for (let t = 0, at = 0; t < staged.numTokens; t++) {
      for (let i = 0; i < this.half; i++, at++) {
        const angle = Math.fround(positions[t]! * invFreq[i]!);
        this.cos[at] = Math.fround(Math.cos(angle)) * scale;
        this.sin[at] = Math.fround(Math.sin(angle)) * scale;
      }
    }
  }

  /** Rotates in place the 2 * half numbers at data[at] by token t's angles. */
  rotate(data: Float32Array, at: number, t: number): void {
    const { half } = this;
    const step = this.spec.interleaved ? 2 : 1;
    const apart = this.spec.interleaved ? 1 : half;
    for (let i = 0; i < half; i++) {
      const cos = this.cos[t * half + i]!;
      const sin = this.sin[t * half + i]!;
      const first = at + i * step;
      const a = data[first]!;
      const b = data[first + apart]!;
      data[first] = a * cos - b * sin;
      data[first + apart] = b * cos + a * sin;
    }
  }
}
