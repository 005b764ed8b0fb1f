// Decode steps of usual sizes before anybody asks: kernels are loaded, the loop is compiled, and on a GPU the lists of launches that such
// steps consist of have become graphs (src/device/cuda/launch-queue.ts), which otherwise happens in the first steps of each size.

import { SAMPLING_DEFAULTS } from "../../../core/sampling.js";
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

/** One row to eight, then powers of two, up to `maxRows`. */
function sizesUpTo(maxRows: number): number[] {
  const sizes = Array.from({ length: Math.min(8, maxRows) }, (_, i) => i + 1);
  for (let rows = 16; rows <= maxRows; rows *= 2) sizes.push(rows);
  return sizes;
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

function addRow(core: EngineCore, id: string, length: number, maxTokens: number): void {
  core.add({
    type: "add",
    callId: id,
    kind: "generate",
    prompt: new Int32Array(length),
    sampling: { ...SAMPLING_DEFAULTS, temperature: 0, ignoreEos: true, seed: 0, maxTokens },
    priority: 0,
    salt: id,
    arrivalMs: 0, // nobody asks how long it waited
    constraint: null,
  });
}
