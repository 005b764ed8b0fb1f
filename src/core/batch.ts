// One step's work as ragged columns: what the scheduler chose, laid out for the device. No padding, no phases: a decode is a
// row with one new token. Capacity is fixed at creation except for the page tables, which grow outside the hot path.
//
//   row r owns tokens  [qoIndptr[r], qoIndptr[r+1])  of the columns of tokens
//         and pages    groups[g].kvIndices[kvIndptr[r] .. kvIndptr[r+1])  of each cache group g
//   token t sees keys  [0, visibleEnd[t])  of its row, less what the rule of each attention plan hides of them: a window, a chunk
//                      (core/attention-plan.ts)

import { AdapterRows } from "./adapter-rows.js";

/** Where the batch's keys and values lie in one cache group: the page table in CSR form, and the slot of each new token. */
/** The input of tokens whose embeddings are given. Gemma 4 E looks up another row by it: that of padding. */
export const MEDIUM_ID = 0;

export class BatchGroup {
  readonly slots: Int32Array; // [T] where a token's K and V are written: page * pageSize + offset
  readonly kvIndptr: Int32Array; // [R+1] in pages
  kvIndices: Int32Array; // [kvIndptr[R]] page ids

  constructor(maxTokens: number) {
    this.slots = new Int32Array(maxTokens);
    this.kvIndptr = new Int32Array(maxTokens + 1);
    this.kvIndices = new Int32Array(maxTokens);
  }

  growPages(needed: number): void {
    const grown = new Int32Array(Math.max(needed, this.kvIndices.length * 2));
    grown.set(this.kvIndices);
    this.kvIndices = grown;
  }
}

export class Batch {
  readonly pageSize: number;
  readonly maxTokens: number;
  numRows = 0; // R
  numTokens = 0; // T
  numLogitRows = 0;

  /** What a token is: its id, or -(i + 1) for token i of the flight before, which the host does not know yet. */
  readonly inputIds: Int32Array; // [T]
  readonly positions: Int32Array; // [T] absolute position in its sequence
  /** The first key a token may not see: position + 1 in causal text, the sequence's end in an encoder. Never falls in a row. */
  readonly visibleEnd: Int32Array; // [T]
  /** Which of two texts a token belongs to, for models that tell them apart: 0 or 1. */
  readonly tokenTypes: Int32Array; // [T]
  readonly qoIndptr: Int32Array; // [R+1]
  readonly stateSlots: Int32Array; // [R] slot in the state pool; -1: none
  /** New tokens of the row behind which its state is stored: all of them, or those before its guesses. */
  readonly stateLens: Int32Array; // [R]
  readonly logitRows: Int32Array; // [numLogitRows] indices into the columns of tokens
  /** The adapter of a row: its slot; -1: none, as every row begins. */
  readonly adapterSlots: Int32Array; // [R]
  /** The rows by adapter, once they are staged. */
  readonly adapters: AdapterRows;
  readonly groups: readonly BatchGroup[];

  constructor(pageSize: number, maxTokens: number, numGroups = 1) {
    this.pageSize = pageSize;
    this.maxTokens = maxTokens;
    this.inputIds = new Int32Array(maxTokens);
    this.positions = new Int32Array(maxTokens);
    this.visibleEnd = new Int32Array(maxTokens);
    this.tokenTypes = new Int32Array(maxTokens);
    this.qoIndptr = new Int32Array(maxTokens + 1);
    this.stateSlots = new Int32Array(maxTokens);
    this.stateLens = new Int32Array(maxTokens);
    this.logitRows = new Int32Array(maxTokens);
    this.adapterSlots = new Int32Array(maxTokens);
    this.adapters = new AdapterRows(maxTokens);
    this.groups = Array.from({ length: numGroups }, () => new BatchGroup(maxTokens));
  }

  clear(): void {
    this.numRows = 0;
    this.numTokens = 0;
    this.numLogitRows = 0;
  }

  /** New tokens of row r in this step. */
  queryLen(r: number): number {
    return this.qoIndptr[r + 1]! - this.qoIndptr[r]!;
  }

  /** Cached tokens plus new ones: the row's length once this step is done. */
  contextLen(r: number): number {
    const end = this.qoIndptr[r + 1]!;
    return end === this.qoIndptr[r] ? 0 : this.positions[end - 1]! + 1;
  }

  /**
   * Appends a causal row of tokens[start .. start+queryLen). `pages` is its table in the first group (addPages: in the others),
   * `logitsFrom` the first position (absolute) whose logits are wanted, Infinity for none; `state` its slot in the state pool, `stateLen` the
   * tokens behind which it is stored.
   */
  addRow(
    tokens: Int32Array,
    start: number,
    queryLen: number,
    pages: Int32Array,
    logitsFrom: number,
    state = -1,
    stateLen = queryLen,
  ): void {
    const row = this.numRows;
    let t = this.numTokens;
    this.qoIndptr[row] = t;
    for (let pos = start; pos < start + queryLen; pos++, t++) {
      this.inputIds[t] = tokens[pos]!;
      this.positions[t] = pos;
      this.visibleEnd[t] = pos + 1;
      this.tokenTypes[t] = 0;
      if (pos >= logitsFrom) this.logitRows[this.numLogitRows++] = t;
    }
    this.qoIndptr[row + 1] = t;
    this.stateSlots[row] = state;
    this.stateLens[row] = stateLen;
    this.adapterSlots[row] = -1;
    this.numTokens = t;
    this.numRows = row + 1;
    if (this.groups.length > 0) this.addPages(0, pages);
  }

  /** The last row's table in group g: pages[0 .. ceil(contextLen / pageSize)), those no token sees any more may be page 0. */
  addPages(g: number, pages: Int32Array): void {
    const { pageSize } = this;
    const { slots, kvIndptr } = this.groups[g]!;
    const row = this.numRows - 1;
    const numPages = Math.ceil(this.contextLen(row) / pageSize);
    const first = kvIndptr[row]!; // 0 for the first row, ever
    if (first + numPages > this.groups[g]!.kvIndices.length) this.groups[g]!.growPages(first + numPages);
    const { kvIndices } = this.groups[g]!;
    kvIndices.set(pages.length === numPages ? pages : pages.subarray(0, numPages), first);
    kvIndptr[row + 1] = first + numPages;
    for (let t = this.qoIndptr[row]!; t < this.numTokens; t++) {
      const pos = this.positions[t]!;
      slots[t] = pages[(pos / pageSize) | 0]! * pageSize + (pos % pageSize);
    }
  }

  /** The last row's tokens at positions [from, to) are of a medium: what stands for them in its prompt need not be in a table. */
  hideIds(from: number, to: number): void {
    const first = this.qoIndptr[this.numRows - 1]! - this.positions[this.qoIndptr[this.numRows - 1]!]!;
    this.inputIds.fill(MEDIUM_ID, first + from, first + to);
  }

  /** The last row's tokens at positions [from, to) see all keys before `end`: an encoder's sequence, an image in a prompt. */
  setVisibleEnd(end: number, from: number, to: number): void {
    const row = this.numRows - 1;
    const first = this.qoIndptr[row]!;
    const start = this.positions[first]!;
    for (let pos = Math.max(from, start); pos < Math.min(to, this.contextLen(row)); pos++) {
      this.visibleEnd[first + pos - start] = end;
    }
  }
  /** The last row's tokens from position `from` on are those of its second text. */
  setTokenType(from: number): void {
    const row = this.numRows - 1;
    const first = this.qoIndptr[row]!;
    const start = this.positions[first]!;
    for (let pos = Math.max(from, start); pos < this.contextLen(row); pos++) this.tokenTypes[first + pos - start] = 1;
  }
}
