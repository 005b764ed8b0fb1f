// Where a build may write: the package's own folder, else a folder of the user's cache named after what is built.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** Beside where the library would be: a build in the background failed, and why. */
export const FAILED = "failed";

/** The first of the folders that can be written, made where it is absent; null when none can. */
export function firstWritable(folders) {
  return folders.find(isWritable) ?? null;
}

function isWritable(folder) {
  const probe = join(folder, `.probe-${process.pid}`);
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(probe, "");
    rmSync(probe);
    return true;
  } catch {
    return false;
  }
}

/** The user's cache folder, by each system's custom. */
export function cacheFolder() {
  if (process.env.XDG_CACHE_HOME) return join(process.env.XDG_CACHE_HOME, "pagoda");
  if (process.platform === "win32") {
    return join(process.env.LOCALAPPDATA ?? join(homedir(), "AppData", "Local"), "pagoda");
  }
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches", "pagoda");
  return join(homedir(), ".cache", "pagoda");
}
