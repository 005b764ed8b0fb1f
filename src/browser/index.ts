// `pagoda/browser`: the engine in a tab, with no server. The same API, config and answers as in Node; the engine runs in a worker, on
// WebGPU where there is a GPU, else on the wasm device.

import "./node/buffer.js";
import { type EngineConfig, engineConfig } from "../config/engine-config.js";
import { errorFor } from "../core/errors.js";
import type { EngineHost } from "../engine/client/host.js";
import { HostedEngine } from "../engine/client/hosted-engine.js";
import type { FromEngine } from "../engine/messages.js";
import type { Engine } from "../engine/types.js";
import type { BrowserMessage, BrowserStart } from "./engine-worker.js";
import { forgetFiles } from "./kept-files.js";
import type { FetchProgress } from "./model-files.js";
import { inMemory, writeFileSync } from "./node/fs.js";

export type * from "../engine/types.js";
/** Forgets every model that was kept. */
export { forgetFiles as deleteModels };

export interface BrowserEngineOptions extends Partial<Omit<EngineConfig, "model" | "device" | "worker" | "cacheDir">> {
  /**
   * The URL of a folder with safetensors, tokenizer and configs, or of a GGUF file; relative ones begin with "/" or ".". Or a model of the hub:
   * ORG/NAME[@REVISION][:FILE or QUANTISATION].
   */
  readonly model: string;
  /** Another hub than Hugging Face's. */
  readonly hub?: string;
  /** auto: WebGPU where the browser has it on a GPU, else wasm. Default: auto. */
  readonly device?: "auto" | "webgpu" | "wasm";
  readonly onFetch?: FetchProgress;
  /** Hears how many bytes of weights are loaded. */
  readonly onProgress?: (loadedBytes: number, totalBytes: number) => void;
}

/** Fetches the model, or takes it from the browser's storage, and starts its engine. */
export async function createEngine({
  onFetch,
  onProgress,
  device = "auto",
  hub = "",
  ...options
}: BrowserEngineOptions): Promise<Engine> {
  const asked = engineConfig({ ...options, device, worker: true });
  let config = asked;
  const { Worker } = globalThis as unknown as BrowserScope;
  const worker = new Worker(new URL("./engine-worker.js", import.meta.url), { type: "module" });
  const early: FromEngine[] = [];
  let listener: (message: FromEngine) => void = (message) => early.push(message);
  await new Promise<void>((resolve, reject) => {
    worker.onerror = ({ message }) => reject(errorFor("engine_dead", { reason: message }));
    worker.onmessage = ({ data }) => {
      const message = data as BrowserMessage | FromEngine;
      if (message.type === "fetch") onFetch?.(message.file, message.done, message.total);
      else if (message.type === "files") {
        for (const { path, bytes, size } of message.files) writeFileSync(path, inMemory(bytes, size));
        config = { ...asked, model: message.path };
        resolve();
      } else if (message.type === "dead" && early.length === 0) {
        reject(errorFor(message.error.code, message.error.details));
        listener(message);
      } else listener(message);
    };
    worker.postMessage({
      base: (globalThis as unknown as BrowserScope).location.href,
      hub,
      config: asked,
    } satisfies BrowserStart);
  });
  const host: EngineHost = {
    post: (message) => worker.postMessage(message),
    close: async () => worker.terminate(),
  };
  const engine = new HostedEngine(config, onProgress ?? null, (_config, hear) => {
    listener = hear;
    for (const message of early.splice(0)) hear(message);
    return host;
  });
  await engine.ready;
  return engine;
}
