// How commands start an engine: with a line of progress, and loaded only now, so that help and wrong flags are answered at once.

import type { EngineOptions } from "../engine/client/engine.js";
import type { RelayEngine } from "../engine/client/relay.js";
import { dim, loadProgress } from "./terminal.js";

export async function startWithProgress(options: EngineOptions): Promise<RelayEngine> {
  const { startEngine } = await import("../engine/client/engine.js");
  const progress = loadProgress("loading");
  const { onProgress } = progress;
  const engine = await startEngine({ onPull: onProgress, onProgress, ...options });
  progress.done();
  const { maxContext } = engine.model;
  if (options.maxContext != null && options.maxContext > maxContext)
    process.stderr.write(dim(`--max-context ${options.maxContext}: the model's context is ${maxContext} tokens\n`));
  return engine;
}
