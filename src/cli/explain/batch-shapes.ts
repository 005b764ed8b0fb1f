// The same step in the shapes other engines use: padded arguments, varlen cumulative lengths, block tables, CSR, flat ragged
// arrays. For `explain`, tests and comparison; off the hot path. What the devices read is Batch (core/batch.ts).
//
// Two lengths are never one: queryLen counts the new tokens of the step, contextLen = start + queryLen everything up to their end.

import { NULL_PAGE } from "../../core/ids.js";
import { alignUp, ceilDiv } from "../../core/math.js";

/** One row: tokens[start .. start+queryLen) are new; pages hold the sequence, pages[i] its positions [i*P, (i+1)*P). */
export interface ShapeRow {
  readonly tokens: ArrayLike<number>;
  readonly start: number;
  readonly queryLen: number;
  readonly pages: ArrayLike<number>;
}

export interface PaddedArguments {
  /** Length of the longest chunk, aligned. */
  readonly paddedLen: number;
  readonly tokens: number[][]; // [R, paddedLen] padded with token 0; queryLens say where a row ends
  readonly startPositions: number[]; // [R] absolute: where the row's K and V are written, and its RoPE offset
  readonly queryLens: number[]; // [R]
  readonly contextLens: number[]; // [R]
  readonly pageTable: number[][]; // [R, most pages of a row] padded with the null page
  /** Places of the [R, paddedLen] rectangle that hold no token. */
  readonly padding: number;
  /** Tokens / places. */
  readonly efficiency: number;
}

/** The rectangle [R, longest chunk] and its page tables; the length is rounded up to `alignTo`, commonly the page size. */
export function paddedArguments(rows: readonly ShapeRow[], alignTo: number): PaddedArguments {
  const paddedLen = alignUp(Math.max(0, ...rows.map((row) => row.queryLen)), alignTo);
  const maxPages = Math.max(0, ...rows.map((row) => row.pages.length));
  const numTokens = sum(rows.map((row) => row.queryLen));
  return {
    paddedLen,
    tokens: rows.map((row) => padded(newTokens(row), paddedLen, 0)),
    startPositions: rows.map((row) => row.start),
    queryLens: rows.map((row) => row.queryLen),
    contextLens: rows.map(contextLen),
    pageTable: rows.map((row) => padded(Array.from(row.pages), maxPages, NULL_PAGE)),
    padding: rows.length * paddedLen - numTokens,
    efficiency: rows.length === 0 ? 1 : numTokens / (rows.length * paddedLen),
  };
}

export interface VarlenShape {
  readonly cuQ: number[]; // [R+1]
  readonly cuK: number[]; // [R+1] keys a row attends to, its new ones among them
  readonly cuCached: number[]; // [R+1] keys that were there before the step
  readonly maxQ: number;
  readonly maxK: number;
  readonly rowOfQ: number[]; // [T]
  readonly rowOfK: number[]; // [cuK[R]]
}

/** Cumulative lengths. Keys include the new tokens: without them a first chunk would have queries and no key. */
export function varlenShape(rows: readonly ShapeRow[]): VarlenShape {
  const contexts = rows.map(contextLen);
  return {
    cuQ: cumulative(rows.map((row) => row.queryLen)),
    cuK: cumulative(contexts),
    cuCached: cumulative(rows.map((row) => row.start)),
    maxQ: Math.max(0, ...rows.map((row) => row.queryLen)),
    maxK: Math.max(0, ...contexts),
    rowOfQ: rows.flatMap((row, r) => Array<number>(row.queryLen).fill(r)),
    rowOfK: contexts.flatMap((length, r) => Array<number>(length).fill(r)),
  };
}

export interface BlockTableShape {
  readonly table: number[][]; // [R, maxBlocks] -1: not allocated
  readonly cacheLens: number[]; // [R] tokens in the cache before the step
  readonly writes: { page: number; slot: number }[]; // [R] where the row's first new token goes
}

/** Block tables of a decode batch. A row needs ceil(contextLen / P) pages: 31 and 32 tokens fit one page of 32, 33 do not. */
export function blockTableShape(rows: readonly ShapeRow[], pageSize: number, maxBlocks: number): BlockTableShape {
  return {
    table: rows.map((row) => padded(Array.from(row.pages).slice(0, ceilDiv(contextLen(row), pageSize)), maxBlocks, -1)),
    cacheLens: rows.map((row) => row.start),
    writes: rows.map((row) => ({ page: row.pages[Math.floor(row.start / pageSize)]!, slot: row.start % pageSize })),
  };
}

export interface CsrShape {
  readonly qoIndptr: number[]; // [R+1]
  readonly kvIndptr: number[]; // [R+1] in pages
  readonly kvIndices: number[]; // [kvIndptr[R]]
  readonly lastPageLen: number[]; // [R]
}

export function csrShape(rows: readonly ShapeRow[], pageSize: number): CsrShape {
  const numPages = rows.map((row) => ceilDiv(contextLen(row), pageSize));
  return {
    qoIndptr: cumulative(rows.map((row) => row.queryLen)),
    kvIndptr: cumulative(numPages),
    kvIndices: rows.flatMap((row, r) => Array.from(row.pages).slice(0, numPages[r])),
    lastPageLen: rows.map((row, r) => contextLen(row) - (numPages[r]! - 1) * pageSize),
  };
}

export interface RaggedShape {
  readonly tokenIds: number[]; // [T]
  readonly rowOf: number[]; // [T]
  readonly positions: number[]; // [T]
  readonly slots: number[]; // [T] page * P + offset: disjoint between rows that share no page
  /** Tokens of the rectangle R x longest chunk, not page-aligned. */
  readonly rectangle: number;
}

export function raggedShape(rows: readonly ShapeRow[], pageSize: number): RaggedShape {
  const positions = rows.map((row) => Array.from({ length: row.queryLen }, (_, i) => row.start + i));
  return {
    tokenIds: rows.flatMap(newTokens),
    rowOf: rows.flatMap((row, r) => Array<number>(row.queryLen).fill(r)),
    positions: positions.flat(),
    slots: rows.flatMap((row, r) => positions[r]!.map((position) => slotOf(row.pages, position, pageSize))),
    rectangle: rows.length * Math.max(0, ...rows.map((row) => row.queryLen)),
  };
}

/** "3 rows, 109 tokens (111 padded, 2 saved)". */
export function raggedLine(shape: RaggedShape, numRows: number): string {
  const tokens = shape.tokenIds.length;
  return `${numRows} rows, ${tokens} tokens (${shape.rectangle} padded, ${shape.rectangle - tokens} saved)`;
}

export function slotOf(pages: ArrayLike<number>, position: number, pageSize: number): number {
  return pages[Math.floor(position / pageSize)]! * pageSize + (position % pageSize);
}

/** A run of slots of one page: positions [from, to) lie at slots [slot, slot + to - from). */
export interface PageRun {
  readonly page: number;
  readonly slot: number;
  readonly from: number;
  readonly to: number;
}

/** The pages that hold positions [from, to), one run each. A step gathers [0, start) and scatters [start, contextLen). */
export function pageRuns(pages: ArrayLike<number>, from: number, to: number, pageSize: number): PageRun[] {
  const runs: PageRun[] = [];
  for (let at = from; at < to; ) {
    const index = Math.floor(at / pageSize);
    const end = Math.min(to, (index + 1) * pageSize);
    runs.push({ page: pages[index]!, slot: at % pageSize, from: at, to: end });
    at = end;
  }
  return runs;
}

function contextLen(row: ShapeRow): number {
  return row.start + row.queryLen;
}

function newTokens(row: ShapeRow): number[] {
  return Array.from({ length: row.queryLen }, (_, i) => row.tokens[row.start + i]!);
}

function padded(values: number[], length: number, fill: number): number[] {
  return [...values, ...Array<number>(Math.max(0, length - values.length)).fill(fill)];
}

function cumulative(lengths: readonly number[]): number[] {
  const out = [0];
  for (const length of lengths) out.push(out[out.length - 1]! + length);
  return out;
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}
