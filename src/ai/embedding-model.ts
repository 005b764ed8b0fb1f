// An embedding model of the AI SDK that runs here. Vectors have length 1.

import type { EmbeddingModelV3, EmbeddingModelV3CallOptions, EmbeddingModelV3Result } from "@ai-sdk/provider";
import type { Engine } from "../engine/types.js";
import type { PagodaSettings } from "./settings.js";

export class PagodaEmbeddingModel implements EmbeddingModelV3 {
  readonly specificationVersion = "v3";
  readonly provider = "pagoda";
  readonly modelId: string;
  readonly maxEmbeddingsPerCall = 2048;
  readonly supportsParallelCalls = true;
  // Not #private: ai 7 calls models of this specification through a Proxy, which has no private fields.
  private readonly engine: () => Promise<Engine>;
  private readonly settings: PagodaSettings;

  constructor(modelId: string, engine: () => Promise<Engine>, settings: PagodaSettings) {
    this.modelId = modelId;
    this.engine = engine;
    this.settings = settings;
  }

  async doEmbed({ values, abortSignal }: EmbeddingModelV3CallOptions): Promise<EmbeddingModelV3Result> {
    const engine = await this.engine();
    const { pooling, salt, dimensions, inputType, truncate } = this.settings;
    const { vectors, promptTokens } = await engine.embed(values, {
      normalize: true,
      ...(dimensions === undefined ? {} : { dimensions }),
      ...(inputType === undefined ? {} : { inputType }),
      ...(truncate === undefined ? {} : { truncate }),
      ...(pooling === undefined ? {} : { pooling }),
      ...(salt === undefined ? {} : { salt }),
      ...(abortSignal === undefined ? {} : { signal: abortSignal }),
    });
    const embeddings = vectors.map((vector) => [...vector]);
    return { embeddings, usage: { tokens: promptTokens }, warnings: [] };
  }
}
