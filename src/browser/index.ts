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
import { deleteModels, type FetchProgress } from "./model-files.js";
import { writeFileSync } from "./node/fs.js";

export type * from "../engine/types.js";
export { deleteModels };

export interface BrowserEngineOptions extends Partial<Omit<EngineConfig, "model" | "device" | "worker" | "cacheDir">> {
  /** Where the model's folder is: safetensors, tokenizer and configs under it. */
  readonly model: string;
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
  ...options
}: BrowserEngineOptions): Promise<Engine> {
  const url = new URL(options.model, (globalThis as unknown as BrowserScope).location.href).href;
  const path = `/models/${new URL(url).pathname.replace(/\/$/, "").split("/").at(-1) ?? "model"}`;
  const config = engineConfig({ ...options, model: path, device, worker: true });
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
        for (const [name, bytes] of message.files) writeFileSync(`${path}/${name}`, bytes);
        resolve();
      } else if (message.type === "dead" && early.length === 0) {
        reject(errorFor(message.error.code, message.error.details));
        listener(message);
      } else listener(message);
    };
    worker.postMessage({ url, config } satisfies BrowserStart);
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
