// Fetches one file of the hub to its place in the cache: continues what an earlier try left, checks the hash, renames.

import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { downloadFile, HubApiError } from "@huggingface/hub";
import { FormatError } from "../../core/errors.js";

export interface HubFile {
  readonly path: string;
  readonly size: number;
  /** sha256 of the content for LFS files, git's blob hash for others; the file's name in blobs/. */
  readonly etag: string;
  readonly isLfs: boolean;
}

interface Origin {
  readonly hubUrl: string;
  readonly accessToken?: string;
  readonly repo: string;
  readonly revision: string;
  readonly fetch: typeof fetch;
}

interface FetchOptions {
  /** Bytes of this file on disk so far. */
  readonly onProgress: (bytes: number) => void;
  readonly retryDelayMs: (attempt: number) => number;
  readonly signal: AbortSignal | undefined;
}

/** Tries in a row that bring nothing new. */
const MAX_TRIES = 4;

/** Fetches to `blob` by way of `blob`.incomplete and returns the number of bytes that came over the network. */
export async function fetchBlob(origin: Origin, file: HubFile, blob: string, options: FetchOptions): Promise<number> {
  const partial = `${blob}.incomplete`;
  let have = (await stat(partial).catch(() => null))?.size ?? 0;
  if (have > file.size) {
    await rm(partial);
    have = 0;
  }
  const before = have;
  for (let tries = 0; have < file.size; ) {
    const from = have;
    try {
      have = await append(origin, file, partial, from, options.onProgress);
    } catch (thrown) {
      const error = typeof thrown === "string" ? new Error(thrown) : thrown; // a broken stream may throw its message alone
      have = (await stat(partial).catch(() => null))?.size ?? 0;
      tries = have > from ? 0 : tries + 1;
      if (options.signal?.aborted) throw error;
      // The hub's refusals do not get better by asking again.
      if (tries >= MAX_TRIES || (error instanceof HubApiError && error.statusCode < 500) || isLocal(error)) throw error;
      await sleep(options.retryDelayMs(tries), undefined, { signal: options.signal });
    }
  }
  if (file.size === 0) await (await open(partial, "w")).close();
  const found = await hashOf(partial, file);
  if (found !== file.etag) {
    // Nothing of it can be trusted: the next try begins anew.
    await rm(partial);
    const expected = `${file.isLfs ? "sha256" : "git hash"} ${file.etag}`;
    throw new FormatError("file_corrupt", { file: file.path, what: "fetched file", expected, found });
  }
  await rename(partial, blob);
  return file.size - before;
}

/** Appends what is missing from byte `from` on; returns the file's length then. */
async function append(
  origin: Origin,
  file: HubFile,
  partial: string,
  from: number,
  onProgress: (bytes: number) => void,
): Promise<number> {
  const content = await downloadFile({ ...origin, path: file.path, fetch: rangesOf(origin.fetch) });
  if (content === null || content.size !== file.size) {
    throw new Error(`${file.path} has ${content?.size ?? "no"} bytes on the hub where its list says ${file.size}`);
  }
  const target = await open(partial, "a");
  try {
    let have = from;
    const reader = content.slice(from, file.size).stream().getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      have += value.length;
      if (have > file.size) throw new Error(`${file.path}: more bytes came than asked for`);
      await target.write(value);
      onProgress(have);
    }
    if (have < file.size) throw new Error(`${file.path}: the connection ended at byte ${have} of ${file.size}`);
    return have;
  } finally {
    await target.close();
  }
}

/** A server that answers a range with the whole file would have it appended to what is there. */
const rangesOf =
  (given: typeof fetch): typeof fetch =>
  async (input, init) => {
    const response = await given(input, init);
    const range = new Headers(init?.headers).get("range");
    if (response.status === 200 && range !== null && !range.startsWith("bytes=0-")) {
      await response.body?.cancel();
      throw new Error(`the server does not honour ${range}; remove the .incomplete file to begin anew`);
    }
    return response;
  };

async function hashOf(path: string, file: HubFile): Promise<string> {
  const hash: Hash = createHash(file.isLfs ? "sha256" : "sha1");
  if (!file.isLfs) hash.update(`blob ${file.size}\0`);
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** The disk's fault, not the network's. */
function isLocal(error: unknown): boolean {
  return ["ENOSPC", "EACCES", "EROFS", "EDQUOT", "EIO"].includes((error as NodeJS.ErrnoException).code ?? "");
}
