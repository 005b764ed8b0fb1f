// Patches as rows of a batch: those of one segment (a frame, or a window of it) see each other and nothing else.

import type { AttentionPlanner } from "../../attention/planner.js";
import { Batch } from "../../core/batch.js";
import { ceilDiv } from "../../core/math.js";
import type { Device, StagedBatch } from "../../device/device.js";

const PAGE_SIZE = 16;

/** Pages for `maxPatches` patches in segments of at least `least` of them; page 0 is nobody's. */
export function numPagesFor(maxPatches: number, least: number): number {
  return 1 + ceilDiv(maxPatches, PAGE_SIZE) + ceilDiv(maxPatches, least);
}

export { PAGE_SIZE };

export class Segments {
  readonly staged: StagedBatch;
  readonly #device: Device;
  readonly #planner: AttentionPlanner;
  readonly #batch: Batch;
  readonly #ids: Int32Array; // nobody reads them

  constructor(device: Device, planner: AttentionPlanner, maxPatches: number) {
    this.#device = device;
    this.#planner = planner;
    this.#batch = new Batch(PAGE_SIZE, maxPatches);
    this.#ids = new Int32Array(maxPatches);
    this.staged = device.createStagedBatch(maxPatches);
  }

  /** `gathered`: the rows that gatherLogitRows() takes. */
  stage(lengths: readonly number[], gathered: Int32Array): void {
    const batch = this.#batch;
    batch.clear();
    let page = 1;
    for (const length of lengths) {
      const count = ceilDiv(length, PAGE_SIZE);
      const pages = Int32Array.from({ length: count }, (_, i) => page + i);
      page += count;
      batch.addRow(this.#ids, 0, length, pages, Number.POSITIVE_INFINITY);
      batch.setVisibleEnd(length, 0, length);
    }
    batch.logitRows.set(gathered);
    batch.numLogitRows = gathered.length;
    this.#device.stage(this.staged, batch, [this.#planner.plan(batch)]);
  }
}
