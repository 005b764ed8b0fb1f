// Before page pools take what is left: a device with memory of its own takes what ops of any step need beside it. Steps of one token and of as
// many as there can be are rehearsed over pools of one page, so that nothing has to be known here of what an op needs; nothing is computed.

import type { AttentionPlanner } from "../../../attention/planner.js";
import { Batch } from "../../../core/batch.js";
import type { CacheSpec } from "../../../core/cache-spec.js";
import { NULL_PAGE } from "../../../core/ids.js";
import { ceilDiv } from "../../../core/math.js";
import type { Device, StagedBatch } from "../../../device/device.js";
import type { Model, PlanSpec } from "../../../models/model.js";
import type { Predictor } from "../../../models/predictors/predictor.js";
import { allocCaches, type PageShape, pagedCaches } from "./cache-pools.js";
import { splitCaches } from "./load-predictor.js";

/** Entries of page tables that there is room for at most: of 16 million tokens in pages of 16. */
const MOST_PAGES = 2 ** 20;

export interface StepNeeds {
  readonly model: Model;
  readonly predictor: Predictor | null;
  /** Of both. */
  readonly specs: readonly CacheSpec[];
  readonly plannersOf: (plans: readonly PlanSpec[], first: number) => readonly AttentionPlanner[];
  readonly page: PageShape;
  readonly maxTokens: number;
  readonly maxLogitRows: number;
  readonly maxContext: number;
}

export function reserveSteps(device: Device, needs: StepNeeds): void {
  const { model, predictor, specs, page, maxTokens, maxLogitRows, maxContext } = needs;
  const numGroups = pagedCaches(specs).length;
  const groupSizesOf = (plans: readonly PlanSpec[], caches: readonly CacheSpec[]) =>
    plans.map(({ group, numHeads }) => numHeads / caches[group]!.numKvHeads);
  const room = {
    maxTokens,
    maxLogitRows,
    maxContext,
    vocabSize: Math.max(model.spec.vocabSize, predictor?.logits.cols ?? 0),
    numPages: Math.min(MOST_PAGES, numGroups * maxTokens * ceilDiv(maxContext, page.pageSize)),
    numGroups,
    groupSizes: [
      ...groupSizesOf(model.spec.plans, model.spec.caches),
      ...(predictor === null ? [] : groupSizesOf(predictor.plans, predictor.caches)),
    ],
  };
  device.reserveSteps?.(room, () => rehearse(device, needs));
}

function rehearse(device: Device, needs: StepNeeds): void {
  const { model, predictor, specs, plannersOf, page, maxTokens, maxLogitRows } = needs;
  const { spec } = model;
  const caches = allocCaches(
    specs,
    device,
    page,
    specs.map(() => 1),
  );
  const { ofModel, ofPredictor } = splitCaches(caches, spec.caches, predictor);
  const batch = new Batch(page.pageSize, maxTokens, pagedCaches(specs).length);
  const staged = device.createStagedBatch(maxTokens);
  const planners = plannersOf(spec.plans, 0);
  for (const numTokens of new Set([1, maxTokens])) {
    const numLogitRows = Math.min(numTokens, maxLogitRows);
    fill(batch, numTokens, numLogitRows);
    stage(device, staged, batch, planners);
    model.forward(staged, ofModel);
    if (spec.task === undefined) model.computeLogits(staged, 0, numLogitRows);
    if (predictor === null) continue;
    stage(device, staged, batch, plannersOf(predictor.plans, pagedCaches(spec.caches).length));
    for (const source of ["model", "given", "own"] as const) predictor.forward(staged, ofPredictor, source);
    predictor.computeLogits(staged, 0, numLogitRows);
  }
}

/** Rows of a page each, all in the null page. */
function fill(batch: Batch, numTokens: number, numLogitRows: number): void {
  const { pageSize } = batch;
  const tokens = new Int32Array(pageSize);
  const pages = Int32Array.of(NULL_PAGE);
  batch.clear();
  while (batch.numTokens < numTokens) {
    const length = Math.min(pageSize, numTokens - batch.numTokens);
    const logitsFrom = Math.max(0, length - Math.max(0, numLogitRows - batch.numLogitRows));
    batch.addRow(tokens, 0, length, pages, logitsFrom, 0);
    for (let g = 1; g < batch.groups.length; g++) batch.addPages(g, pages);
  }
}

function stage(device: Device, staged: StagedBatch, batch: Batch, planners: readonly AttentionPlanner[]): void {
  device.stage(
    staged,
    batch,
    planners.map((planner) => planner.plan(batch)),
  );
}
