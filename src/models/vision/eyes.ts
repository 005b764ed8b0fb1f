// A tower and what follows it.

import { errorFor } from "../../core/errors.js";
import type { Device } from "../../device/device.js";
import { patchesOf, patchNumbers } from "../../vision/patches.js";
import type { Frame } from "../../vision/processor.js";
import type { FrameGrid } from "./layout.js";
import type { Projector } from "./projector.js";
import { readRows } from "./read-rows.js";
import type { Tower } from "./tower.js";
import { type EncodedFrame, type Eyes, NO_PAUSE, type Pause, tokenGrid, type VisionSpec } from "./vision-model.js";

export interface EyesParts {
  readonly device: Device;
  readonly spec: VisionSpec;
  readonly maxTokens: number;
  readonly tower: Tower;
  /** Done to the patches before the tower sees them. */
  readonly adjustPatches?: (values: Float32Array) => void;
  /** The first makes embeddings, the others rows that are added after the text model's first layers. */
  readonly projectors: readonly Projector[];
}

export class TowerEyes implements Eyes {
  readonly #parts: EyesParts;
  /** Room for a run's patches, kept: fresh memory costs as long as filling it. */
  #patches = new Float32Array(0);

  constructor(parts: EyesParts) {
    this.#parts = parts;
  }

  get spec(): VisionSpec {
    return this.#parts.spec;
  }

  fits(frames: readonly Frame[]): boolean {
    return this.#parts.tower.fits(frames.map((frame) => this.#gridOf(frame)));
  }

  async encode(frames: readonly Frame[], pause: Pause = NO_PAUSE): Promise<EncodedFrame[]> {
    const { device, spec, tower, projectors } = this.#parts;
    for (const frame of frames) this.check(frame);
    const counts = frames.map((frame) => patchNumbers(frame, spec.patches));
    const all = counts.reduce((sum, count) => sum + count, 0);
    if (this.#patches.length < all) this.#patches = new Float32Array(all);
    let end = 0;
    const patches = frames.map((frame, f) => {
      end += counts[f]!;
      return patchesOf(frame, spec.patches, this.#patches.subarray(end - counts[f]!, end));
    });
    for (const { values } of patches) this.#parts.adjustPatches?.(values);
    const { tokens, numTokens } = await tower.run(patches, pause, (moment, x, layout) => {
      for (const projector of projectors) projector.take(moment, x, tower.staged, layout.numTokens);
    });
    const made = projectors.map((projector) => projector.run(tower.staged, numTokens));
    const rows: Float32Array[] = [];
    for (const x of made) rows.push(await readRows(device, x, numTokens, x.cols));
    let first = 0;
    return frames.map((frame, f) => {
      const from = first;
      first += tokens[f]!;
      return { grid: tokenGrid(spec, frame), rows: joined(rows, from, first, projectors[0]!.outSize) };
    });
  }

  check(frame: Frame): void {
    const { spec, maxTokens } = this.#parts;
    const { block } = spec.patches;
    const { rows, columns } = this.#gridOf(frame);
    if (rows % block !== 0 || columns % block !== 0) {
      const reason = `the model takes blocks of ${block} x ${block} patches of it, and got ${rows} x ${columns} patches`;
      throw errorFor("image_unsupported", { reason });
    }
    const grid = tokenGrid(spec, frame);
    const tokens = grid.rows * grid.columns;
    if (tokens > maxTokens) throw errorFor("image_too_large", { value: tokens, what: "tokens", limit: maxTokens });
    const isAllowed = spec.side === null || (rows === spec.side && columns === spec.side);
    if (isAllowed && tokens > 0) return;
    const reason = `the model takes ${spec.side ?? 1} x ${spec.side ?? 1} patches of it, and got ${rows} x ${columns}`;
    throw errorFor("image_unsupported", { reason });
  }

  #gridOf({ width, height }: Frame): FrameGrid {
    const { size } = this.#parts.spec.patches;
    return { rows: Math.floor(height / size), columns: Math.floor(width / size) };
  }
}

/** Rows [from, to) of all parts, part after part. */
function joined(parts: readonly Float32Array[], from: number, to: number, cols: number): Float32Array {
  const isAll = from === 0 && to * cols === parts[0]!.length;
  if (isAll && parts.length === 1) return parts[0]!;
  const size = (to - from) * cols;
  const out = new Float32Array(parts.length * size);
  for (const [i, part] of parts.entries()) out.set(part.subarray(from * cols, to * cols), i * size);
  return out;
}
