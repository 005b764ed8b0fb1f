// Cached prefixes between machines: the pages of a prompt lent as bytes, and taken up elsewhere. Who takes checks every record: its checksum,
// that its identity is that of its tokens and media, and, when a request finds it, that the tokens are the request's.

import type { CacheManager } from "../../../cache/cache-manager.js";
import type { PageTransfer } from "../../../cache/page-transfer.js";
import { NULL_PAGE } from "../../../core/ids.js";
import { type MediumSpan, NO_MEDIA } from "../../../core/media.js";
import type { PageBytes } from "./page-bytes.js";
import { decodeRecord, encodeRecord, type ReadRecord, type RecordShape, recordBytes } from "./page-record.js";

/** How much of a prefix was taken up, and what was wrong with the rest. */
export interface PagesTaken {
  readonly numTaken: number;
  readonly reason: string | null;
}

export class PageExchange {
  readonly #cache: CacheManager;
  readonly #pages: PageBytes;
  readonly #shape: RecordShape;

  constructor(cache: CacheManager, pages: PageBytes) {
    this.#cache = cache;
    this.#pages = pages;
    this.#shape = { pageSize: cache.pageSize, pageBytes: pages.pageBytes };
  }

  /**
   * Records of the pages of the prompt that are cached here, from page `from` on, at most so many bytes. No prompt: of whatever is
   * hottest.
   */
  lend(
    prompt: Int32Array,
    salt: string,
    from: number,
    maxBytes: number,
    media: readonly MediumSpan[] = NO_MEDIA,
  ): Uint8Array {
    const { transfers } = this.#cache;
    const transfer = prompt.length === 0 ? transfers.lend() : transfers.lendPrefix(prompt, salt, media);
    try {
      const records: Buffer[] = [];
      let bytes = 0;
      for (const { record, pages } of transfer.items.slice(from)) {
        const groups = Array.from(pages, (page) => page !== NULL_PAGE);
        bytes += recordBytes(this.#shape, groups, record);
        if (bytes > maxBytes) break;
        records.push(encodeRecord(this.#shape, record, groups, (out, g) => this.#pages.read(out, g, pages[g]!)));
      }
      return Buffer.concat(records);
    } finally {
      transfers.end(transfer);
    }
  }

  /** Takes up records of the prompt's pages; colder prefixes make room. What is damaged, and all after it, is left out. */
  take(prompt: Int32Array, salt: string, bytes: Uint8Array, media: readonly MediumSpan[] = NO_MEDIA): PagesTaken {
    const { transfers } = this.#cache;
    const transfer = transfers.lendPrefix(prompt, salt, media); // what is here of it stays meanwhile
    const here = new Set(transfer.items.map(({ record }) => record.hash.join()));
    let rest = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let numTaken = 0;
    try {
      while (rest.length > 0) {
        const read = decodeRecord(this.#shape, rest);
        if (!here.has(read.record.hash.join())) {
          if (!this.#takeOne(transfer, read))
            return { numTaken, reason: "there is no room for more, or its name is false" };
          numTaken++;
        }
        rest = rest.subarray(read.byteLength);
      }
      return { numTaken, reason: null };
    } catch (error) {
      return { numTaken, reason: (error as Error).message };
    } finally {
      transfers.end(transfer);
    }
  }

  #takeOne(transfer: PageTransfer, { record, groups, pageOf }: ReadRecord): boolean {
    const { transfers } = this.#cache;
    const item = transfers.receive(transfer, record, groups, true);
    if (item === null) return false;
    for (let g = 0; g < groups.length; g++)
      if (item.pages[g] !== NULL_PAGE) this.#pages.write(g, item.pages[g]!, pageOf(g));
    transfers.publish(item);
    return true;
  }
}
