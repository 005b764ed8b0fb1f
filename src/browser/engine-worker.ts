// The engine's thread in a browser: fetches the model, gives the page what its tokenizer reads, loads, serves messages.

import "./node/buffer.js";
import type { EngineConfig } from "../config/engine-config.js";
import { EngineDriver } from "../engine/core/driver.js";
import { loadEngine } from "../engine/core/load/load.js";
import { type FromEngine, type ToEngine, toWire } from "../engine/messages.js";
import { openGguf } from "../formats/gguf/gguf.js";
import { openDevice } from "./devices.js";
import { type FetchedModel, fetchModel } from "./model-files.js";
import { type FileSource, writeFileSync } from "./node/fs.js";

/** What the page says first, and hears before the engine's own messages. */
export interface BrowserStart {
  readonly base: string;
  readonly hub: string;
  /** `model` as the page names it. */
  readonly config: EngineConfig;
}
export type BrowserMessage =
  | { readonly type: "fetch"; readonly file: string; readonly done: number; readonly total: number }
  /** What the tokenizer reads of the model at `path`: the first bytes of files of that size. */
  | { readonly type: "files"; readonly path: string; readonly files: readonly PartOfFile[] };
export interface PartOfFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly size: number;
}

const WEIGHTS = /\.safetensors$/;
const GGUF = /\.gguf$/;
const scope = globalThis as unknown as WorkerScope;
const send = (message: FromEngine | BrowserMessage): void => scope.postMessage(message);
let driver: EngineDriver | null = null;

scope.onmessage = ({ data }) => {
  if (driver === null) void start(data as BrowserStart);
  else driver.handle(data as ToEngine);
};

async function start({ base, hub, config }: BrowserStart): Promise<void> {
  let fetched: FetchedModel | null = null;
  try {
    fetched = await fetchModel(config.model, base, hub, (file, done, total) =>
      send({ type: "fetch", file, done, total }),
    );
    const folder = `/models/${fetched.name}`;
    for (const [name, file] of fetched.files) writeFileSync(`${folder}/${name}`, file);
    const path = fetched.main === null ? folder : `${folder}/${fetched.main}`;
    send({ type: "files", path, files: forTokenizer(folder, fetched) });
    const onProgress = (loadedBytes: number, totalBytes: number) => send({ type: "progress", loadedBytes, totalBytes });
    const engine = await loadEngine({ ...config, model: path }, onProgress, openDevice);
    for (const [name] of fetched.files) {
      if (WEIGHTS.test(name) || GGUF.test(name)) writeFileSync(`${folder}/${name}`, new Uint8Array(0)); // packed: no longer needed
    }
    driver = new EngineDriver(engine, send);
    send({ type: "ready", facts: engine.facts });
  } catch (error) {
    send({ type: "dead", error: toWire(error, "engine_dead") });
  } finally {
    for (const file of fetched?.files.values() ?? []) file.close();
  }
}

/** Small files whole, GGUF files up to their first tensor. */
function forTokenizer(folder: string, { files, main }: FetchedModel): PartOfFile[] {
  const read = (path: string, file: FileSource, length: number): PartOfFile => {
    const bytes = new Uint8Array(length);
    file.read(bytes, 0);
    return { path, bytes, size: file.size };
  };
  const source = main === null ? null : openGguf(`${folder}/${main}`).source;
  const places = source === null ? [] : [...source.names()].map((name) => source.get(name).file!);
  source?.close();
  return [...files].flatMap(([name, file]) => {
    const path = `${folder}/${name}`;
    if (WEIGHTS.test(name)) return [];
    const starts = places.filter((place) => place.path === path).map(({ offset }) => offset);
    return [read(path, file, Math.min(file.size, ...starts))];
  });
}
