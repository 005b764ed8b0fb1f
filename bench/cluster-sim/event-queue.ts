// What happens when, in virtual time: a binary heap.

export interface Event {
  readonly atMs: number;
}

export class EventQueue<E extends Event> {
  readonly #heap: E[] = [];

  get size(): number {
    return this.#heap.length;
  }

  push(event: E): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && heap[parent]!.atMs > event.atMs; parent = (at - 1) >> 1) {
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  /** The earliest; null: nothing is left. */
  pop(): E | null {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) return null;
    if (heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.atMs < heap[child]!.atMs) child++;
      if (heap[child]!.atMs >= last.atMs) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}
