// Files of clients in one folder, each with a note of whose it is: what batches read, and what they gave.
//
//   FOLDER/file-ID.json     the note, written last: what has none is no file
//   FOLDER/file-ID.jsonl    the content

import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { ApiError } from "../http/api-error.js";
import type { Tenant } from "../http/auth.js";

export interface StoredFile {
  readonly id: string;
  readonly filename: string;
  readonly purpose: string;
  readonly bytes: number;
  readonly created_at: number;
  /** Salt of whose it is. */
  readonly owner: string;
}

const FILE_ID = /^file-[0-9a-f]{32}$/;
/** What a file takes at least: its note, and a block of the disk. So many empty files have an end too. */
const LEAST_BYTES = 16 * 1024;

export class FileStore {
  readonly #folder: string;
  readonly #maxBytes: number;
  readonly #files = new Map<string, StoredFile>(); // oldest first
  /** By files, and by those that are on their way. */
  #bytesTaken = 0;

  constructor(folder: string, maxBytes: number) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const names = readdirSync(folder);
    const notes = names.filter((name) => name.endsWith(".json") && FILE_ID.test(name.slice(0, -5)));
    const files = notes.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as StoredFile);
    for (const file of files.sort((a, b) => a.created_at - b.created_at)) this.#keep(file);
    // Of uploads that did not end.
    for (const name of names)
      if (name.endsWith(".jsonl") && !this.#files.has(name.slice(0, -6))) rmSync(join(folder, name), { force: true });
  }

  static newId(): string {
    return `file-${randomUUID().replaceAll("-", "")}`;
  }

  pathOf(id: string): string {
    return join(this.#folder, `${id}.jsonl`);
  }

  #take(bytes: number): void {
    this.#bytesTaken += bytes;
    if (this.#bytesTaken > this.#maxBytes)
      throw new ApiError("files_full", "There is no room for the file: delete others, or raise batchDiskMb.");
  }

  list({ salt }: Tenant): StoredFile[] {
    return [...this.#files.values()].filter(({ owner }) => owner === salt);
  }

  /** null: it is not there, or another tenant's. */
  get({ salt }: Tenant, id: string): StoredFile | null {
    const file = this.#files.get(id);
    return file !== undefined && file.owner === salt ? file : null;
  }

  /** `fill` writes the content; what it throws leaves nothing behind. */
  async add(
    { salt }: Tenant,
    fill: (write: (bytes: Uint8Array) => Promise<void>) => Promise<Pick<StoredFile, "filename" | "purpose">>,
  ): Promise<StoredFile> {
    const id = FileStore.newId();
    const path = this.pathOf(id);
    let bytes = 0;
    let taken = 0;
    const take = (more: number): void => {
      taken += more;
      this.#take(more);
    };
    const handle = await open(path, "wx", 0o600);
    try {
      take(LEAST_BYTES);
      const about = await fill(async (piece) => {
        take(piece.length);
        bytes += piece.length;
        await handle.write(piece);
      });
      await handle.close();
      return this.#note({ id, ...about, bytes, owner: salt });
    } catch (error) {
      await handle.close().catch(() => undefined);
      rmSync(path, { force: true });
      throw error;
    } finally {
      this.#bytesTaken -= taken; // a file that is noted counts by itself
    }
  }

  /** A file that was written elsewhere becomes one of these. */
  adopt(path: string, file: Pick<StoredFile, "filename" | "purpose" | "owner">): StoredFile {
    const id = FileStore.newId();
    renameSync(path, this.pathOf(id));
    return this.#note({ id, ...file, bytes: statSync(this.pathOf(id)).size });
  }

  remove(tenant: Tenant, id: string): boolean {
    const file = this.get(tenant, id);
    if (file === null) return false;
    this.#files.delete(id);
    this.#bytesTaken -= LEAST_BYTES + file.bytes;
    rmSync(join(this.#folder, `${id}.json`), { force: true });
    rmSync(this.pathOf(id), { force: true });
    return true;
  }

  #note(file: Omit<StoredFile, "created_at">): StoredFile {
    const noted = { ...file, created_at: Math.floor(Date.now() / 1000) };
    writeWhole(join(this.#folder, `${file.id}.json`), JSON.stringify(noted));
    this.#keep(noted);
    return noted;
  }

  #keep(file: StoredFile): void {
    this.#files.set(file.id, file);
    this.#bytesTaken += LEAST_BYTES + file.bytes;
  }
}

/** As it was or as it is to be, whenever the machine stops. */
export function writeWhole(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
