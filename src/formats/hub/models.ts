// Models of the hub, for programs: `pullModel` and `listModels`.

import { type CachedModel, hubCachePath, listCache } from "./hub-cache.js";
import type { Pulled, PullOptions } from "./hub-pull.js";

/** Fetches a model of the hub, ORG/NAME[@REVISION][:FILE or QUANTISATION], into the cache that Hugging Face tools share; what is there stays. */
export async function pullModel(
  model: string,
  options: Pick<PullOptions, "onProgress" | "signal"> = {},
): Promise<Pulled> {
  const { pull } = await import("./hub-pull.js"); // the hub's library is loaded by those who need it only
  return pull(model, options);
}

/** The models in that cache, GGUF files one by one. `createEngine` takes their `spec` or `path` as `model`. */
export function listModels(): readonly CachedModel[] {
  return listCache(hubCachePath(process.env));
}
