// Hot prefixes across restarts (`cacheDir`): saved when the engine closes, taken up when the next one starts. One file for each
// model, device numerics and setting; a file that is torn, damaged or another's is ignored with one line.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { CacheManager } from "../../../cache/cache-manager.js";
import { ConfigError } from "../../../core/errors.js";
import { NULL_PAGE } from "../../../core/ids.js";
import type { PageBytes } from "./page-bytes.js";
import { PageFileReader, PageFileWriter } from "./page-file.js";
import { type RecordShape, recordBytes } from "./page-record.js";

const SUFFIX = ".pages";

export interface PrefixStoreOptions {
  readonly dir: string;
  /** Most bytes of the file. */
  readonly maxBytes: number;
  /** What the pages depend on beside the tokens: weights, encodings, kernels. */
  readonly key: Readonly<Record<string, unknown>>;
  readonly cache: CacheManager;
  readonly pages: PageBytes;
  readonly log: (line: string) => void;
}

export class PrefixStore {
  readonly path: string;
  readonly #options: PrefixStoreOptions;
  readonly #key: string;
  readonly #shape: RecordShape;

  constructor(options: PrefixStoreOptions) {
    const { cache, pages } = options;
    this.#options = options;
    this.#shape = { pageSize: cache.pageSize, pageBytes: pages.pageBytes };
    this.#key = JSON.stringify({ ...options.key, ...this.#shape });
    const name = createHash("sha256").update(this.#key).digest("hex").slice(0, 32);
    this.path = join(options.dir, `${name}${SUFFIX}`);
  }

  /** Fills empty pages with what the file has, the hottest first; returns how many records it took. */
  load(): number {
    const { log, dir } = this.#options;
    if (!existsSync(this.path)) {
      const others = namesIn(dir).filter((name) => name.endsWith(SUFFIX));
      if (others.length > 0) {
        log(`no cached prefixes of this model and setting in ${dir}; ignored: ${others.length} of others`);
      }
      return 0;
    }
    let numTaken = 0;
    try {
      const reader = new PageFileReader(this.path, this.#key, this.#shape);
      const { transfers } = this.#options.cache;
      const transfer = transfers.begin();
      try {
        while (numTaken < reader.numRecords && this.#take(reader, transfer)) numTaken++;
      } finally {
        transfers.end(transfer);
        reader.close();
      }
    } catch (error) {
      const rest = numTaken === 0 ? "" : ` after ${numTaken} pages`;
      log(`cached prefixes in ${this.path} are ignored${rest}: ${(error as Error).message}`);
    }
    return numTaken;
  }

  /** Writes what is cached, the hottest first, as far as it fits; nothing is under way any more. */
  save(): void {
    const { cache, dir, maxBytes, log } = this.#options;
    const transfer = cache.transfers.lend();
    try {
      const kept: { index: number; groups: boolean[] }[] = [];
      let bytes = 0;
      for (const [index, { record, pages }] of transfer.items.entries()) {
        const groups = Array.from(pages, (page) => page !== NULL_PAGE);
        const size = recordBytes(this.#shape, groups, record);
        if (bytes + size > maxBytes) break;
        bytes += size;
        kept.push({ index, groups });
      }
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      const writer = new PageFileWriter(this.path, this.#key, this.#shape, kept.length, bytes);
      try {
        for (const { index, groups } of kept) {
          const { record, pages } = transfer.items[index]!;
          writer.write(record, groups, (out, g) => this.#options.pages.read(out, g, pages[g]!));
        }
      } catch (error) {
        writer.abandon();
        throw error;
      }
      writer.commit();
    } catch (error) {
      log(`cached prefixes could not be saved to ${this.path}: ${(error as Error).message}`);
    } finally {
      cache.transfers.end(transfer);
    }
  }

  #take(reader: PageFileReader, transfer: ReturnType<CacheManager["transfers"]["begin"]>): boolean {
    const { cache } = this.#options;
    const { record, groups, pageOf } = reader.next();
    const item = cache.transfers.receive(transfer, record, groups);
    if (item === null) return false;
    for (let g = 0; g < groups.length; g++) {
      if (item.pages[g] !== NULL_PAGE) this.#options.pages.write(g, item.pages[g]!, pageOf(g));
    }
    cache.transfers.publish(item);
    return true;
  }
}

/** None where there is no directory yet: it is made when something is saved. */
function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return [];
    throw new ConfigError("invalid_option", {
      param: "cacheDir",
      value: dir,
      expected: `a directory that can be read, or none yet (${code})`,
    });
  }
}
