// Spreads work items over workers: the costliest item goes first, each to the worker with the least work so far (LPT). The
// longest worker then has at most a third more than the best spread possible.

/** Scratch of `balance`, reused from step to step. */
export class Balancer {
  readonly numWorkers: number;
  readonly #heap: Int32Array; // [numWorkers] worker ids, least loaded first
  readonly #load: Float64Array; // [numWorkers]
  #order: Int32Array = new Int32Array(64); // [numItems] item ids, costliest first once sorted
  #workerOf: Int32Array = new Int32Array(64); // [numItems]

  constructor(numWorkers: number) {
    this.numWorkers = numWorkers;
    this.#heap = new Int32Array(numWorkers);
    this.#load = new Float64Array(numWorkers);
  }

  /** Fills indptr [numWorkers+1] and items [numItems]; a worker's items stay in plan order, for locality. */
  assign(indptr: Int32Array, items: Int32Array, cost: Float64Array, numItems: number): void {
    const { numWorkers } = this;
    this.#reserve(numItems);
    const workerOf = this.#workerOf;
    if (numWorkers === 1) workerOf.fill(0, 0, numItems);
    else this.#spread(cost, numItems);

    indptr.fill(0, 0, numWorkers + 1);
    for (let i = 0; i < numItems; i++) indptr[workerOf[i]! + 1]!++;
    for (let w = 0; w < numWorkers; w++) indptr[w + 1]! += indptr[w]!;
    // indptr[w] serves as w's write cursor, and ends as the start of w+1: shift it back afterwards.
    for (let i = 0; i < numItems; i++) items[indptr[workerOf[i]!]!++] = i;
    for (let w = numWorkers; w > 0; w--) indptr[w] = indptr[w - 1]!;
    indptr[0] = 0;
  }

  #spread(cost: Float64Array, numItems: number): void {
    const { numWorkers } = this;
    const heap = this.#heap;
    const load = this.#load;
    for (let w = 0; w < numWorkers; w++) heap[w] = w;
    load.fill(0);
    sortByCost(this.#order, cost, numItems);
    for (let i = 0; i < numItems; i++) {
      const item = this.#order[i]!;
      const worker = heap[0]!;
      this.#workerOf[item] = worker;
      load[worker]! += cost[item]!;
      siftWorker(heap, load, numWorkers);
    }
  }

  #reserve(numItems: number): void {
    if (numItems <= this.#order.length) return;
    const size = Math.max(numItems, this.#order.length * 2);
    this.#order = new Int32Array(size);
    this.#workerOf = new Int32Array(size);
  }
}

/** Restores the heap after the load of its first worker grew. Ties go to the lower worker id. */
function siftWorker(heap: Int32Array, load: Float64Array, n: number): void {
  const moved = heap[0]!;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= n) break;
    if (child + 1 < n && isLess(load, heap[child + 1]!, heap[child]!)) child++;
    if (!isLess(load, heap[child]!, moved)) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = moved;
}

/** Heap sort of 0..n-1 into `order`, costliest first: in place, where Array.sort would allocate. */
export function sortByCost(order: Int32Array, cost: Float64Array, n: number): void {
  for (let i = 0; i < n; i++) order[i] = i;
  for (let i = (n >> 1) - 1; i >= 0; i--) sink(order, cost, i, n);
  for (let end = n - 1; end > 0; end--) {
    const cheapest = order[0]!;
    order[0] = order[end]!;
    order[end] = cheapest;
    sink(order, cost, 0, end);
  }
}

/** Heap with the cheapest item on top; among equals the later one, so that equals end in plan order. */
function sink(order: Int32Array, cost: Float64Array, from: number, n: number): void {
  const moved = order[from]!;
  let at = from;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= n) break;
    if (child + 1 < n && isCheaper(cost, order[child + 1]!, order[child]!)) child++;
    if (!isCheaper(cost, order[child]!, moved)) break;
    order[at] = order[child]!;
    at = child;
  }
  order[at] = moved;
}

function isLess(load: Float64Array, a: number, b: number): boolean {
  return load[a]! < load[b]! || (load[a] === load[b] && a < b);
}

function isCheaper(cost: Float64Array, a: number, b: number): boolean {
  return cost[a]! < cost[b]! || (cost[a] === cost[b] && a > b);
}
