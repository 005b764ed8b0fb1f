// `pagoda warmup`: compiles every kernel for this GPU now, so that the first start of a model does not wait for it. Needed only where
// the package holds no compiled kernels for the GPU.

import { fromEnvironment, type OptionTable } from "../config/options.js";
import { errorFor } from "../core/errors.js";
import { helpOf, parseFlags } from "./args.js";
import { RUN_OPTIONS } from "./sampling-options.js";

export const WARMUP_OPTIONS = {
  device: { ...RUN_OPTIONS.device, default: "cuda", defaultText: "cuda" },
} as const satisfies OptionTable;

export async function warmupCommand(args: readonly string[]): Promise<number> {
  const { values, positionals, wantsHelp } = parseFlags(WARMUP_OPTIONS, args);
  if (wantsHelp || positionals.length > 0) {
    process[wantsHelp ? "stdout" : "stderr"].write(`Usage: pagoda warmup [options]\n\n${helpOf(WARMUP_OPTIONS)}\n`);
    return wantsHelp ? 0 : 2;
  }
  const given: Record<string, unknown> = { ...fromEnvironment(WARMUP_OPTIONS, process.env), ...values };
  const device = String(given.device ?? "cuda");
  if (!device.startsWith("cuda")) {
    throw errorFor("invalid_option", { param: "--device", value: device, expected: "cuda or cuda:N" });
  }
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
  return 0;
}
