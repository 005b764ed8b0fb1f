// Rotary frequencies of every rope type, as Hugging Face computes them: f32 arithmetic, step by step. The fields come from
// src/formats/rope-config.ts.
//
// longrope has two sets of factors, for sequences within and beyond the original length. Hugging Face switches with the length of
// the sequence at hand, which would change the keys already in the cache; here the set is chosen once, by the longest sequence
// that the model is loaded for. dynamic rescales only beyond max_position_embeddings, which a context never exceeds: it is default.

import { type RopeConfig, readRope } from "../formats/rope-config.js";
import type { ConfigReader } from "./config-reader.js";

const f = Math.fround;

export interface Rope {
  readonly invFreq: Float32Array; // [rotaryDim / 2]
  /** Factor on cos and sin. */
  readonly scale: number;
}

/** The rope of a config for heads of `headDim`; refuses one that does not fit them. */
export function readHeadRope(c: ConfigReader, headDim: number, layerType?: string): RopeConfig {
  const config = readRope(c.raw, c.file, layerType);
  const dim = rotaryDimOf(config, headDim);
  if (dim < 2 || dim > headDim || dim % 2 !== 0) {
    const known = `shares of the head's ${headDim} dims that make an even number`;
    throw c.refuse("partial_rotary_factor", config.partialRotaryFactor, known);
  }
  if (config.type === "longrope") {
    for (const factors of [config.shortFactor, config.longFactor]) {
      if (factors.length !== dim / 2) throw c.refuse("longrope factors", factors, `lists of ${dim / 2} numbers`);
    }
  }
  return config;
}

/** `raw` with the family's rope where the config states none, in either spelling; one of rope_theta alone states none. */
export function withAbsentRope(raw: Record<string, unknown>, rope: Record<string, unknown>): Record<string, unknown> {
  return (raw.rope_parameters ?? raw.rope_scaling ?? null) === null ? { ...raw, rope_parameters: rope } : raw;
}

/** Frequencies for heads of `headDim`; `maxContext` is the longest sequence that will run. */
export function computeRope(config: RopeConfig, headDim: number, maxContext: number): Rope {
  const rotaryDim = rotaryDimOf(config, headDim);
  const half = rotaryDim / 2;
  const plain = new Float32Array(half);
  for (let i = 0; i < half; i++) plain[i] = f(1 / f(config.theta ** f((2 * i) / rotaryDim)));

  switch (config.type) {
    case "default":
    case "dynamic":
      return { invFreq: plain, scale: 1 };
    case "linear":
      return { invFreq: plain.map((freq) => freq / config.factor), scale: 1 };
    case "proportional": {
      const turning = Math.floor((headDim * config.partialRotaryFactor) / 2);
      return { invFreq: plain.map((freq, i) => (i < turning ? freq / config.factor : 0)), scale: 1 };
    }
    case "llama3":
      return { invFreq: plain.map((freq) => llama3Frequency(freq, config)), scale: 1 };
    case "yarn":
      return { invFreq: yarnFrequencies(plain, rotaryDim, config), scale: yarnScale(config) };
    case "longrope": {
      const isLong = maxContext > config.originalMaxPosition;
      const factors = isLong ? config.longFactor : config.shortFactor;
      return { invFreq: plain.map((freq, i) => freq / f(factors[i]!)), scale: longropeScale(config) };
    }
  }
}

/** Which of a token's three positions each pair turns with; null: they are one. */
export function ropeAxes({ sections, areSectionsInterleaved }: RopeConfig, numPairs: number): Uint8Array | null {
  if (sections === undefined) return null;
  const [first, second, third] = sections as [number, number, number];
  return Uint8Array.from({ length: numPairs }, (_, i) => {
    if (!areSectionsInterleaved) return i < first ? 0 : i < first + second ? 1 : 2;
    return (i % 3 === 1 && i < 3 * second) || (i % 3 === 2 && i < 3 * third) ? i % 3 : 0;
  });
}

export function rotaryDimOf(config: RopeConfig, headDim: number): number {
  return config.type === "proportional" ? headDim : Math.floor(headDim * config.partialRotaryFactor);
}

/** Tokens that the rope is meant for: yarn may state a factor without raising max_position_embeddings. */
export function ropeContext(config: RopeConfig): number {
  if (config.type !== "yarn") return config.maxPosition;
  return Math.max(config.maxPosition, Math.floor(config.originalMaxPosition * config.factor));
}

/** Long wavelengths are slowed by the factor, short ones kept, those between blended. */
function llama3Frequency(freq: number, config: Extract<RopeConfig, { type: "llama3" }>): number {
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPosition } = config;
  const wavelength = f((2 * Math.PI) / freq);
  if (wavelength < originalMaxPosition / highFreqFactor) return freq;
  if (wavelength > originalMaxPosition / lowFreqFactor) return freq / factor;
  const smooth = f((originalMaxPosition / wavelength - lowFreqFactor) / (highFreqFactor - lowFreqFactor));
  return f(f((1 - smooth) * f(freq / factor)) + f(smooth * freq));
}

/** Dims that turn often within the original length are kept, those that turn seldom are slowed, with a ramp between. */
function yarnFrequencies(
  plain: Float32Array,
  dim: number,
  config: Extract<RopeConfig, { type: "yarn" }>,
): Float32Array {
  const { theta, factor, originalMaxPosition, betaFast, betaSlow, truncate } = config;
  const dimOfTurns = (turns: number): number =>
    (dim * Math.log(originalMaxPosition / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(truncate ? Math.floor(dimOfTurns(betaFast)) : dimOfTurns(betaFast), 0);
  let high = Math.min(truncate ? Math.ceil(dimOfTurns(betaSlow)) : dimOfTurns(betaSlow), dim - 1);
  if (low === high) high += 0.001;
  return plain.map((freq, i) => {
    const slowed = f(Math.min(Math.max(f((i - low) / (high - low)), 0), 1));
    return f(f(f(freq / factor) * slowed) + f(freq * f(1 - slowed)));
  });
}

function yarnScale(config: Extract<RopeConfig, { type: "yarn" }>): number {
  if (config.attentionFactor !== null) return config.attentionFactor;
  const { factor, mscale, mscaleAllDim } = config;
  if (mscale && mscaleAllDim) return yarnMscale(factor, mscale) / yarnMscale(factor, mscaleAllDim);
  return yarnMscale(factor, 1);
}

/** How much yarn sharpens attention for a context `factor` times as long. */
export function yarnMscale(factor: number, mscale: number): number {
  return factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
}

function longropeScale(config: Extract<RopeConfig, { type: "longrope" }>): number {
  if (config.attentionFactor !== null) return config.attentionFactor;
  if (config.factor <= 1) return 1;
  return Math.sqrt(1 + Math.log(config.factor) / Math.log(config.originalMaxPosition));
}
