// How an engine is made: options are checked, a model of the hub is fetched, its thread is started.

import { type EngineConfig, engineConfig } from "../../config/engine-config.js";
import { resolveModel } from "../../formats/hub/hub.js";
import type { Engine } from "../types.js";
import { HostedEngine } from "./hosted-engine.js";
import type { RelayEngine } from "./relay.js";

/** What `createEngine` takes: any of the engine's options, and who hears how far loading is. */
export interface EngineOptions extends Partial<EngineConfig> {
  /** Hears how many bytes of weights are loaded. */
  readonly onProgress?: (loadedBytes: number, totalBytes: number) => void;
  /** Hears how many bytes of a model of the hub are there, when it has to be fetched first. */
  readonly onPull?: (doneBytes: number, totalBytes: number, file: string) => void;
}

/** Loads a model, pulling it from the hub where need be, and starts its engine. Options are checked before anything is loaded. */
export function createEngine(options: EngineOptions = {}): Promise<Engine> {
  return startEngine(options);
}

/** The same, as those see it who lend it to other processes. */
export async function startEngine(options: EngineOptions): Promise<RelayEngine> {
  const { onProgress, onPull, ...rest } = options;
  const config = engineConfig(rest);
  const model = await resolveModel(config.model, { onProgress: onPull });
  const engine = new HostedEngine(Object.freeze({ ...config, model }), onProgress ?? null);
  await engine.ready;
  return engine;
}
