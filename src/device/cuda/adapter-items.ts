// The rows of a step by adapter as kernels take them (native/cuda/low-rank.cu): items of up to 8 or 32 rows of one adapter. How many items
// a launch is made for is rounded up, so that steps of many groupings are one graph.

/** From so many rows on items are large, so that matrices are read less often. */
const FEW_ROWS = 256;
const ITEM_INTS = 4;

export class AdapterItems {
  /** Items that launches are made for; 0: no row has an adapter. Those behind the last one have no slot. */
  count = 0;
  /** Rows of a full item. */
  rowsOfItem = 8;
  /** Rows that may be in the lists. */
  numRows = 0;
  /** Device addresses. */
  items = 0;
  rows = 0;
  ints: Int32Array; // [count, 4] slot (-1: none), first and last + 1 of its entries in the list of rows, nothing

  constructor(maxRows: number) {
    this.ints = new Int32Array(ITEM_INTS * roundedUp(maxRows));
  }

  /** Cuts the lists of `numGroups` adapters, of at most numRows rows in all. */
  cut(slots: Int32Array, indptr: Int32Array, numGroups: number, numRows: number): void {
    this.numRows = numRows;
    this.rowsOfItem = numRows < FEW_ROWS ? 8 : 32;
    const { ints } = this;
    let at = 0;
    for (let g = 0; g < numGroups; g++) {
      const end = indptr[g + 1]!;
      for (let from = indptr[g]!; from < end; from += this.rowsOfItem) {
        ints[at] = slots[g]!;
        ints[at + 1] = from;
        ints[at + 2] = Math.min(end, from + this.rowsOfItem);
        at += ITEM_INTS;
      }
    }
    this.count = at === 0 ? 0 : roundedUp(at / ITEM_INTS);
    for (; at < ITEM_INTS * this.count; at += ITEM_INTS) ints[at] = -1;
  }

  get numInts(): number {
    return ITEM_INTS * this.count;
  }

  slotOf(item: number): number {
    return this.ints[ITEM_INTS * item]!;
  }

  firstOf(item: number): number {
    return this.ints[ITEM_INTS * item + 1]!;
  }

  endOf(item: number): number {
    return this.ints[ITEM_INTS * item + 2]!;
  }
}

/** The next power of two. */
function roundedUp(count: number): number {
  return 2 ** Math.ceil(Math.log2(count));
}
