// Requests in serving order: lower priority number first, then order of arrival; equals keep the order they came in. A sorted
// array: the hot path walks it by index, and inserting or removing moves at most a few thousand pointers.

import type { Request } from "../core/request.js";

export class RequestQueue implements Iterable<Request> {
  readonly #items: Request[] = [];

  get size(): number {
    return this.#items.length;
  }

  at(index: number): Request {
    return this.#items[index]!;
  }

  first(): Request | undefined {
    return this.#items[0];
  }

  last(): Request | undefined {
    return this.#items[this.#items.length - 1];
  }

  insert(request: Request): void {
    const items = this.#items;
    let index = items.length;
    // From the end: a new request usually belongs there.
    while (index > 0 && goesBefore(request, items[index - 1]!)) {
      items[index] = items[index - 1]!;
      index--;
    }
    items[index] = request;
  }

  /** Returns the place it had. */
  remove(request: Request): number {
    const items = this.#items;
    const index = items.indexOf(request);
    if (index < 0) throw new Error(`request ${request.id} is not in this queue`);
    for (let i = index + 1; i < items.length; i++) items[i - 1] = items[i]!;
    items.pop();
    return index;
  }

  [Symbol.iterator](): IterableIterator<Request> {
    return this.#items[Symbol.iterator]();
  }
}

export function goesBefore(a: Request, b: Request): boolean {
  return a.priority < b.priority || (a.priority === b.priority && a.arrivalOrder < b.arrivalOrder);
}
