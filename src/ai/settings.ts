// What a Pagoda model takes beyond the AI SDK's own settings, for all its calls, or for one as `providerOptions.pagoda`.

import type { GenerateOptions, TemplateOptions } from "../engine/types.js";

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
      | "constraint"
    >,
    Pick<TemplateOptions, "templateArgs"> {
  /** Of embeddings: which hidden states make the vector. */
  readonly pooling?: "last" | "mean";
}
