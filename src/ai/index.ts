// `pagoda/ai`: the engine as a provider for the AI SDK, in this process, without HTTP.

export { createPagoda, type PagodaProvider, pagoda } from "./provider.js";
export type { PagodaSettings } from "./settings.js";
