// The provider: models by the names that --model takes, each with an engine of its own that starts with its first call.

import {
  type EmbeddingModelV3,
  type LanguageModelV3,
  NoSuchModelError,
  type ProviderV3,
  type RerankingModelV3,
} from "@ai-sdk/provider";
import { BUNDLED_MODEL } from "../config/engine-config.js";
import { createEngine, type EngineOptions } from "../engine/client/engine.js";
import type { Engine } from "../engine/types.js";
import { PagodaEmbeddingModel } from "./embedding-model.js";
import { PagodaLanguageModel } from "./language-model.js";
import { PagodaRerankingModel } from "./reranking-model.js";
import type { PagodaSettings } from "./settings.js";

/** Models for the AI SDK, by id; engines start with their first call and run in this process. */
export interface PagodaProvider extends ProviderV3, AsyncDisposable {
  /** A folder, a .gguf file or a hub id; the bundled model when none is given. */
  (modelId?: string, settings?: PagodaSettings): LanguageModelV3;
  /** The same as calling the provider. */
  languageModel(modelId: string, settings?: PagodaSettings): LanguageModelV3;
  /** Its hidden states as vectors. */
  embeddingModel(modelId: string, settings?: PagodaSettings): EmbeddingModelV3;
  /** A reranker, or an embedding model that ranks by the angle between vectors. */
  rerankingModel(modelId: string, settings?: PagodaSettings): RerankingModelV3;
  /** Ends all engines; models made by this provider start new ones when they are used again. */
  close(): Promise<void>;
}

/** Makes a provider; `options` are those of `createEngine`, for every model of it. */
export function createPagoda(options: Omit<EngineOptions, "model"> = {}): PagodaProvider {
  const engines = new Map<string, Promise<Engine>>();
  const engineOf = (model: string) => (): Promise<Engine> => {
    let engine = engines.get(model);
    if (engine === undefined) {
      engine = createEngine({ ...options, model });
      engines.set(model, engine);
      engine.catch(() => engines.delete(model)); // the next call tries again
    }
    return engine;
  };
  const languageModel = (modelId: string = BUNDLED_MODEL, settings: PagodaSettings = {}): LanguageModelV3 =>
    new PagodaLanguageModel(modelId, engineOf(modelId), settings);
  const close = async (): Promise<void> => {
    const open = [...engines.values()];
    engines.clear();
    await Promise.all(open.map(async (engine) => (await engine.catch(() => null))?.close()));
  };
  return Object.assign(languageModel, {
    specificationVersion: "v3" as const,
    languageModel,
    embeddingModel: (modelId: string = BUNDLED_MODEL, settings: PagodaSettings = {}): EmbeddingModelV3 =>
      new PagodaEmbeddingModel(modelId, engineOf(modelId), settings),
    rerankingModel: (modelId: string, settings: PagodaSettings = {}): RerankingModelV3 =>
      new PagodaRerankingModel(modelId, engineOf(modelId), settings),
    imageModel: (modelId: string): never => {
      throw new NoSuchModelError({ modelId, modelType: "imageModel" });
    },
    close,
    [Symbol.asyncDispose]: close,
  });
}

/** The provider with the default options: `generateText({ model: pagoda(), prompt })`. */
export const pagoda = createPagoda();
