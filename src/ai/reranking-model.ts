// A reranking model of the AI SDK that runs here.

import type { RerankingModelV3, RerankingModelV3CallOptions } from "@ai-sdk/provider";
import type { Engine } from "../engine/types.js";
import type { PagodaSettings } from "./settings.js";

export class PagodaRerankingModel implements RerankingModelV3 {
  readonly specificationVersion = "v3";
  readonly provider = "pagoda";
  readonly modelId: string;
  // Not #private: ai 7 calls models of this specification through a Proxy, which has no private fields.
  private readonly engine: () => Promise<Engine>;
  private readonly settings: PagodaSettings;

  constructor(modelId: string, engine: () => Promise<Engine>, settings: PagodaSettings) {
    this.modelId = modelId;
    this.engine = engine;
    this.settings = settings;
  }

  async doRerank({ documents, query, topN, abortSignal }: RerankingModelV3CallOptions) {
    const engine = await this.engine();
    const { salt, truncate, instruction } = this.settings;
    const texts = documents.type === "text" ? documents.values : documents.values.map((value) => JSON.stringify(value));
    const { results } = await engine.rerank(query, texts, {
      ...(topN === undefined ? {} : { topN }),
      ...(salt === undefined ? {} : { salt }),
      ...(truncate === undefined ? {} : { truncate }),
      ...(instruction === undefined ? {} : { instruction }),
      ...(abortSignal === undefined ? {} : { signal: abortSignal }),
    });
    return { ranking: results.map(({ index, score }) => ({ index, relevanceScore: score })) };
  }
}
