// One step's work as ragged arrays: what the scheduler chose, laid out for the device. No padding, no phases: a decode is a
// row with one new token. Capacity is fixed at creation except for `kvIndices`, which grows outside the hot path.
//
//   row r owns tokens  [qoIndptr[r], qoIndptr[r+1])  of the flat arrays
//         and pages    [kvIndptr[r], kvIndptr[r+1])  of kvIndices, the last one filled to lastPageLen[r]
//   contextLen(r) = (pages - 1) * pageSize + lastPageLen[r]   cached tokens plus the new ones

export class Batch {
  readonly pageSize: number;
  readonly maxTokens: number;
  numRows = 0; // R
  numTokens = 0; // T
  numLogitRows = 0;

  readonly tokenIds: Int32Array; // [T]
  readonly rowOf: Int32Array; // [T] the row a token belongs to
  readonly positions: Int32Array; // [T] absolute position in its sequence
  readonly slots: Int32Array; // [T] where its K and V are written: page * pageSize + offset
  readonly qoIndptr: Int32Array; // [R+1]
  readonly kvIndptr: Int32Array; // [R+1] in pages
  readonly lastPageLen: Int32Array; // [R]
  readonly logitRows: Int32Array; // [numLogitRows] indices into the flat tokens
  kvIndices: Int32Array; // [kvIndptr[R]] page ids

  constructor(pageSize: number, maxTokens: number) {
    this.pageSize = pageSize;
    this.maxTokens = maxTokens;
    this.tokenIds = new Int32Array(maxTokens);
    this.rowOf = new Int32Array(maxTokens);
    this.positions = new Int32Array(maxTokens);
    this.slots = new Int32Array(maxTokens);
    this.qoIndptr = new Int32Array(maxTokens + 1);
    this.kvIndptr = new Int32Array(maxTokens + 1);
    this.lastPageLen = new Int32Array(maxTokens);
    this.logitRows = new Int32Array(maxTokens);
    this.kvIndices = new Int32Array(maxTokens);
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
    const pages = this.kvIndptr[r + 1]! - this.kvIndptr[r]!;
    return pages === 0 ? 0 : (pages - 1) * this.pageSize + this.lastPageLen[r]!;
  }

  /**
   * Appends a row of tokens[start .. start+queryLen) whose pages are pages[0 .. ceil((start+queryLen)/pageSize)).
   * `logitsFrom` is the first position (absolute) whose logits are wanted; pass Infinity for none.
   */
  addRow(tokens: Int32Array, start: number, queryLen: number, pages: Int32Array, logitsFrom: number): void {
    const row = this.numRows;
    const { pageSize } = this;
    let t = this.numTokens;
    this.qoIndptr[row] = t;
    for (let pos = start; pos < start + queryLen; pos++, t++) {
      this.tokenIds[t] = tokens[pos]!;
      this.rowOf[t] = row;
      this.positions[t] = pos;
      this.slots[t] = pages[(pos / pageSize) | 0]! * pageSize + (pos % pageSize);
      if (pos >= logitsFrom) this.logitRows[this.numLogitRows++] = t;
    }
    this.qoIndptr[row + 1] = t;
    this.numTokens = t;

    const contextLen = start + queryLen;
    const numPages = Math.ceil(contextLen / pageSize);
    const first = row === 0 ? 0 : this.kvIndptr[row]!;
    this.kvIndptr[row] = first;
    if (first + numPages > this.kvIndices.length) this.#growPages(first + numPages);
    for (let i = 0; i < numPages; i++) this.kvIndices[first + i] = pages[i]!;
    this.kvIndptr[row + 1] = first + numPages;
    this.lastPageLen[row] = contextLen - (numPages - 1) * pageSize;
    this.numRows = row + 1;
  }

  #growPages(needed: number): void {
    const grown = new Int32Array(Math.max(needed, this.kvIndices.length * 2));
    grown.set(this.kvIndices);
    this.kvIndices = grown;
  }
}
