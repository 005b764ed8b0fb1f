// Sampling in tests: rows from plain objects, and room for what comes out.

import { createSampled, type Sampled } from "../../src/core/sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";
import { SamplingRows } from "../../src/core/sampling-rows.js";

/** Filled with -7, so that what is not written shows. */
export function sampledOf(n: number): Sampled {
  const sampled = createSampled(n);
  for (const array of Object.values(sampled)) array.fill(-7);
  return sampled;
}

/** A row to sample; what is left out is off. */
export interface RowSpec extends Partial<SamplingParams> {
  readonly logitRow?: number;
  readonly uniform?: number;
  readonly prompt?: readonly number[];
  readonly answer?: readonly number[];
  /** Where the device has, or is to have, the first `numHeld` of them. */
  readonly history?: number;
  readonly numHeld?: number;
  readonly forbidden?: readonly number[];
  /** Only these tokens may be chosen. */
  readonly allowed?: readonly number[];
  readonly given?: number;
}

export function rowsOf(specs: readonly RowSpec[], vocab: number): SamplingRows {
  const rows = new SamplingRows();
  for (const [r, spec] of specs.entries()) {
    const sampling: SamplingParams = { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 1, ...spec };
    rows.add(spec.logitRow ?? r);
    rows.setDraw(sampling, spec.uniform ?? 0.5);
    const { prompt = [], answer = [] } = spec;
    if (prompt.length + answer.length > 0) {
      const tokens = Int32Array.from([...prompt, ...answer]);
      rows.setPenalties(sampling, tokens, prompt.length, tokens.length, spec.history, spec.numHeld);
    }
    if (spec.logitBias !== undefined) rows.setBias(spec.logitBias);
    if (spec.forbidden !== undefined) rows.setForbidden(Int32Array.from(spec.forbidden));
    if (spec.allowed !== undefined) {
      const mask = new Int32Array(Math.ceil(vocab / 32));
      for (const id of spec.allowed) mask[id >> 5]! |= 1 << (id & 31);
      rows.setMask(mask);
    }
    if (spec.given !== undefined) rows.setGiven(spec.given, spec.logprobs ?? 0);
  }
  return rows;
}
