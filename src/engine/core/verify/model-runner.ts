// Runs chosen token ranges of chosen sequences through a model, without scheduler or cache: what verification and tests need to
// say exactly which tokens meet in which batch. Each sequence owns a run of pages of its own.

import type { AttentionPlanner } from "../../../attention/planner.js";
import { Batch } from "../../../core/batch.js";
import { ceilDiv } from "../../../core/math.js";
import { type Medium, NO_MEDIA } from "../../../core/media.js";
import type { Device, KvDtype, StagedBatch } from "../../../device/device.js";
import { readTensor } from "../../../device/read-tensor.js";
import type { Caches, Model } from "../../../models/model.js";
import { allocCaches, pagedCaches, plannerFor } from "../load/cache-pools.js";
import { MediaRows, rowsGiven } from "../media-rows.js";

/** One row of a step: tokens [start, end) of a sequence, whose earlier tokens have been run before. */
export interface RunRange {
  readonly sequence: number;
  readonly tokens: ArrayLike<number>;
  readonly start: number;
  readonly end: number;
  /** First position whose logits are wanted. */
  readonly logitsFrom: number;
  /** The adapter's slot; left out: none. */
  readonly adapter?: number;
  /** Of the sequence; left out: none. */
  readonly media?: readonly Medium[];
}

export interface ModelRunnerOptions {
  readonly device: Device;
  readonly model: Model;
  readonly maxTokens: number;
  readonly maxLogitRows: number;
  readonly numSequences: number;
  /** Most tokens of a sequence. */
  readonly maxLength: number;
  readonly pageSize?: number;
  readonly kvDtype?: KvDtype;
}

export class ModelRunner {
  readonly #options: ModelRunnerOptions;
  readonly #batch: Batch;
  readonly #staged: StagedBatch;
  readonly #caches: Caches;
  readonly #planners: readonly AttentionPlanner[];
  readonly #pages: readonly Int32Array[]; // [numSequences] page ids

  constructor(options: ModelRunnerOptions) {
    const { device, model, maxTokens, numSequences, maxLength, pageSize = 16, kvDtype = "f32" } = options;
    const { caches, plans } = model.spec;
    const pagesEach = ceilDiv(maxLength, pageSize);
    this.#options = options;
    this.#batch = new Batch(pageSize, maxTokens, pagedCaches(caches).length);
    this.#staged = device.createStagedBatch(maxTokens);
    // A sequence's state is in slot 1 + its number.
    const sizes = caches.map(({ kind }) => 1 + numSequences * (kind === "state" ? 1 : pagesEach));
    this.#caches = allocCaches(caches, device, { pageSize, dtype: kvDtype }, sizes);
    this.#planners = plans.map((plan) => plannerFor(plan, caches, device, "fixed", kvDtype));
    // Last page first: a sequence's pages are not in ascending order, as in an engine that has run for a while.
    this.#pages = Array.from({ length: numSequences }, (_, s) =>
      Int32Array.from({ length: pagesEach }, (_, i) => 1 + s * pagesEach + (pagesEach - 1 - i)),
    );
  }

  /** Runs the ranges as one batch. Gives the wanted logits [numLogitRows, V], rows in order of the ranges. */
  async run(ranges: readonly RunRange[]): Promise<Float32Array> {
    this.#forward(ranges);
    const { device, model, maxLogitRows } = this.#options;
    const { vocabSize } = model.spec;
    const { numLogitRows } = this.#batch;
    const logits = new Float32Array(numLogitRows * vocabSize);
    for (let first = 0; first < numLogitRows; first += maxLogitRows) {
      const n = Math.min(maxLogitRows, numLogitRows - first);
      model.computeLogits(this.#staged, first, n);
      await readTensor(device, logits.subarray(first * vocabSize), model.logits, 0, n);
    }
    return logits;
  }

  /** The same; gives the hidden states of all tokens [T, hidden]. */
  async runHidden(ranges: readonly RunRange[]): Promise<Float32Array> {
    this.#forward(ranges);
    const { device, model } = this.#options;
    const { numTokens } = this.#batch;
    const hidden = new Float32Array(numTokens * model.spec.hiddenSize);
    await readTensor(device, hidden, model.hidden, 0, numTokens);
    return hidden;
  }

  #forward(ranges: readonly RunRange[]): void {
    const { device, model } = this.#options;
    const { isBidirectional = false } = model.spec;
    const batch = this.#batch;
    batch.clear();
    const rows = new MediaRows(model.spec.hiddenSize);
    for (const { sequence, tokens, start, end, logitsFrom, adapter = -1, media = NO_MEDIA } of ranges) {
      batch.addRow(Int32Array.from(tokens), start, end - start, this.#pages[sequence]!, logitsFrom, 1 + sequence);
      for (let g = 1; g < batch.groups.length; g++) batch.addPages(g, this.#pages[sequence]!);
      batch.adapterSlots[batch.numRows - 1] = adapter;
      if (isBidirectional) batch.setVisibleEnd(end, start, end);
      rows.add(batch, rowsGiven(media), start, end);
    }
    device.stage(
      this.#staged,
      batch,
      this.#planners.map((planner) => planner.plan(batch)),
    );
    model.forward(this.#staged, this.#caches, rows.inputs, rows.places);
  }
}
