// Files of models, kept in the browser's private file system (OPFS): a download that was cut short goes on where it ended, and weights are
// read from there piece by piece. Where a page is not served securely there is no such place, and bytes stay in memory. In a worker only.

import { type FileSource, inMemory } from "./node/fs.js";

const FOLDER = "pagoda-models";

export interface KeptFile extends FileSource {
  /** Lets another tab have it. */
  close(): void;
}
export type Progress = (done: number, total: number) => void;

/** What is known of a file that was begun: the server's word for its version, and whether all of it is here. */
interface Note {
  readonly version: string | null;
  readonly isWhole: boolean;
}

/** null: the server has no such file. */
export async function keepFile(url: string, onProgress: Progress): Promise<KeptFile | null> {
  const folder = await modelFolder();
  if (folder === null) return download(url, onProgress);
  const name = await nameOf(url);
  const place = await folder.getFileHandle(name, { create: true });
  let bytes: WebSyncFile;
  try {
    bytes = await place.createSyncAccessHandle();
  } catch {
    return download(url, onProgress); // another tab reads or fetches it
  }
  try {
    const note = await readNote(folder, name);
    if (!note.isWhole && !(await fill(url, bytes, folder, name, note, onProgress))) {
      bytes.close();
      await folder.removeEntry(name);
      return null;
    }
  } catch (error) {
    bytes.close();
    if ((error as Error).name === "QuotaExceededError") return download(url, onProgress); // a full disk is no reason not to run
    throw error;
  }
  return { size: bytes.getSize(), read: (to, at) => bytes.read(to, { at }), close: () => bytes.close() };
}

/** Forgets every file. */
export async function forgetFiles(): Promise<void> {
  const root = await scope.navigator.storage?.getDirectory().catch(() => null);
  await root?.removeEntry(FOLDER, { recursive: true }).catch(() => undefined);
}

const scope = globalThis as unknown as BrowserScope;

async function modelFolder(): Promise<WebFolder | null> {
  try {
    return await (await scope.navigator.storage!.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
  } catch {
    return null;
  }
}

/** Fetches what is missing. false: there is no such file. */
async function fill(
  url: string,
  to: WebSyncFile,
  folder: WebFolder,
  name: string,
  { version }: Note,
  onProgress: Progress,
): Promise<boolean> {
  let done = version === null ? 0 : to.getSize();
  let response = await fetch(url, done === 0 ? {} : { headers: { Range: `bytes=${done}-` } });
  // Another version, or a server that knows no ranges: from the beginning.
  if (done > 0 && !(response.status === 206 && versionOf(response) === version)) {
    done = 0;
    if (response.status !== 200) {
      await response.body?.cancel();
      response = await fetch(url);
    }
  }
  if (response.status === 404) return false;
  if (!response.ok || response.body === null) throw new Error(`${url}: the server answers ${response.status}`);
  to.truncate(done);
  await writeNote(folder, name, { version: versionOf(response), isWhole: false });
  const total = done + Number(response.headers.get("content-length") ?? 0);
  for (const reader = response.body.getReader(); ; ) {
    const { value } = await reader.read();
    if (value === undefined) break;
    to.write(value, { at: done });
    done += value.length;
    onProgress(done, total);
  }
  to.flush();
  await writeNote(folder, name, { version: versionOf(response), isWhole: true });
  return true;
}

async function download(url: string, onProgress: Progress): Promise<KeptFile | null> {
  const response = await fetch(url);
  if (response.status === 404) return null;
  if (!response.ok || response.body === null) throw new Error(`${url}: the server answers ${response.status}`);
  const total = Number(response.headers.get("content-length") ?? 0);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let done = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { value } = await reader.read();
    if (value === undefined) break;
    parts.push(value as Uint8Array<ArrayBuffer>);
    done += value.length;
    onProgress(done, total);
  }
  return { ...inMemory(new Uint8Array(await new Blob(parts).arrayBuffer())), close: () => undefined };
}

function versionOf(response: Response): string | null {
  return response.headers.get("etag") ?? response.headers.get("last-modified");
}

async function nameOf(url: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function readNote(folder: WebFolder, name: string): Promise<Note> {
  try {
    const file = await (await folder.getFileHandle(`${name}.json`)).getFile();
    return JSON.parse(await file.text()) as Note;
  } catch {
    return { version: null, isWhole: false };
  }
}

async function writeNote(folder: WebFolder, name: string, note: Note): Promise<void> {
  const file = await (await folder.getFileHandle(`${name}.json`, { create: true })).createSyncAccessHandle();
  const bytes = new TextEncoder().encode(JSON.stringify(note));
  file.truncate(0);
  file.write(bytes, { at: 0 });
  file.flush();
  file.close();
}
