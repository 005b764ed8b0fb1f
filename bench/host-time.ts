// What the host does for a decode step, as `pagoda serve` runs it: the engine's thread by stage, and the thread that turns tokens into text.
//   node dist/bench/host-time.js MODEL [rows,rows,...] [context] [steps] [device]
// host: all that the engine's thread does beside waiting for the GPU; exposed: the part of the step in which the GPU had nothing to do
// (on webgpu with PAGODA_WEBGPU_CLOCK=1).
// Without a GPU, the host's part alone (of the emulated driver, whose graphs only take the microseconds it is told):
//   EMULATED_IDLE=2000 PAGODA_CUDA_DRIVER=$(node scripts/build-cuda-emulator.mjs) PAGODA_NVRTC=$PAGODA_CUDA_DRIVER node dist/bench/host-time.js MODEL

import { performance } from "node:perf_hooks";
import { promptNumbers } from "../src/cli/bench/trace.js";
import { PagodaError } from "../src/core/errors.js";
import { createEngine } from "../src/engine/client/engine.js";
import type { Engine, EngineStats, Generation, HostTimes } from "../src/engine/types.js";

const [model = "", rowList = "1,8,64,256", context = "512", stepCount = "400", device = "cuda"] = process.argv.slice(2);
const STAGES = [
  "schedule",
  "plan",
  "stage",
  "launch",
  "commit",
  "deliver",
  "loop",
] as const satisfies (keyof HostTimes)[];
const STEPS = Number(stepCount);
/** Kernels are compiled, graphs captured, and the loop itself compiled for all sizes before one is measured. */
const WARM_STEPS = 300;

const engine = await createEngine({
  model,
  device: device as "cuda" | "webgpu",
  maxPagesPerBatch: 512,
  idealChunk: 8192,
  maxQueue: 1024,
  hostCacheMb: 0,
});
console.log(`${engine.model.device}; ${context} of context, microseconds a step`);
console.log(
  ["rows", "step", "GPU", ...STAGES, "host", "% of step", "exposed", "% of step", "readers"]
    .map((name) => name.padStart(9))
    .join(""),
);
const sizes = rowList.split(",").map(Number);
for (const rows of sizes) await decode(engine, rows, WARM_STEPS);
for (const rows of sizes) console.log(await decode(engine, rows, STEPS));
await engine.close();

/** A line of the table: steps of so many streams, once all of them have begun. */
async function decode(engine: Engine, rows: number, steps: number): Promise<string> {
  const maxTokens = steps + 2000;
  const streams = Array.from({ length: rows }, (_, r) => {
    const prompt = promptNumbers(steps, r, Number(context), 0, engine.model.vocabSize);
    const options = { maxTokens, ignoreEos: true, temperature: 0, skipSpecialTokens: false };
    return engine.generate(prompt, { ...options, salt: `${rows}-${steps}-${r}` });
  });
  const generated = (await engine.stats()).generatedTokens;
  const read = streams.map((stream) => readAll(stream));
  await until(engine, (stats) => stats.generatedTokens >= generated + 8 * rows);
  const before = await reading(engine);
  await until(engine, (stats) => stats.steps >= before.steps + steps);
  const after = await reading(engine);
  for (const stream of streams) stream.abort();
  await Promise.all(read);
  const each = (of: (value: typeof before) => number): number =>
    (1000 * (of(after) - of(before))) / (after.steps - before.steps);
  const stages = STAGES.map((stage) => each(({ times }) => times[stage]));
  const step = each(({ wallMs }) => wallMs);
  const host = stages.reduce((sum, us) => sum + us, 0);
  const exposed = step - each(({ busyMs }) => busyMs);
  const share = (us: number): string => ((100 * us) / step).toFixed(1);
  const columns = [step, step - exposed, ...stages, host].map((us) => us.toFixed(1));
  return [
    `${rows}`,
    ...columns,
    share(host),
    exposed.toFixed(1),
    share(exposed),
    each(({ activeMs }) => activeMs).toFixed(1),
  ]
    .map((column) => column.padStart(9))
    .join("");
}

/** As a server reads it, until it is aborted. */
async function readAll(stream: Generation): Promise<void> {
  try {
    for await (const _ of stream);
  } catch (error) {
    if (!(error instanceof PagodaError) || error.code !== "aborted") throw error;
  }
}

/** Asked seldom: the answer is work of the thread that is measured. */
async function until(engine: Engine, isThere: (stats: EngineStats) => boolean): Promise<void> {
  while (!isThere(await engine.stats())) await new Promise((resolve) => setTimeout(resolve, 100));
}

async function reading(engine: Engine) {
  const { steps, hostTimes, deviceUsage } = await engine.stats();
  const { active } = performance.eventLoopUtilization();
  return { steps, times: hostTimes!, busyMs: deviceUsage!.busyMs, wallMs: performance.now(), activeMs: active };
}
