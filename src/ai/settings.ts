// What a Pagoda model takes beyond the AI SDK's own settings, for all its calls, or for one as `providerOptions.pagoda`.

import type { EmbedOptions, GenerateOptions, RerankOptions, TemplateOptions } from "../engine/types.js";

/** What a model takes beyond the AI SDK's own settings. */
export interface PagodaSettings
  extends Pick<
      GenerateOptions,
      | "minP"
      | "repetitionPenalty"
      | "logitBias"
      | "minTokens"
      | "ignoreEos"
      | "stopTokenIds"
      | "priority"
      | "salt"
      | "adapter"
      | "constraint"
    >,
    Pick<TemplateOptions, "templateArgs">,
    Pick<EmbedOptions, "pooling" | "dimensions" | "inputType" | "truncate">,
    Pick<RerankOptions, "instruction"> {}
