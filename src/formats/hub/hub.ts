// Finds the files that a --model means: a path, or a model of the hub in the shared cache. hub-pull.ts fetches what is not there.

import { existsSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { FormatError } from "../../core/errors.js";
import { type Environment, findInCache, hubCachePath } from "./hub-cache.js";
import type { PullOptions } from "./hub-pull.js";
import { groupParts, type HubSpec, parseHubSpec } from "./hub-spec.js";

/**
 * The folder or .gguf file that a --model means: a path, a hub id in the cache, or, when `canPull`, one fetched now.
 * Throws FormatError model_not_found and the hub_* errors.
 */
export async function resolveModel(model: string, options: PullOptions & { canPull?: boolean } = {}): Promise<string> {
  const found = findModel(model, options.env ?? process.env);
  if (found !== null) return found;
  const spec = requireSpec(model);
  if (options.canPull !== false && spec.repo.includes("/")) {
    const { pull } = await import("./hub-pull.js"); // the hub's library is loaded by those who need it only
    return (await pull(model, options)).path;
  }
  throw notFound(spec, options.env ?? process.env);
}

/** The same without a network, at once. */
export function locateModel(model: string, env: Environment = process.env): string {
  const found = findModel(model, env);
  if (found === null) throw notFound(requireSpec(model), env);
  return found;
}

/** The same: null when it is neither a path nor in the cache. */
export function findModel(model: string, env: Environment = process.env): string | null {
  if (existsSync(model)) return ggufInside(resolve(model));
  const spec = parseHubSpec(model);
  return spec === null ? null : findInCache(spec, hubCachePath(env));
}

/** A folder with nothing but one GGUF model stands for it. */
function ggufInside(path: string): string {
  if (!statSync(path).isDirectory() || existsSync(join(path, "config.json"))) return path;
  const models = [...groupParts(readdirSync(path)).values()];
  return models.length === 1 ? join(path, models[0]![0]!) : path;
}

export function requireSpec(model: string): HubSpec {
  const spec = parseHubSpec(model);
  if (spec !== null) return spec;
  const reason = "there is no such folder or file, and it is not a model of the hub (ORG/NAME[:FILE or QUANTISATION]).";
  throw new FormatError("model_not_found", { path: model, reason });
}

export function isOffline(env: Environment): boolean {
  return isTrue(env.HF_HUB_OFFLINE);
}

/** As Hugging Face's own tools read their variables. */
export function isTrue(value: string | undefined): boolean {
  return ["1", "true", "yes", "on"].includes((value ?? "").toLowerCase());
}

export function notFound(spec: HubSpec, env: Environment): FormatError {
  const cache = hubCachePath(env);
  const reason = isOffline(env)
    ? `it is not in the cache (${cache}) and HF_HUB_OFFLINE is set. Fetch it where there is a network, or give a folder or a .gguf file.`
    : spec.repo.includes("/")
      ? `there is no such file or folder, and it is not in the cache (${cache}). Fetch it with pagoda pull ${spec.text}, or check its name.`
      : "there is no such file or folder. Names of hub models look like ORG/NAME.";
  return new FormatError("model_not_found", { path: spec.text, reason });
}
