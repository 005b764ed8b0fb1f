// A cached page as bytes, on its way to a file or to another machine: its identity, its tokens and media, the content of its page in each
// cache group, and a checksum of all that.
//
//   identity 16 | identity of the page before 16 | root 4 | bit g: group g has a page 4 | number of media M 4 | tokens 4 P
//   | media 28 M | pages | checksum 16
//
// All integers are little-endian; a machine that is not cannot use the pages either.

import { createHash } from "node:crypto";
import { MEDIUM_WORDS } from "../../../cache/page-hash.js";
import type { PageRecord } from "../../../cache/page-transfer.js";

/** Grows with every change of the layout: what was written in another is not read. */
export const RECORD_FORMAT = 2;
const CHECKSUM_BYTES = 16;
const MEDIA_AT = 40;
const TOKENS_AT = 44;

export interface RecordShape {
  readonly pageSize: number; // P
  /** Bytes of one page in each group. */
  readonly pageBytes: readonly number[]; // [G]
}

/** A record as it was read; the pages' bytes are views of what was read from. */
export interface ReadRecord {
  readonly record: PageRecord;
  readonly groups: readonly boolean[]; // [G]
  readonly byteLength: number;
  pageOf(g: number): Uint8Array;
}

/** Bytes of a record that has pages in these groups, and so many media. */
export function recordBytes(
  { pageSize, pageBytes }: RecordShape,
  groups: readonly boolean[],
  { media }: Pick<PageRecord, "media">,
): number {
  const pages = pageBytes.reduce((sum, bytes, g) => sum + (groups[g] ? bytes : 0), 0);
  return headBytes(pageSize) + 4 * media.length + pages + CHECKSUM_BYTES;
}

/** Bytes before the media: enough to know how long the record is. */
export function headBytes(pageSize: number): number {
  return TOKENS_AT + 4 * pageSize;
}

/** `readPage` fills the bytes of the record's page in group g. */
export function encodeRecord(
  shape: RecordShape,
  record: PageRecord,
  groups: readonly boolean[],
  readPage: (out: Uint8Array, g: number) => void,
): Buffer {
  const { pageSize, pageBytes } = shape;
  const { media } = record;
  const bytes = Buffer.alloc(recordBytes(shape, groups, record));
  bytes.set(bytesOf(record.hash), 0);
  bytes.set(bytesOf(record.parent), 16);
  bytes.writeInt32LE(record.root, 32);
  const mask = groups.reduce((bits, has, g) => bits + (has ? 2 ** g : 0), 0);
  bytes.writeUInt32LE(mask, 36);
  bytes.writeUInt32LE(media.length / MEDIUM_WORDS, MEDIA_AT);
  bytes.set(bytesOf(record.tokens), TOKENS_AT);
  bytes.set(bytesOf(media), headBytes(pageSize));
  let at = headBytes(pageSize) + 4 * media.length;
  for (const [g, has] of groups.entries()) {
    if (!has) continue;
    readPage(bytes.subarray(at, at + pageBytes[g]!), g);
    at += pageBytes[g]!;
  }
  bytes.set(checksum(bytes.subarray(0, at)), at);
  return bytes;
}

/** Of the record that begins with `head`, which has at least headBytes(). Throws where that cannot be. */
export function recordLength(shape: RecordShape, head: Buffer): number {
  return recordBytes(shape, groupsOf(shape, head), { media: new Int32Array(numMediaWords(shape, head)) });
}

/** The record at the beginning of `bytes`. Throws an Error that says what is wrong with it. */
export function decodeRecord(shape: RecordShape, bytes: Buffer): ReadRecord {
  const { pageSize, pageBytes } = shape;
  if (bytes.length < headBytes(pageSize)) throw new Error("a record is cut off");
  const groups = groupsOf(shape, bytes);
  const numWords = numMediaWords(shape, bytes);
  const byteLength = recordLength(shape, bytes);
  if (bytes.length < byteLength) throw new Error("a record is cut off");
  const body = bytes.subarray(0, byteLength - CHECKSUM_BYTES);
  if (!checksum(body).equals(bytes.subarray(body.length, byteLength))) throw new Error("a record's checksum is wrong");
  const record = {
    hash: wordsOf(body, 0, 4),
    parent: wordsOf(body, 16, 4),
    root: body.readInt32LE(32),
    tokens: wordsOf(body, TOKENS_AT, pageSize),
    media: wordsOf(body, headBytes(pageSize), numWords),
  };
  const starts: number[] = [];
  pageBytes.reduce(
    (at, length, g) => {
      starts[g] = at;
      return at + (groups[g] ? length : 0);
    },
    headBytes(pageSize) + 4 * numWords,
  );
  return { record, groups, byteLength, pageOf: (g) => body.subarray(starts[g]!, starts[g]! + pageBytes[g]!) };
}

function groupsOf({ pageBytes }: RecordShape, head: Buffer): boolean[] {
  const mask = head.readUInt32LE(36);
  return pageBytes.map((_, g) => Math.floor(mask / 2 ** g) % 2 === 1);
}

/** Media do not overlap, so a page has no more of them than tokens. */
function numMediaWords({ pageSize }: RecordShape, head: Buffer): number {
  const count = head.readUInt32LE(MEDIA_AT);
  if (count > pageSize) throw new Error(`a record of ${pageSize} tokens has ${count} media: its checksum is wrong`);
  return MEDIUM_WORDS * count;
}

function checksum(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest().subarray(0, CHECKSUM_BYTES);
}

function bytesOf(words: Int32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

function wordsOf(bytes: Buffer, at: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => bytes.readInt32LE(at + 4 * i));
}
