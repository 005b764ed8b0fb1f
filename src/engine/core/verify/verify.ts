// Checks a model against the golden.json beside it: logits, log-probabilities and greedy tokens that another implementation
// computed. Each prompt runs in one batch and again in chunks; the greedy tokens are then decoded one by one.

import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { AdapterSites, type AttachedAdapter } from "../../../adapters/attach.js";
import { openAdapter } from "../../../adapters/open.js";
import { argmax } from "../../../core/choose-token.js";
import { FormatError } from "../../../core/errors.js";
import { type Medium, NO_MEDIA } from "../../../core/media.js";
import type { TensorSource } from "../../../core/tensor.js";
import type { Device, KvDtype, WeightQuantization } from "../../../device/device.js";
import { RoundedDevice } from "../../../device/reference/rounded-device.js";
import { readJsonObject } from "../../../formats/json-file.js";
import type { Linear } from "../../../models/blocks/linear.js";
import type { Model } from "../../../models/model.js";
import { familyOf } from "../../../models/registry.js";
import { openCheckpoint } from "../../checkpoint.js";
import { ModelRunner, type RunRange } from "./model-runner.js";
import { GoldenEyes, type GoldenPictures, type SeenPictures } from "./verify-pictures.js";
import { compareVectors, type GoldenVectors, largestDifference, OTHER_TEXT } from "./verify-vectors.js";

/** A case of golden.json; all but the prompt may be absent. `mean`, `first`, `last`, `scores`: of models that do not generate. */
export interface GoldenCase extends GoldenVectors, GoldenPictures {
  readonly prompt: readonly number[];
  /** Logits after the last prompt token [V]. */
  readonly last_logits?: readonly number[];
  /** Sum of the log-probabilities of the prompt's tokens after the first. */
  readonly logprob_sum?: number;
  readonly greedy?: readonly number[];
  /** Least distance between the two best logits along the greedy path. */
  readonly min_top2_gap?: number;
}

/** Two logits closer than this may swap places from one implementation to another; where logits may move by more, by as much as that. */
export const TIE_GAP = 5e-3;

/** Goldens state pixels to five places. */
const PIXEL_TOLERANCE = 1e-5;

export interface GreedyMiss {
  /** Index into the greedy tokens. */
  readonly index: number;
  readonly expected: number;
  readonly found: number;
  /** How far the found token's logit is above the expected one's. */
  readonly gap: number;
}

export interface CaseResult {
  readonly index: number;
  readonly promptLen: number;
  /** Largest difference of a logit, or of a number of a vector or score; null when the case does not say. */
  readonly logitDifference: number | null;
  readonly logprobDifference: number | null;
  /** Largest difference of the pictures' pixels, of their mean and standard deviation; null: there are no pictures. */
  readonly pixelDifference: number | null;
  /** Largest difference between the prompt in one batch and in chunks, or beside another text. */
  readonly chunkDifference: number;
  readonly greedyLen: number;
  /** Differences that are ties: the case's own gap and ours are both below the tie gap. */
  readonly ties: readonly GreedyMiss[];
  readonly misses: readonly GreedyMiss[];
  readonly isOk: boolean;
}

export interface VerifyOptions {
  /** An adapter's folder or file, whose golden.json is that of the model with the adapter. */
  readonly adapter?: string;
  /** Largest logit difference that passes; per prompt token for the sum of log-probabilities. */
  readonly tolerance?: number;
  /** The file with the model's eyes (engine/checkpoint.ts). */
  readonly mmproj?: string;
  readonly quantize?: WeightQuantization;
  readonly kvDtype?: KvDtype;
  /** Tokens of a chunk when the prompt runs again in chunks; null: it does not. Default: 16. */
  readonly chunk?: number | null;
  readonly onCase?: (result: CaseResult) => void;
}

export interface VerifyResult {
  readonly model: string;
  readonly architecture: string;
  readonly device: string;
  readonly tolerance: number;
  readonly cases: readonly CaseResult[];
  readonly isOk: boolean;
}

/** Runs every case of `path`/golden.json, or of the adapter's, on the device. The device stays open. */
export async function verifyModel(path: string, device: Device, options: VerifyOptions = {}): Promise<VerifyResult> {
  const goldensFile = join(folderOf(options.adapter ?? path), "golden.json");
  if (!existsSync(goldensFile))
    throw new FormatError("model_not_found", {
      path: goldensFile,
      reason: "verify needs a golden.json beside the model.",
    });
  const goldens = readGoldens(goldensFile);
  const checkpoint = openCheckpoint(path, options.mmproj);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(config);
  const { vocabSize, shortContext = Number.POSITIVE_INFINITY } = spec;
  const generates = spec.task === undefined;
  checkIds(goldens, vocabSize, goldensFile);
  const lengthOf = ({ prompt, greedy = [] }: GoldenCase): number => prompt.length + greedy.length;
  const isLong = (golden: GoldenCase): boolean => lengthOf(golden) > shortContext;
  const source = checkpoint.openTensors();
  const adapter = options.adapter === undefined ? null : openAdapter(options.adapter, checkpoint.config);
  const attached: AttachedAdapter[] = [];
  const { quantize = "none", kvDtype = "f32" } = options;
  const goldensFolder = dirname(goldensFile);
  const eyesFor = (device: Device): GoldenEyes | null =>
    GoldenEyes.open(checkpoint, source, goldens, { device, quantize, kvDtype }, goldensFolder);
  const eyes = eyesFor(device);
  // Cases of either side of longrope's switch need a model of their own; all others share one.
  const runners = new Map<boolean, LoadedRunner>();
  const runnerFor = (side: boolean, device: Device): LoadedRunner => {
    const own = goldens.filter((golden) => isLong(golden) === side);
    const maxContext = Math.max(...own.map(lengthOf));
    const capacity = {
      maxTokens: maxContext + (generates ? 0 : OTHER_TEXT),
      maxLogitRows: 16,
      maxContext,
      deeperRows: eyes?.numDeeper ?? 0,
    };
    const linears: Linear[] = [];
    const model = family.load(config, { device, source, capacity, quantize, linears });
    if (adapter !== null) attached.push(new AdapterSites(device, linears).attach(adapter, ADAPTER_SLOT));
    const maxLength = Math.max(maxContext, OTHER_TEXT);
    const runner = new ModelRunner({ ...capacity, device, model, numSequences: 2, maxLength, kvDtype });
    return { runner: adapter === null ? runner : withAdapter(runner), model };
  };
  const cases: CaseResult[] = [];
  let tolerance = options.tolerance ?? device.info.logitTolerance;
  try {
    if (options.tolerance === undefined && device.info.roundsOperands === true && generates) {
      const rounded = goldens.filter((golden) => lengthOf(golden) * parametersOf(source) <= MOST_ROUNDED);
      const costs = await costsOfRounding(rounded, isLong, runnerFor, eyesFor, vocabSize);
      tolerance = Math.max(tolerance, ROUNDING_FACTOR * Math.max(0, ...costs));
    }
    for (const [index, golden] of goldens.entries()) {
      const side = isLong(golden);
      const loaded = runners.get(side) ?? runnerFor(side, device);
      runners.set(side, loaded);
      const { runner, model } = loaded;
      const { chunk = 16 } = options;
      const result = generates
        ? await verifyCase(golden, index, runner, vocabSize, tolerance, chunk, eyes)
        : await verifyText(golden, index, runner, model, tolerance);
      options.onCase?.(result);
      cases.push(result);
    }
  } finally {
    for (const one of attached) one.detach();
    adapter?.close();
    source.close();
  }
  return {
    model: checkpoint.name,
    architecture: spec.architecture,
    device: device.info.name,
    tolerance,
    cases,
    isOk: cases.every((result) => result.isOk),
  };
}

const ADAPTER_SLOT = 0;

/**
 * A device that rounds to 16 bits may be this many times as far from the golden as the reference device with the same roundings: it rounds
 * more (keys, values, probabilities), in another order of sums, and near ties of routers fall either way.
 */
const ROUNDING_FACTOR = 3;
/** Parameters times tokens that the reference device computes in a minute or two: larger cases are left out. */
const MOST_ROUNDED = 1e10;

function parametersOf(source: TensorSource): number {
  let count = 0;
  for (const name of source.names()) count += source.get(name).shape.reduce((product, size) => product * size, 1);
  return count;
}

/** How far the logits of each case are from the golden where products round to 16 bits and nothing else does. */
async function costsOfRounding(
  goldens: readonly GoldenCase[],
  sideOf: (golden: GoldenCase) => boolean,
  runnerFor: (side: boolean, device: Device) => LoadedRunner,
  eyesFor: (device: Device) => GoldenEyes | null,
  vocab: number,
): Promise<number[]> {
  const device = new RoundedDevice();
  const eyes = eyesFor(device);
  const runners = new Map<boolean, LoadedRunner>();
  const costs: number[] = [];
  for (const golden of goldens) {
    const { prompt, last_logits: expected } = golden;
    if (expected === undefined) continue;
    const side = sideOf(golden);
    const loaded = runners.get(side) ?? runnerFor(side, device);
    runners.set(side, loaded);
    const media = (await seenBy(eyes, golden))?.media ?? NO_MEDIA;
    const range = { sequence: 0, tokens: prompt, start: 0, end: prompt.length, logitsFrom: prompt.length - 1, media };
    const last = await loaded.runner.run([range]);
    costs.push(largestDifference(last.subarray(0, vocab), expected));
  }
  return costs;
}

/** The part of a runner that verification needs. */
type Runner = Pick<ModelRunner, "run" | "runHidden">;

/** Every row has the adapter. */
function withAdapter(runner: ModelRunner): Runner {
  const adapted = (ranges: readonly RunRange[]): RunRange[] =>
    ranges.map((range) => ({ ...range, adapter: ADAPTER_SLOT }));
  return {
    run: (ranges) => runner.run(adapted(ranges)),
    runHidden: (ranges) => runner.runHidden(adapted(ranges)),
  };
}

interface LoadedRunner {
  readonly runner: Runner;
  readonly model: Model;
}

/** A text of a model that does not generate: its vectors or scores, alone and beside another text. */
async function verifyText(
  golden: GoldenCase,
  index: number,
  runner: Runner,
  model: Model,
  tolerance: number,
): Promise<CaseResult> {
  const { vectorDifference, neighbourDifference } = await compareVectors(golden, runner, model);
  return {
    index,
    promptLen: golden.prompt.length,
    logitDifference: vectorDifference,
    logprobDifference: null,
    pixelDifference: null,
    chunkDifference: neighbourDifference,
    greedyLen: 0,
    ties: [],
    misses: [],
    isOk: vectorDifference <= tolerance && neighbourDifference === 0,
  };
}

/** The pictures of a case; null: it has none, or nobody sees them. */
async function seenBy(eyes: GoldenEyes | null, golden: GoldenCase): Promise<SeenPictures | null> {
  return eyes === null || (golden.images ?? []).length === 0 ? null : eyes.see(golden, golden.prompt);
}

async function verifyCase(
  golden: GoldenCase,
  index: number,
  runner: Runner,
  vocab: number,
  tolerance: number,
  chunk: number | null,
  eyes: GoldenEyes | null,
): Promise<CaseResult> {
  const seen = await seenBy(eyes, golden);
  const media = seen?.media ?? NO_MEDIA;
  const pixelDifference = seen?.pixelDifference ?? null;
  const { prompt, last_logits: expected, logprob_sum: expectedSum, greedy = [], min_top2_gap: ownGap } = golden;
  const all = await runner.run([{ sequence: 0, tokens: prompt, start: 0, end: prompt.length, logitsFrom: 0, media }]);
  const last = all.subarray((prompt.length - 1) * vocab);
  const chunkDifference = chunk === null ? 0 : largestDifference(await runInChunks(runner, prompt, chunk, media), last);
  const { ties, misses } = await decodeGreedy(
    runner,
    prompt,
    media,
    greedy,
    last,
    ownGap ?? 0,
    Math.max(TIE_GAP, tolerance),
  );

  const logitDifference = expected === undefined ? null : largestDifference(last, expected);
  const logprobDifference = expectedSum === undefined ? null : Math.abs(logprobSum(all, prompt, vocab) - expectedSum);
  const isOk =
    misses.length === 0 &&
    // Written so that NaN fails.
    (logitDifference === null || logitDifference <= tolerance) &&
    (logprobDifference === null || logprobDifference <= tolerance * prompt.length) &&
    (pixelDifference === null || pixelDifference <= PIXEL_TOLERANCE) &&
    chunkDifference <= tolerance;
  return {
    index,
    promptLen: prompt.length,
    logitDifference,
    logprobDifference,
    pixelDifference,
    chunkDifference,
    greedyLen: greedy.length,
    ties,
    misses,
    isOk,
  };
}

async function runInChunks(
  runner: Runner,
  prompt: readonly number[],
  chunk: number,
  media: readonly Medium[],
): Promise<Float32Array> {
  let logits!: Float32Array; // no prompt is empty
  for (let start = 0, end = 0; start < prompt.length; start = end) {
    end = Math.min(start + chunk, prompt.length);
    // Media whose tokens see each other are not cut.
    for (const medium of media) if (medium.isWhole && medium.start < end && end < medium.end) end = medium.end;
    logits = await runner.run([{ sequence: 1, tokens: prompt, start, end, logitsFrom: prompt.length - 1, media }]);
  }
  return logits;
}

/** Feeds the golden tokens one by one and compares each with the model's own choice, so that one tie does not hide the rest. */
async function decodeGreedy(
  runner: Runner,
  prompt: readonly number[],
  media: readonly Medium[],
  greedy: readonly number[],
  last: Float32Array,
  ownGap: number,
  tieGap: number,
): Promise<{ ties: GreedyMiss[]; misses: GreedyMiss[] }> {
  const tokens = [...prompt, ...greedy];
  const ties: GreedyMiss[] = [];
  const misses: GreedyMiss[] = [];
  let logits = last;
  for (const [index, expected] of greedy.entries()) {
    const found = argmax(logits);
    if (found !== expected) {
      const gap = logits[found]! - logits[expected]!;
      const isTie = gap < tieGap && ownGap < tieGap;
      (isTie ? ties : misses).push({ index, expected, found, gap });
    }
    const start = prompt.length + index;
    logits = await runner.run([{ sequence: 0, tokens, start, end: start + 1, logitsFrom: start, media }]);
  }
  return { ties, misses };
}

/** Sum over the prompt's tokens after the first of log p(token | those before it). `logits` [promptLen, V]. */
export function logprobSum(logits: Float32Array, prompt: readonly number[], vocab: number): number {
  let sum = 0;
  for (let i = 1; i < prompt.length; i++) {
    const row = logits.subarray((i - 1) * vocab, i * vocab);
    const max = row[argmax(row)]!;
    let total = 0;
    for (let v = 0; v < vocab; v++) total += Math.exp(row[v]! - max);
    sum += row[prompt[i]!]! - max - Math.log(total);
  }
  return sum;
}

function readGoldens(file: string): readonly GoldenCase[] {
  const { cases } = readJsonObject(file);
  if (!Array.isArray(cases) || cases.length === 0 || !cases.every(isCase)) {
    const expected = "a list of cases, each with a prompt of token ids";
    throw new FormatError("file_corrupt", { file, what: "cases", expected, found: typeof cases });
  }
  return cases;
}

function checkIds(goldens: readonly GoldenCase[], vocab: number, file: string): void {
  for (const { prompt, greedy = [] } of goldens) {
    const found = [...prompt, ...greedy].find((id) => id >= vocab);
    if (found === undefined) continue;
    throw new FormatError("file_corrupt", { file, what: "token ids", expected: `ids below ${vocab}`, found });
  }
}

function isCase(value: unknown): value is GoldenCase {
  const isIds = (ids: unknown): boolean => Array.isArray(ids) && ids.every((id) => Number.isSafeInteger(id) && id >= 0);
  const golden = value as GoldenCase | null;
  return isIds(golden?.prompt) && golden!.prompt.length > 0 && (golden!.greedy === undefined || isIds(golden!.greedy));
}

/** Where what belongs to a model lies: its folder, or that of its file. */
function folderOf(path: string): string {
  return existsSync(path) && statSync(path).isFile() ? dirname(path) : path;
}
