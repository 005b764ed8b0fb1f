// Sampling in tests: draws from plain objects, and room for what comes out.

import { Draws, FLAG, flagsOf, penalizedFrom, ROW, rowWordsOf } from "../../src/core/draws.js";
import { createSampled, type Sampled } from "../../src/core/sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";

/** Filled with -7, so that what is not written shows. */
export function sampledOf(n: number): Sampled {
  const sampled = createSampled(n);
  for (const array of Object.values(sampled)) array.fill(-7);
  return sampled;
}

/** A draw; what is left out is off. */
export interface DrawSpec extends Partial<SamplingParams> {
  readonly logitRow?: number;
  readonly uniform?: number;
  readonly prompt?: readonly number[];
  readonly answer?: readonly number[];
  /** Where the device has its row, with the first `numHeld` of them; left out: the draw brings its row. */
  readonly row?: number;
  readonly numHeld?: number;
  /** The row is written first. */
  readonly isNew?: boolean;
  readonly forbidden?: readonly number[];
  /** Only these tokens may be chosen. */
  readonly allowed?: readonly number[];
  readonly given?: number;
}

export function drawsOf(specs: readonly DrawSpec[], vocab: number): Draws {
  const draws = new Draws(1);
  for (const [d, spec] of specs.entries()) {
    const { logitRow = d, given, logprobs = null, forbidden = [], allowed, row, numHeld = 0, isNew = false } = spec;
    if (given !== undefined) {
      draws.addGiven(logitRow, given, logprobs ?? 0);
      continue;
    }
    const sampling: SamplingParams = { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 1, ...spec };
    const { prompt = [], answer = [], uniform = 0.5 } = spec;
    const words = rowWordsOf(sampling, prompt.length, Int32Array.from(forbidden));
    const bits = uniform * 2 ** 53;
    words[ROW.seedLow] = Math.floor(bits / 2 ** 26) * 2 ** 5;
    words[ROW.seedHigh] = (bits % 2 ** 26) * 2 ** 6;
    if (isNew) draws.keepRow(row!, words);
    const tokens = Int32Array.from([...prompt, ...answer]);
    const first = penalizedFrom(sampling, prompt.length);
    const flags = flagsOf(sampling) | (forbidden.length > 0 ? FLAG.stops : 0);
    const isPenalized = (flags & FLAG.penalties) !== 0 && tokens.length > first;
    const taken = isPenalized ? flags : flags & ~FLAG.penalties;
    draws.add(row ?? draws.bringRow(words), logitRow, tokens.length, -1, taken, logprobs ?? -1);
    if (isPenalized) draws.setTokens(tokens, first + numHeld, tokens.length);
    if (allowed !== undefined) draws.setMask(maskOf(allowed, vocab));
  }
  return draws;
}

function maskOf(allowed: readonly number[], vocab: number): Int32Array {
  const mask = new Int32Array(Math.ceil(vocab / 32));
  for (const id of allowed) mask[id >> 5]! |= 1 << (id & 31);
  return mask;
}
