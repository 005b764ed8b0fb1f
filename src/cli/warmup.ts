// `pagoda warmup`: compiles every kernel for this GPU now, so that the first start of a model does not wait for it; needed only where the
// package holds no compiled kernels for the GPU. With --model it also shows what the first decode steps of each size cost, and that the later ones
// are replays of graphs; an engine with --warmup takes those steps, and prompts, before it is ready.

import { engineConfig } from "../config/engine-config.js";
import { fromEnvironment, type OptionTable } from "../config/options.js";
import { errorFor } from "../core/errors.js";
import { loadEngine } from "../engine/core/load/load.js";
import { STEPS, warmUp } from "../engine/core/load/warm-up.js";
import { resolveModel } from "../formats/hub/hub.js";
import { hasHelped, parseFlags } from "./args.js";
import { withLoadProgress } from "./bench/progress.js";
import { renderTable } from "./bench/table.js";
import { RUN_OPTIONS } from "./sampling-options.js";

export const WARMUP_OPTIONS = {
  device: { ...RUN_OPTIONS.device, default: "cuda", defaultText: "cuda" },
  model: { ...RUN_OPTIONS.model, default: null, defaultText: "none: kernels only" },
  gpuMemory: RUN_OPTIONS.gpuMemory,
  kvDtype: RUN_OPTIONS.kvDtype,
  maxPagesPerBatch: RUN_OPTIONS.maxPagesPerBatch,
  idealChunk: RUN_OPTIONS.idealChunk,
  maxRows: { type: "integer", min: 1, max: 4096, default: 256, help: "rows of the largest decode step" },
} as const satisfies OptionTable;

export async function warmupCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(WARMUP_OPTIONS, args);
  if (hasHelped(WARMUP_OPTIONS, { line: "warmup [options]" }, parsed)) return 0;
  const { values } = parsed;
  const given: Record<string, unknown> = { ...fromEnvironment(WARMUP_OPTIONS, process.env), ...values };
  const { maxRows = WARMUP_OPTIONS.maxRows.default, ...engine } = given;
  const device = String(given.device ?? "cuda");
  if (device.startsWith("cuda")) await compileKernels(device);
  else if (given.model === undefined) {
    throw errorFor("invalid_option", { param: "--device", value: device, expected: "cuda or cuda:N without --model" });
  }
  if (given.model !== undefined) await takeFirstSteps({ ...engine, device }, Number(maxRows));
  return 0;
}

async function compileKernels(device: string): Promise<void> {
  const { CudaDevice } = await import("../device/cuda/cuda-device.js");
  const cuda = new CudaDevice({ index: device === "cuda" ? 0 : Number(device.slice("cuda:".length)) });
  try {
    const start = performance.now();
    const { sources, compiled } = cuda.compileAll();
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    process.stdout.write(
      `${sources} kernel sources ready for ${cuda.info.description}; ${compiled} compiled in ${seconds} s\n`,
    );
  } finally {
    cuda.close();
  }
}

async function takeFirstSteps(options: Record<string, unknown>, maxRows: number): Promise<void> {
  const config = engineConfig({ ...options, warmup: false });
  const model = await resolveModel(config.model);
  const { core, facts } = await withLoadProgress((onProgress) => loadEngine({ ...config, model }, onProgress));
  const start = performance.now();
  const sizes = await warmUp(core, maxRows);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  core.close();
  process.stdout.write(
    renderTable({
      caption: `Decode steps of a new engine on ${facts.device}: ${sizes.length} sizes in ${seconds} s`,
      head: ["rows", "longest of the first, ms", "later, ms", `replays of ${STEPS} steps`],
      rows: sizes.map(({ rows, firstMs, laterMs, replays }) => [rows, firstMs, laterMs, replays]),
    }),
  );
}
