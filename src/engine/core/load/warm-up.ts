// Steps as the first requests will need them, before anybody asks: kernels are loaded, the loop is compiled, and on a GPU the lists of launches
// that decode steps consist of have become graphs (src/device/cuda/driver/launch-queue.ts), which otherwise happens in the first steps of each size.

import type { CacheManager } from "../../../cache/cache-manager.js";
import { bucket } from "../../../core/math.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../../core/sampling.js";
import type { EngineCore } from "../engine-core.js";

export interface WarmedSize {
  readonly rows: number;
  /** The longest of the first steps, and the middle one of those after them. */
  readonly firstMs: number;
  readonly laterMs: number;
  /** Steps that were replays of a graph, of `STEPS`. */
  readonly replays: number;
}

/** Each of two flights sees its list, makes a graph of it and replays it; fewer tokens than a page of the usual size, so that none is kept. */
export const STEPS = 10;
const FIRST_STEPS = 4;

/** Those that decode steps are padded to, up to `maxRows`. */
function sizesUpTo(maxRows: number): number[] {
  const sizes: number[] = [];
  for (let rows = 1; rows <= maxRows; rows = bucket(rows + 1)) sizes.push(rows);
  return sizes;
}

/** Tokens of the shortest prompt; each of the next has twice as many, and so its own form of many a kernel. */
const SHORTEST_PROMPT = 20;
/** Ways to draw a token that have kernels of their own. */
const DRAWS: readonly Partial<SamplingParams>[] = [
  { temperature: 1 },
  { temperature: 0.7, topP: 0.9 },
  { temperature: 1, topK: 20, topP: 0.8, minP: 0.01 },
  { temperature: 1, repetitionPenalty: 1.05, presencePenalty: 0.5, logprobs: 5 },
];
/** A server that is not ready is not used. */
const MOST_MS = 4000;

/**
 * Prompts of all sizes that a step may have, every way of drawing a token, and decode steps of up to `maxRows` rows, on a core that serves
 * nobody yet; ends when it has taken long. What it counts and caches is forgotten.
 */
export async function getReady(
  core: EngineCore,
  cache: CacheManager,
  maxRows: number,
  maxTokens: number,
): Promise<void> {
  const end = performance.now() + MOST_MS;
  const { pageSize } = cache;
  const mostTokens = Math.min(maxTokens, Math.floor((core.stats().pagesFree * pageSize) / 2));
  for (let tokens = SHORTEST_PROMPT; tokens <= mostTokens && performance.now() < end; tokens *= 2) {
    addRow(core, `prompt-${tokens}`, tokens, 2);
    await runAll(core, `a prompt of ${tokens} tokens`);
  }
  for (const [i, draw] of DRAWS.entries()) addRow(core, `draw-${i}`, 1, 3, draw);
  await runAll(core, "draws");
  for (const rows of sizesUpTo(Math.min(maxRows, core.stats().pagesFree))) {
    if (performance.now() > end) break;
    await warmSize(core, rows);
  }
  cache.forget();
  core.recorder.clear();
}

/** Runs on a core that serves nobody yet; what it counts is forgotten. */
export async function warmUp(core: EngineCore, maxRows: number): Promise<WarmedSize[]> {
  const sizes = sizesUpTo(Math.min(maxRows, core.stats().pagesFree));
  const warmed: WarmedSize[] = [];
  for (const rows of sizes) warmed.push(await warmSize(core, rows));
  core.recorder.clear();
  return warmed;
}

async function warmSize(core: EngineCore, rows: number): Promise<WarmedSize> {
  const replaysOf = () => core.stats().deviceUsage?.graphReplays ?? 0;
  const before = replaysOf();
  // Prompts of one token: their first step has the shape of a decode step.
  for (let r = 0; r < rows; r++) addRow(core, `warm-up-${rows}-${r}`, 1, STEPS);
  const stepMs = await runAll(core, `${rows} rows`);
  const later = stepMs.slice(FIRST_STEPS, STEPS).sort((a, b) => a - b);
  const firstMs = Math.max(...stepMs.slice(0, FIRST_STEPS));
  return { rows, firstMs, laterMs: later[later.length >> 1] ?? firstMs, replays: replaysOf() - before };
}

/** Milliseconds of the steps until nothing is left. */
async function runAll(core: EngineCore, what: string): Promise<number[]> {
  const stepMs: number[] = [];
  while (core.hasWork) {
    const start = performance.now();
    await core.stepAsync();
    stepMs.push(performance.now() - start);
    const error = core.takeOutputs()?.notes.find((note) => note.error !== null)?.error;
    if (error !== undefined) throw new Error(`the warm-up of ${what} failed: ${JSON.stringify(error)}`);
  }
  return stepMs;
}

function addRow(
  core: EngineCore,
  id: string,
  length: number,
  maxTokens: number,
  draw: Partial<SamplingParams> = {},
): void {
  core.add({
    type: "add",
    callId: id,
    kind: "generate",
    prompt: new Int32Array(length),
    sampling: { ...SAMPLING_DEFAULTS, temperature: 0, ignoreEos: true, seed: 0, maxTokens, ...draw },
    priority: 0,
    salt: id,
    arrivalMs: 0, // nobody asks how long it waited
    constraint: null,
  });
}
