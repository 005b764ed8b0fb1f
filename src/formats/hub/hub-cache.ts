// The cache folder that all Hugging Face tools share. Finds and lists models in it; hub.ts puts them there.
//
//   HF_HUB_CACHE, or HF_HOME/hub, or ~/.cache/huggingface/hub
//     models--ORG--NAME/
//       refs/main                   the commit that the branch was at
//       snapshots/COMMIT/config.json -> ../../blobs/ETAG
//       blobs/ETAG                  the content; ETAG.incomplete while it is being fetched

import { readdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { PagodaError } from "../../core/errors.js";
import { chooseFiles, groupParts, type HubSpec, hasEyes, partsOf, quantisationOf } from "./hub-spec.js";

export type Environment = Readonly<Record<string, string | undefined>>;

export function hubCachePath(env: Environment): string {
  return env.HF_HUB_CACHE || join(hubHome(env), "hub");
}

export function hubHome(env: Environment): string {
  return env.HF_HOME || join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface");
}

export function repoFolder(cache: string, repo: string): string {
  return join(cache, `models--${repo.replaceAll("/", "--")}`);
}

/** The folder or .gguf file in the cache that the spec means, if all of it is there; else null. */
export function findInCache(spec: HubSpec, cache: string): string | null {
  const folder = repoFolder(cache, spec.repo);
  const snapshot = join(folder, "snapshots", commitOf(folder, spec.revision));
  const paths = filesUnder(snapshot);
  if (paths.length === 0) return null;
  try {
    const { files, main } = chooseFiles(spec, paths);
    if (main !== null) {
      const parts = files.filter((path) => !hasEyes(path));
      return parts.length === partsOf(main) ? join(snapshot, main) : null;
    }
    return hasAllShards(snapshot, paths) ? snapshot : null;
  } catch (error) {
    if (error instanceof PagodaError) return null;
    throw error;
  }
}

/** ORG/NAME of a snapshot in a cache; the last part of any other path. */
export function modelNameOf(path: string): string {
  const match = /models--([^/\\]+)[/\\]snapshots[/\\][^/\\]+$/.exec(path);
  return match === null ? basename(path) : match[1]!.replace("--", "/");
}

/** A model in the cache. */
export interface CachedModel {
  /** What --model accepts. */
  readonly spec: string;
  readonly kind: "safetensors" | "gguf";
  readonly bytes: number;
  readonly revision: string;
  readonly path: string;
  readonly isComplete: boolean;
}

/** Every model in the cache, GGUF files one by one. */
export function listCache(cache: string): CachedModel[] {
  const models: CachedModel[] = [];
  for (const name of namesIn(cache)) {
    if (!name.startsWith("models--")) continue;
    const repo = name.slice("models--".length).replace("--", "/");
    const folder = join(cache, name);
    const main = commitOf(folder, "main");
    for (const revision of namesIn(join(folder, "snapshots"))) {
      const snapshot = join(folder, "snapshots", revision);
      const paths = filesUnder(snapshot);
      const size = (files: readonly string[]) =>
        files.reduce((sum, file) => sum + (statSync(join(snapshot, file), { throwIfNoEntry: false })?.size ?? 0), 0);
      const at = revision === main ? "" : `@${revision}`;
      if (paths.includes("config.json")) {
        const files = paths.filter((file) => !file.endsWith(".gguf"));
        const isComplete = hasAllShards(snapshot, paths);
        const path = snapshot;
        models.push({ spec: repo + at, kind: "safetensors", bytes: size(files), revision, path, isComplete });
      }
      for (const files of groupParts(paths).values()) {
        const first = files[0]!;
        models.push({
          spec: `${repo}${at}:${quantisationOf(first) ?? first}`,
          kind: "gguf",
          bytes: size(files),
          revision,
          path: join(snapshot, first),
          isComplete: files.length === partsOf(first),
        });
      }
    }
  }
  return models.sort((a, b) => (a.spec < b.spec ? -1 : 1));
}

/** The commit a branch or tag was at when it was fetched; a commit is itself. */
function commitOf(folder: string, revision: string): string {
  try {
    const commit = readFileSync(join(folder, "refs", revision), "utf8").trim();
    return /^[0-9a-f]{40}$/.test(commit) ? commit : revision;
  } catch {
    return revision;
  }
}

/** Relative paths of the files under a folder whose content is there. */
export function filesUnder(folder: string, prefix = ""): string[] {
  const found: string[] = [];
  for (const name of namesIn(join(folder, prefix))) {
    const path = prefix === "" ? name : `${prefix}/${name}`;
    const stat = statSync(join(folder, path), { throwIfNoEntry: false });
    if (stat?.isDirectory()) found.push(...filesUnder(folder, path));
    else if (stat?.isFile()) found.push(path);
  }
  return found;
}

function hasAllShards(snapshot: string, paths: readonly string[]): boolean {
  if (!paths.includes("model.safetensors.index.json")) return paths.includes("model.safetensors");
  try {
    const index = JSON.parse(readFileSync(join(snapshot, "model.safetensors.index.json"), "utf8"));
    return Object.values(index.weight_map as Record<string, string>).every((shard) => paths.includes(shard));
  } catch {
    return false;
  }
}

export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
