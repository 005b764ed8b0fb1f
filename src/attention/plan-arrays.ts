// The plan's arrays: reused from step to step, grown by doubling when a batch needs more than any before it.

import type { AttentionPlan, VisibleRule } from "../core/attention-plan.js";

/** What there is room for at first. */
const FIRST_ITEMS = 64;
const FIRST_MERGES = 16;

export class PlanArrays implements AttentionPlan {
  readonly group: number;
  readonly window: number;
  readonly attentionChunk: number;
  readonly mostAhead: number;
  readonly groupSize: number;
  numWorkers = 1;
  qTile = 16;
  kvChunk = 1;

  numItems = 0;
  itemRow = new Int32Array(FIRST_ITEMS);
  itemQStart = new Int32Array(FIRST_ITEMS);
  itemKvStart = new Int32Array(FIRST_ITEMS);
  itemKvEnd = new Int32Array(FIRST_ITEMS);
  itemPartial = new Int32Array(FIRST_ITEMS);
  itemValid = new Uint8Array(FIRST_ITEMS);

  numPartials = 0;
  numMerges = 0;
  mergeRow = new Int32Array(FIRST_MERGES);
  mergeQStart = new Int32Array(FIRST_MERGES);
  mergePartial = new Int32Array(FIRST_MERGES);
  mergeCount = new Int32Array(FIRST_MERGES);

  constructor(group: number, { window, attentionChunk, mostAhead }: VisibleRule, groupSize: number) {
    this.group = group;
    this.window = window;
    this.attentionChunk = attentionChunk;
    this.mostAhead = mostAhead;
    this.groupSize = groupSize;
  }

  clear(): void {
    this.numItems = 0;
    this.numPartials = 0;
    this.numMerges = 0;
  }

  addItem(row: number, qStart: number, kvStart: number, kvEnd: number, partial: number): void {
    const i = this.numItems++;
    if (i === this.itemRow.length) this.#growItems();
    this.itemRow[i] = row;
    this.itemQStart[i] = qStart;
    this.itemKvStart[i] = kvStart;
    this.itemKvEnd[i] = kvEnd;
    this.itemPartial[i] = partial;
    this.itemValid[i] = 1;
  }

  addMerge(row: number, qStart: number, firstPartial: number, count: number): void {
    const i = this.numMerges++;
    if (i === this.mergeRow.length) this.#growMerges();
    this.mergeRow[i] = row;
    this.mergeQStart[i] = qStart;
    this.mergePartial[i] = firstPartial;
    this.mergeCount[i] = count;
  }

  /** Pads to a launch of fixed size: items marked invalid, merges of nothing. Larger plans stay as they are. */
  pad(numItems: number): void {
    while (this.numItems < numItems) {
      this.addItem(0, 0, 0, 0, -1);
      this.itemValid[this.numItems - 1] = 0;
    }
    // A split tile has two items or more, so half the items bounds the merges of every plan of this size.
    while (this.numMerges < numItems >> 1) this.addMerge(0, 0, 0, 0);
  }

  #growItems(): void {
    this.itemRow = grownInts(this.itemRow);
    this.itemQStart = grownInts(this.itemQStart);
    this.itemKvStart = grownInts(this.itemKvStart);
    this.itemKvEnd = grownInts(this.itemKvEnd);
    this.itemPartial = grownInts(this.itemPartial);
    const valid = new Uint8Array(this.itemRow.length);
    valid.set(this.itemValid);
    this.itemValid = valid;
  }

  #growMerges(): void {
    this.mergeRow = grownInts(this.mergeRow);
    this.mergeQStart = grownInts(this.mergeQStart);
    this.mergePartial = grownInts(this.mergePartial);
    this.mergeCount = grownInts(this.mergeCount);
  }
}

export function grownInts(old: Int32Array): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(old.length * 2);
  grown.set(old);
  return grown;
}
