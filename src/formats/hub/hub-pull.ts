// Gets models from the Hugging Face hub into the cache that its tools share.
//
// A file is fetched into blobs/ETAG.incomplete, continued there after any interruption, checked against the hub's hash, and only
// then renamed and linked into its snapshot: what the cache shows is whole. Respects HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE.

import { existsSync, statfsSync, statSync } from "node:fs";
import { copyFile, mkdir, symlink, unlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { HubApiError, type ListFileEntry, listFiles, modelInfo } from "@huggingface/hub";
import { ConfigError, errorFor, FormatError, PagodaError } from "../../core/errors.js";
import { withLock } from "./file-lock.js";
import { isOffline, notFound, requireSpec } from "./hub.js";
import { type Environment, hubCachePath, repoFolder } from "./hub-cache.js";
import { fetchBlob, type HubFile } from "./hub-fetch.js";
import { chooseFiles, HUB_URL, type HubSpec } from "./hub-spec.js";
import { hubToken } from "./hub-token.js";

/** How a model is fetched. */
export interface PullOptions {
  /** @internal */
  readonly env?: Environment;
  /** Bytes of all files: there already or fetched so far, and in total. */
  readonly onProgress?: ((doneBytes: number, totalBytes: number, file: string) => void) | undefined;
  /** Ends the fetch; what came stays, and is continued by the next one. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Before the n-th try to continue a broken fetch.
   * @internal
   */
  readonly retryDelayMs?: (attempt: number) => number;
}

/** What `pullModel` gives. */
export interface Pulled {
  /** The folder or the .gguf file to open. */
  readonly path: string;
  readonly revision: string;
  readonly files: readonly string[];
  readonly totalBytes: number;
  /** What had to be fetched; 0: all was there. */
  readonly fetchedBytes: number;
}

/** Fetches the files of a model that are not in the cache yet. */
export async function pull(model: string, options: PullOptions = {}): Promise<Pulled> {
  const env = options.env ?? process.env;
  const spec = requireSpec(model);
  if (isOffline(env)) throw notFound(spec, env);
  const { signal } = options;
  const hub = connect(env, signal);
  const cache = hubCachePath(env);
  try {
    const { revision, files, main, wanted } = await filesOf(spec, hub);
    const folder = repoFolder(cache, spec.repo);
    const snapshot = join(folder, "snapshots", revision);
    await mkdir(join(folder, "blobs"), { recursive: true });
    const totalBytes = bytesOf(wanted);
    let doneBytes = 0;
    let fetchedBytes = 0;
    checkSpace(spec, folder, wanted);
    for (const file of wanted) {
      if (signal?.aborted) throw errorFor("aborted");
      const blob = join(folder, "blobs", file.etag);
      const fetch = () =>
        fetchBlob({ ...hub, repo: spec.repo, revision }, file, blob, {
          retryDelayMs: options.retryDelayMs ?? ((attempt) => 1000 * 2 ** attempt),
          signal,
          onProgress: (bytes) => options.onProgress?.(doneBytes + bytes, totalBytes, file.path),
        });
      if (!existsSync(blob)) {
        // Another pull may be at it, and done with it by the time we may look again.
        fetchedBytes += await withLock(`${blob}.lock`, async () => (existsSync(blob) ? 0 : await fetch()));
      }
      await link(blob, join(snapshot, file.path));
      doneBytes += file.size;
      options.onProgress?.(doneBytes, totalBytes, file.path);
    }
    if (spec.revision !== revision) {
      const ref = join(folder, "refs", spec.revision);
      await mkdir(dirname(ref), { recursive: true });
      await writeFile(ref, revision);
    }
    return { path: main === null ? snapshot : join(snapshot, main), revision, files, totalBytes, fetchedBytes };
  } catch (error) {
    if (signal?.aborted) throw errorFor("aborted");
    throw explained(error, spec, hub.hubUrl);
  }
}

/** Bytes that a pull of the model fetches where nothing of it is there. */
export async function sizeOf(model: string, env: Environment, signal: AbortSignal): Promise<number> {
  const spec = requireSpec(model);
  const hub = connect(env, signal);
  try {
    const { wanted } = await filesOf(spec, hub);
    return bytesOf(wanted);
  } catch (error) {
    throw explained(error, spec, hub.hubUrl);
  }
}

interface Hub {
  readonly hubUrl: string;
  readonly accessToken?: string;
  readonly fetch: typeof fetch;
}

/** What the hub has of a model now, and which of its files are to be had. */
async function filesOf(spec: HubSpec, hub: Hub) {
  const { sha: revision } = await modelInfo({
    ...hub,
    name: spec.repo,
    revision: spec.revision,
    additionalFields: ["sha"],
  });
  if (!/^[0-9a-f]{40}$/.test(revision)) throw nonsense(spec, "commit", revision);
  const entries = new Map<string, HubFile>();
  for await (const entry of listFiles({ ...hub, repo: spec.repo, revision, recursive: true })) {
    if (entry.type === "file") entries.set(entry.path, checkedEntry(spec, entry));
  }
  const { files, main } = chooseFiles(spec, [...entries.keys()]);
  return { revision, files, main, wanted: files.map((file) => entries.get(file)!) };
}

function bytesOf(files: readonly HubFile[]): number {
  return files.reduce((sum, file) => sum + file.size, 0);
}

function connect(env: Environment, signal: AbortSignal | undefined): Hub {
  const hubUrl = (env.HF_ENDPOINT || HUB_URL).replace(/\/+$/, "");
  if (!/^https?:\/\/[^/]/.test(hubUrl)) {
    throw new ConfigError("invalid_option", {
      param: "HF_ENDPOINT",
      value: hubUrl,
      expected: "an http or https address",
    });
  }
  const hub: Hub = { hubUrl, fetch: (url, init) => fetch(url, signal === undefined ? init : { ...init, signal }) };
  const accessToken = hubToken(env, hubUrl);
  return accessToken === null ? hub : { ...hub, accessToken };
}

/** Names and hashes become paths of the cache: nothing else may get there. */
function checkedEntry(spec: HubSpec, entry: ListFileEntry): HubFile {
  const { path, size } = entry;
  const parts = path.split("/");
  if (path.length > 1000 || /[\\\0]/.test(path) || parts.some((part) => part === "" || part === "." || part === "..")) {
    throw nonsense(spec, "file name", path);
  }
  const sha256 = entry.lfs?.oid ?? null;
  const etag = sha256 ?? entry.oid ?? "";
  if (!/^[0-9a-f]{40}([0-9a-f]{24})?$/.test(etag)) throw nonsense(spec, `hash of ${path}`, etag);
  const bytes = entry.lfs?.size ?? size;
  if (!Number.isSafeInteger(bytes) || bytes < 0) throw nonsense(spec, `size of ${path}`, String(bytes));
  return { path, size: bytes, etag, isLfs: sha256 !== null };
}

function checkSpace(spec: HubSpec, folder: string, files: readonly HubFile[]): void {
  let needed = 0;
  for (const { etag, size } of files) {
    if (existsSync(join(folder, "blobs", etag))) continue;
    const partial = statSync(join(folder, "blobs", `${etag}.incomplete`), { throwIfNoEntry: false });
    needed += Math.max(0, size - (partial?.size ?? 0));
  }
  const { bavail, bsize } = statfsSync(folder);
  if (needed <= bavail * bsize) return;
  const reason = `it needs ${needed} bytes in ${folder}, where ${bavail * bsize} are free`;
  throw new FormatError("pull_failed", { model: spec.text, reason });
}

/** A link as the other tools make it; a copy where the file system has none. */
async function link(blob: string, path: string): Promise<void> {
  if (existsSync(path)) return;
  await mkdir(dirname(path), { recursive: true });
  await unlink(path).catch(() => undefined); // a dangling link
  try {
    await symlink(relative(dirname(path), blob), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error;
    await copyFile(blob, path);
  }
}

function nonsense(spec: HubSpec, what: string, found: string): FormatError {
  const reason = `the hub gave ${found.slice(0, 100)} as ${what}`;
  return new FormatError("pull_failed", { model: spec.text, reason });
}

/** Whatever went wrong, in terms of what the user can do about it. */
function explained(error: unknown, spec: HubSpec, endpoint: string): unknown {
  if (error instanceof PagodaError) return error;
  if (error instanceof HubApiError) {
    const { statusCode: status } = error;
    if (status === 401 || status === 403) return new FormatError("hub_denied", { model: spec.text, status });
    if (status === 404) {
      const reason = `${endpoint} has no model ${spec.repo} at ${spec.revision}.`;
      return new FormatError("model_not_found", { path: spec.text, reason });
    }
    return new FormatError("hub_unreachable", { model: spec.text, endpoint, reason: `status ${status}` });
  }
  const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
  if (error instanceof TypeError && error.message === "fetch failed") {
    return new FormatError("hub_unreachable", { model: spec.text, endpoint, reason: cause?.code ?? String(cause) });
  }
  return new FormatError("pull_failed", { model: spec.text, reason: (error as Error).message }, { cause: error });
}
