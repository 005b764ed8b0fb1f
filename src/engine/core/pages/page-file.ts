// Cached prefixes as a file: records (page-record.ts), each with its own checksum, behind a header.
//
//   "PGDPAGES" | u32 length of the header | header: JSON { key, bytes, numRecords } | records
//
// `key` says whose pages these are.

import { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import type { PageRecord } from "../../../cache/page-transfer.js";
import {
  decodeRecord,
  encodeRecord,
  headBytes,
  type ReadRecord,
  type RecordShape,
  recordLength,
} from "./page-record.js";

const MAGIC = "PGDPAGES";
const MAX_HEADER = 2 ** 20;

/** Writes beside the file and takes its place when everything is on disk: a file that is there is whole. */
export class PageFileWriter {
  readonly #path: string;
  readonly #temporary: string;
  readonly #file: number;
  readonly #shape: RecordShape;

  /** `bytes`: of all its records. */
  constructor(path: string, key: string, shape: RecordShape, numRecords: number, bytes: number) {
    this.#path = path;
    this.#temporary = `${path}.${process.pid}.tmp`;
    this.#shape = shape;
    const header = Buffer.from(JSON.stringify({ key, bytes, numRecords }));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(header.length);
    this.#file = openSync(this.#temporary, "w", 0o600);
    writeAll(this.#file, Buffer.concat([Buffer.from(MAGIC), length, header]));
  }

  /** `readPage` fills the bytes of the record's page in group g. */
  write(record: PageRecord, groups: readonly boolean[], readPage: (out: Uint8Array, g: number) => void): void {
    writeAll(this.#file, encodeRecord(this.#shape, record, groups, readPage));
  }

  commit(): void {
    fsyncSync(this.#file);
    closeSync(this.#file);
    renameSync(this.#temporary, this.#path);
  }

  abandon(): void {
    closeSync(this.#file);
    rmSync(this.#temporary);
  }
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
      const isOurs = prefix.length === MAGIC.length + 4 && prefix.toString("latin1", 0, MAGIC.length) === MAGIC;
      const length = isOurs ? prefix.readUInt32LE(MAGIC.length) : Number.POSITIVE_INFINITY;
      if (length > MAX_HEADER) throw new Error("it is not a file of cached pages");
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
    const head = this.#read(this.#at, headBytes(this.#shape.pageSize));
    if (head.length < headBytes(this.#shape.pageSize)) throw new Error("a record is cut off");
    const read = decodeRecord(this.#shape, this.#read(this.#at, recordLength(this.#shape, head)));
    this.#at += read.byteLength;
    return read;
  }

  close(): void {
    closeSync(this.#file);
  }

  #read(at: number, length: number): Buffer {
    const buffer = Buffer.alloc(length);
    return buffer.subarray(0, readSync(this.#file, buffer, 0, length, at));
  }
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}
