// The engine's thread in a browser: fetches the model, gives the small files to the page for its tokenizer, loads, serves messages.

import "./node/buffer.js";
import type { EngineConfig } from "../config/engine-config.js";
import { EngineDriver } from "../engine/core/driver.js";
import { loadEngine } from "../engine/core/load/load.js";
import { type FromEngine, type ToEngine, toWire } from "../engine/messages.js";
import { openDevice } from "./devices.js";
import { fetchModel } from "./model-files.js";
import { writeFileSync } from "./node/fs.js";

/** What the page says first, and hears before the engine's own messages. */
export interface BrowserStart {
  readonly url: string;
  readonly config: EngineConfig;
}
export type BrowserMessage =
  | { readonly type: "fetch"; readonly file: string; readonly done: number; readonly total: number }
  | { readonly type: "files"; readonly files: readonly [string, Uint8Array][] };

const WEIGHTS = /\.safetensors$/;
const scope = globalThis as unknown as WorkerScope;
const send = (message: FromEngine | BrowserMessage): void => scope.postMessage(message);
let driver: EngineDriver | null = null;

scope.onmessage = ({ data }) => {
  if (driver === null) void start(data as BrowserStart);
  else driver.handle(data as ToEngine);
};

async function start({ url, config }: BrowserStart): Promise<void> {
  try {
    const files = await fetchModel(url, (file, done, total) => send({ type: "fetch", file, done, total }));
    for (const [name, bytes] of files) writeFileSync(`${config.model}/${name}`, bytes);
    send({ type: "files", files: [...files].filter(([name]) => !WEIGHTS.test(name)) });
    const onProgress = (loadedBytes: number, totalBytes: number) => send({ type: "progress", loadedBytes, totalBytes });
    const engine = await loadEngine(config, onProgress, openDevice);
    for (const name of files.keys()) {
      if (WEIGHTS.test(name)) writeFileSync(`${config.model}/${name}`, new Uint8Array(0)); // packed: no longer needed
    }
    driver = new EngineDriver(engine, send);
    send({ type: "ready", facts: engine.facts });
  } catch (error) {
    send({ type: "dead", error: toWire(error, "engine_dead") });
  }
}
