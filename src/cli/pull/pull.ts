// `pagoda pull ORG/NAME[:FILE or QUANTISATION]`: fetches a model into the shared Hugging Face cache.

import type { OptionTable } from "../../config/options.js";
import { pull } from "../../formats/hub/hub-pull.js";
import { hasHelped, parseFlags } from "../args.js";
import { bytes } from "../terminal.js";
import { pullProgress } from "./progress.js";

export const PULL_OPTIONS = {
  json: { type: "boolean", default: false, help: "print the result as JSON" },
} as const satisfies OptionTable;

const USAGE = {
  line: "pull ORG/NAME[@REVISION][:FILE|:QUANTISATION] [options]",
  about: `Fetches a model into the cache that Hugging Face tools share; what an earlier pull left is continued.
Environment: HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE.`,
  examples: [
    "pagoda pull Qwen/Qwen3-0.6B                     a folder of safetensors",
    "pagoda pull unsloth/Qwen3-0.6B-GGUF:Q4_K_M      one quantisation of a GGUF repository",
  ],
  words: { least: 1, most: 1 },
};

export async function pullCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(PULL_OPTIONS, args);
  if (hasHelped(PULL_OPTIONS, USAGE, parsed)) return 0;
  const { values, positionals } = parsed;
  const model = positionals[0]!;
  const progress = pullProgress(model);
  try {
    const result = await pull(model, { onProgress: progress.onProgress });
    progress.done();
    if (values.json === true) process.stdout.write(`${JSON.stringify({ model, ...result }, null, 2)}\n`);
    else {
      const fetched = result.fetchedBytes === 0 ? "all there already" : `${bytes(result.fetchedBytes)} fetched`;
      const files = `${result.files.length} file${result.files.length === 1 ? "" : "s"}`;
      process.stdout.write(`${model}: ${files}, ${bytes(result.totalBytes)}, ${fetched}\n${result.path}\n`);
    }
    return 0;
  } finally {
    progress.done();
  }
}
