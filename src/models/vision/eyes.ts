// A tower and what follows it.

import { errorFor } from "../../core/errors.js";
import type { StagedBatch } from "../../device/device.js";
import { type Patches, patchesOf } from "../../vision/patches.js";
import type { Frame } from "../../vision/processor.js";
import { type Gather, gather, type Projector } from "./projector.js";
import type { Tower } from "./tower.js";
import { type EncodedFrame, type Eyes, NO_PAUSE, type Pause, tokenGrid, type VisionSpec } from "./vision-model.js";

export interface EyesParts {
  readonly spec: VisionSpec;
  readonly maxTokens: number;
  readonly hiddenSize: number;
  readonly tower: Tower;
  readonly staged: StagedBatch;
  readonly gather: Gather;
  /** What the projectors take, from what the tower gives; omitted: the same. */
  readonly select?: (states: readonly Float32Array[]) => readonly Float32Array[];
  /** Done to what was gathered, on the host. */
  readonly adjust?: (values: Float32Array) => void;
  /** Done to the patches before the tower sees them. */
  readonly adjustPatches?: (values: Float32Array) => void;
  /** The first makes embeddings of the last hidden states, the others rows of those that are kept. */
  readonly projectors: readonly Projector[];
}

export class TowerEyes implements Eyes {
  readonly #parts: EyesParts;

  constructor(parts: EyesParts) {
    this.#parts = parts;
  }

  get spec(): VisionSpec {
    return this.#parts.spec;
  }

  async encode(frame: Frame, pause: Pause = NO_PAUSE): Promise<EncodedFrame> {
    const { spec, tower, staged, projectors, hiddenSize, adjust } = this.#parts;
    const patches = patchesOf(frame, spec.patches);
    const { rows, columns } = patches;
    const { merge } = spec;
    const grid = tokenGrid(spec, frame);
    this.#check(patches, grid.rows * grid.columns);
    this.#parts.adjustPatches?.(patches.values);
    const all = await tower.run(patches, pause);
    const states = this.#parts.select?.(all) ?? all;
    const parts: Float32Array[] = [];
    for (const [i, projector] of projectors.entries()) {
      const values = gather(this.#parts.gather, states[i]!, {
        rows,
        columns,
        hiddenSize,
        block: spec.patches.block,
        merge,
      });
      adjust?.(values);
      parts.push(await projector.run(values, staged));
    }
    const encoded = new Float32Array(parts.length * parts[0]!.length);
    for (const [i, part] of parts.entries()) encoded.set(part, i * part.length);
    return { rows: encoded, grid };
  }

  #check({ rows, columns }: Patches, tokens: number): void {
    const { spec, maxTokens } = this.#parts;
    const { block } = spec.patches;
    if (rows % block !== 0 || columns % block !== 0) {
      const reason = `the model takes blocks of ${block} x ${block} patches of it, and got ${rows} x ${columns} patches`;
      throw errorFor("image_unsupported", { reason });
    }
    if (tokens > maxTokens) throw errorFor("image_too_large", { value: tokens, what: "tokens", limit: maxTokens });
    const isAllowed = spec.side === null || (rows === spec.side && columns === spec.side);
    if (isAllowed && tokens > 0) return;
    const reason = `the model takes ${spec.side ?? 1} x ${spec.side ?? 1} patches of it, and got ${rows} x ${columns}`;
    throw errorFor("image_unsupported", { reason });
  }
}
