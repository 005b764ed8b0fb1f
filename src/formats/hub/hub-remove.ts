// Takes a model out of the cache of the hub's tools: its links, and the content that no other link leads to.

import { realpathSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import {
  type Environment,
  filesUnder,
  findInCache,
  hubCachePath,
  listCache,
  namesIn,
  repoFolder,
} from "./hub-cache.js";
import { groupParts, parseHubSpec } from "./hub-spec.js";

/** Whether it was there. Of a repository without a further model everything goes. */
export function removeModel(model: string, env: Environment = process.env): boolean {
  const spec = parseHubSpec(model);
  const cache = hubCachePath(env);
  const path = spec === null ? null : findInCache(spec, cache);
  const found = listCache(cache).find((cached) => cached.path === path);
  if (spec === null || found === undefined) return false;
  const folder = repoFolder(cache, spec.repo);
  const snapshots = join(folder, "snapshots");
  const snapshot = join(snapshots, found.revision);
  const blobs: string[] = [];
  for (const file of filesOf(snapshot, found.kind === "gguf" ? relative(snapshot, found.path) : null)) {
    blobs.push(realpathSync(join(snapshot, file)));
    rmSync(join(snapshot, file));
  }
  const isOfRepo = ({ path }: { path: string }): boolean => !relative(snapshots, path).startsWith("..");
  if (!listCache(cache).some(isOfRepo)) {
    rmSync(folder, { recursive: true });
    return true;
  }
  const linked = new Set(
    namesIn(snapshots).flatMap((revision) =>
      filesUnder(join(snapshots, revision)).map((file) => realpathSync(join(snapshots, revision, file))),
    ),
  );
  for (const blob of blobs) if (!linked.has(blob)) rmSync(blob, { force: true });
  return true;
}

/** Of a GGUF model all parts of its file; of a folder what is not GGUF. */
function filesOf(snapshot: string, gguf: string | null): readonly string[] {
  const paths = filesUnder(snapshot);
  if (gguf === null) return paths.filter((path) => !path.endsWith(".gguf"));
  return [...groupParts(paths).values()].find(([first]) => first === gguf) ?? [];
}
