// The page pool: which pages of the KV buffer are in use, and in which order the others may be taken. Integers only; the
// buffer itself belongs to the device.
//
// A page with reference count 0 is free and stands in one queue, least recently used first. A free page may still hold
// cached tokens (page-directory.ts): it is lost only when it reaches the front and is taken, and a cache hit takes it out of
// the middle of the queue. Page 0 is the null page: nobody owns it, so its place in the arrays serves as the queue's ends.
//
//   take from here                                          return to here
//   next[0] -> oldest -> ... -> (a touched page leaves) -> ... -> newest <- prev[0]

import { NULL_PAGE } from "../core/ids.js";

export class PagePool {
  /** Counting the null page. */
  readonly numPages: number;
  /** Pages with reference count 0. */
  numFree: number;
  readonly #refs: Int32Array; // [numPages]
  readonly #next: Int32Array; // [numPages] towards the newest; next[0] is the oldest
  readonly #prev: Int32Array; // [numPages] towards the oldest; prev[0] is the newest

  constructor(numPages: number) {
    this.numPages = numPages;
    this.numFree = 0;
    this.#refs = new Int32Array(numPages);
    this.#next = new Int32Array(numPages);
    this.#prev = new Int32Array(numPages);
    for (let page = 1; page < numPages; page++) this.#insertAfter(this.#prev[NULL_PAGE]!, page);
  }

  refs(page: number): number {
    return this.#refs[page]!;
  }

  /** Writes `count` pages, oldest first, to out[offset ..], each with one reference; all or nothing. */
  tryAcquire(out: Int32Array, offset: number, count: number): boolean {
    if (count > this.numFree) return false;
    for (let i = 0; i < count; i++) {
      const page = this.#next[NULL_PAGE]!;
      this.retain(page);
      out[offset + i] = page;
    }
    return true;
  }

  /** One more owner; a free page leaves the queue from wherever it stands. */
  retain(page: number): void {
    if (this.#refs[page]!++ > 0) return;
    const before = this.#prev[page]!;
    const after = this.#next[page]!;
    this.#next[before] = after;
    this.#prev[after] = before;
    this.numFree--;
  }

  /** One owner less; the last one returns the page to the end of the queue. */
  release(page: number): void {
    if (this.#dropRef(page)) this.#insertAfter(this.#prev[NULL_PAGE]!, page);
  }

  /** The same for a page whose content is worthless: it returns to the front, to be taken before anything cached. */
  releaseEmpty(page: number): void {
    if (this.#dropRef(page)) this.#insertAfter(NULL_PAGE, page);
  }

  /** A free page whose content has become worthless moves to the front. */
  demote(page: number): void {
    this.retain(page);
    this.releaseEmpty(page);
  }

  /** Free pages, the next to be taken first. Off the hot path. */
  freeQueue(): number[] {
    const queue: number[] = [];
    for (let page = this.#next[NULL_PAGE]!; page !== NULL_PAGE; page = this.#next[page]!) {
      if (queue.push(page) > this.numPages) throw new Error("the free queue is a loop");
    }
    return queue;
  }

  #dropRef(page: number): boolean {
    const left = this.#refs[page]! - 1;
    if (page === NULL_PAGE || left < 0) throw new Error(`page ${page} is released but nobody owns it`);
    this.#refs[page] = left;
    return left === 0;
  }

  #insertAfter(before: number, page: number): void {
    const after = this.#next[before]!;
    this.#next[before] = page;
    this.#prev[page] = before;
    this.#next[page] = after;
    this.#prev[after] = page;
    this.numFree++;
  }
}
