// Cached prefixes as a file. Every record is a page boundary with its identity, its tokens and the bytes of its page in each cache
// group, and carries its own checksum.
//
//   "PGDPAGES" | u32 length of the header | header: JSON { key, bytes, numRecords } | records
//   record = identity 16 | identity of the page before 16 | root 4 | bit g: group g has a page 4 | tokens 4 P | pages | checksum 16
//
// `key` says whose pages these are. All integers are little-endian; a machine that is not cannot use the pages either.

import { createHash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import type { PageRecord } from "../../cache/page-transfer.js";

const MAGIC = "PGDPAGES";
const CHECKSUM_BYTES = 16;
const MAX_HEADER = 2 ** 20;

/** The shape of a file's records. */
export interface RecordShape {
  readonly pageSize: number; // P
  /** Bytes of one page in each group. */
  readonly pageBytes: readonly number[]; // [G]
}

/** Bytes of a record that has pages in these groups. */
export function recordBytes({ pageSize, pageBytes }: RecordShape, groups: readonly boolean[]): number {
  const pages = pageBytes.reduce((sum, bytes, g) => sum + (groups[g] ? bytes : 0), 0);
  return headBytes(pageSize) + pages + CHECKSUM_BYTES;
}

function headBytes(pageSize: number): number {
  return 40 + 4 * pageSize;
}

/** Writes beside the file and takes its place when everything is on disk: a file that is there is whole. */
export class PageFileWriter {
  readonly #path: string;
  readonly #temporary: string;
  readonly #file: number;
  readonly #shape: RecordShape;

  constructor(path: string, key: string, shape: RecordShape, records: readonly (readonly boolean[])[]) {
    this.#path = path;
    this.#temporary = `${path}.${process.pid}.tmp`;
    this.#shape = shape;
    const numRecords = records.length;
    const content = records.reduce((sum, groups) => sum + recordBytes(shape, groups), 0);
    const header = Buffer.from(JSON.stringify({ key, bytes: content, numRecords }));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(header.length);
    this.#file = openSync(this.#temporary, "w", 0o600);
    writeAll(this.#file, Buffer.concat([Buffer.from(MAGIC), length, header]));
  }

  /** `readPage` fills the bytes of the record's page in group g. */
  write(record: PageRecord, groups: readonly boolean[], readPage: (out: Uint8Array, g: number) => void): void {
    const { pageSize, pageBytes } = this.#shape;
    const bytes = Buffer.alloc(recordBytes(this.#shape, groups));
    bytes.set(bytesOf(record.hash), 0);
    bytes.set(bytesOf(record.parent), 16);
    bytes.writeInt32LE(record.root, 32);
    bytes.writeUInt32LE(
      groups.reduce((mask, has, g) => mask + (has ? 2 ** g : 0), 0),
      36,
    );
    bytes.set(bytesOf(record.tokens), 40);
    let at = headBytes(pageSize);
    for (let g = 0; g < groups.length; g++) {
      if (!groups[g]) continue;
      readPage(bytes.subarray(at, at + pageBytes[g]!), g);
      at += pageBytes[g]!;
    }
    bytes.set(checksum(bytes.subarray(0, at)), at);
    writeAll(this.#file, bytes);
  }

  commit(): void {
    fsyncSync(this.#file);
    closeSync(this.#file);
    renameSync(this.#temporary, this.#path);
  }

  abandon(): void {
    closeSync(this.#file);
    rmSync(this.#temporary, { force: true });
  }
}

/** A record as it was read; the pages' bytes are valid until the next one is. */
export interface ReadRecord {
  readonly record: PageRecord;
  readonly groups: readonly boolean[]; // [G]
  pageOf(g: number): Uint8Array;
}

/** Throws an Error that says why the file cannot be used: not ours, of another key, cut off, damaged. */
export class PageFileReader {
  readonly numRecords: number;
  readonly #file: number;
  readonly #shape: RecordShape;
  #at: number;

  constructor(path: string, key: string, shape: RecordShape) {
    this.#shape = shape;
    this.#file = openSync(path, "r");
    try {
      const prefix = this.#read(0, MAGIC.length + 4);
      const length = prefix.length === MAGIC.length + 4 ? prefix.readUInt32LE(MAGIC.length) : 0;
      if (prefix.toString("latin1", 0, MAGIC.length) !== MAGIC || length > MAX_HEADER) {
        throw new Error("it is not a file of cached pages");
      }
      this.#at = prefix.length + length;
      const header = JSON.parse(this.#read(prefix.length, length).toString()) as Record<string, unknown>;
      if (header.key !== key) throw new Error("it holds the pages of another model, device or setting");
      const found = fstatSync(this.#file).size;
      const expected = this.#at + Number(header.bytes);
      if (found !== expected) throw new Error(`it is cut off: ${found} of ${expected} bytes`);
      this.numRecords = Number(header.numRecords);
    } catch (error) {
      closeSync(this.#file);
      throw error instanceof SyntaxError ? new Error("its header is damaged") : error;
    }
  }

  next(): ReadRecord {
    const { pageSize, pageBytes } = this.#shape;
    const head = this.#read(this.#at, headBytes(pageSize));
    if (head.length < headBytes(pageSize)) throw new Error("a record is cut off");
    const mask = head.readUInt32LE(36);
    const groups = pageBytes.map((_, g) => Math.floor(mask / 2 ** g) % 2 === 1);
    const size = recordBytes(this.#shape, groups);
    const bytes = this.#read(this.#at, size);
    if (bytes.length < size) throw new Error("a record is cut off");
    const body = bytes.subarray(0, size - CHECKSUM_BYTES);
    if (!checksum(body).equals(bytes.subarray(body.length))) throw new Error("a record's checksum is wrong");
    this.#at += size;
    const record = {
      hash: wordsOf(body, 0, 4),
      parent: wordsOf(body, 16, 4),
      root: body.readInt32LE(32),
      tokens: wordsOf(body, 40, pageSize),
    };
    const starts: number[] = [];
    pageBytes.reduce((at, length, g) => {
      starts[g] = at;
      return at + (groups[g] ? length : 0);
    }, headBytes(pageSize));
    return { record, groups, pageOf: (g) => body.subarray(starts[g]!, starts[g]! + pageBytes[g]!) };
  }

  close(): void {
    closeSync(this.#file);
  }

  #read(at: number, length: number): Buffer {
    const buffer = Buffer.alloc(length);
    return buffer.subarray(0, readSync(this.#file, buffer, 0, length, at));
  }
}

function checksum(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest().subarray(0, CHECKSUM_BYTES);
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}

function bytesOf(words: Int32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

function wordsOf(bytes: Buffer, at: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => bytes.readInt32LE(at + 4 * i));
}
