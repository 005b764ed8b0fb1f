// How an engine is made: options are checked, a model of the hub is fetched, its thread is started. What the caller's thread needs of it
// (tokenizer, templates, model files) is loaded while that thread loads its own.

import { type EngineConfig, engineConfig, namedPath } from "../../config/engine-config.js";
import type { SpeculativeConfig } from "../../config/speculation.js";
import { errorFor } from "../../core/errors.js";
import { resolveModel } from "../../formats/hub/hub.js";
import type { Engine } from "../types.js";
import { prestart } from "./host.js";
import type { RelayEngine } from "./relay.js";

/** What `createEngine` takes: any of the engine's options, and who hears how far loading is. */
export interface EngineOptions extends Partial<Omit<EngineConfig, "speculative">> {
  /** How tokens are guessed ahead; none of it changes an answer. */
  readonly speculative?: EngineConfig["speculative"] | SpeculativeConfig;
  /** Ends the loading, or the fetching before it. */
  readonly signal?: AbortSignal;
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
  const { onProgress, onPull, signal, ...rest } = options;
  const config = engineConfig(rest);
  const adapters = config.adapter.map(namedPath);
  const pulling = { onProgress: onPull, signal };
  const model = await resolveModel(config.model, pulling);
  const draftModel = config.draftModel === null ? null : await resolveModel(config.draftModel, pulling);
  if (signal?.aborted) throw errorFor("aborted");
  const placed = Object.freeze({ ...config, model, draftModel });
  const ahead = prestart(placed);
  try {
    const { HostedEngine } = await import("./hosted-engine.js");
    const engine = new HostedEngine(placed, onProgress ?? null, ahead.start);
    const cancel = (): void => void engine.close().catch(() => undefined);
    signal?.addEventListener("abort", cancel);
    try {
      await engine.ready;
      for (const { name, path } of adapters) await engine.loadAdapter(name, path);
    } catch (error) {
      await engine.close();
      throw signal?.aborted ? errorFor("aborted") : error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
    return engine;
  } catch (error) {
    ahead.abandon();
    throw error;
  }
}
