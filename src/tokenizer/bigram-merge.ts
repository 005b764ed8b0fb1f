// The merge loop that byte-level BPE and SentencePiece share: begin with single characters and join neighbours, the best pair
// first, the leftmost of equals. What "best" means is the caller's: a merge's rank, or the score of the joined token.
//
// Pairs wait in a binary heap. A pair whose symbols have since been joined to others is recognised by its length and dropped,
// so that n characters take O(n log n).

/** Lower is joined first; Infinity never. */
export type MergePriority = (left: string, right: string) => number;

export function mergeBigrams(text: string, priority: MergePriority): string[] {
  const starts: number[] = []; // of each character, in code units
  for (let at = 0; at < text.length; at += text.codePointAt(at)! > 0xffff ? 2 : 1) starts.push(at);
  const n = starts.length;
  if (n < 2) return n === 0 ? [] : [text];

  // Symbols are a linked list over the characters' indices; a symbol that was joined to its left neighbour has length 0.
  const lens = new Int32Array(n);
  const prev = new Int32Array(n);
  const next = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    lens[i] = (i + 1 < n ? starts[i + 1]! : text.length) - starts[i]!;
    prev[i] = i - 1;
    next[i] = i + 1 < n ? i + 1 : -1;
  }
  const symbol = (i: number): string => text.slice(starts[i]!, starts[i]! + lens[i]!);

  const heap = new PairHeap();
  const offer = (left: number, right: number): void => {
    if (left < 0 || right < 0) return;
    const order = priority(symbol(left), symbol(right));
    if (order !== Infinity) heap.push(order, left, lens[left]! + lens[right]!);
  };
  for (let i = 0; i + 1 < n; i++) offer(i, i + 1);

  while (heap.pop()) {
    const left = heap.left;
    const right = next[left]!;
    if (lens[left] === 0 || right < 0 || lens[left]! + lens[right]! !== heap.len) continue;
    lens[left]! += lens[right]!;
    lens[right] = 0;
    next[left] = next[right]!;
    if (next[left]! >= 0) prev[next[left]!] = left;
    offer(prev[left]!, left);
    offer(left, next[left]!);
  }

  const merged: string[] = [];
  for (let i = 0; i >= 0; i = next[i]!) merged.push(symbol(i));
  return merged;
}

/** Pairs by (order, left), smallest first; pop() leaves the smallest in `left` and `len`. */
class PairHeap {
  left = 0;
  len = 0;
  readonly #orders: number[] = [];
  readonly #lefts: number[] = [];
  readonly #lens: number[] = [];

  push(order: number, left: number, len: number): void {
    let i = this.#orders.length;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!this.#isBefore(order, left, parent)) break;
      this.#set(i, this.#orders[parent]!, this.#lefts[parent]!, this.#lens[parent]!);
      i = parent;
    }
    this.#set(i, order, left, len);
  }

  pop(): boolean {
    const order = this.#orders.pop();
    if (order === undefined) return false;
    const left = this.#lefts.pop()!;
    const len = this.#lens.pop()!;
    const size = this.#orders.length;
    if (size === 0) {
      this.left = left;
      this.len = len;
      return true;
    }
    this.left = this.#lefts[0]!;
    this.len = this.#lens[0]!;
    let i = 0;
    for (let child = 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && this.#isBefore(this.#orders[child + 1]!, this.#lefts[child + 1]!, child)) child++;
      if (this.#isBefore(order, left, child)) break;
      this.#set(i, this.#orders[child]!, this.#lefts[child]!, this.#lens[child]!);
      i = child;
    }
    this.#set(i, order, left, len);
    return true;
  }

  #isBefore(order: number, left: number, i: number): boolean {
    return order < this.#orders[i]! || (order === this.#orders[i]! && left < this.#lefts[i]!);
  }

  #set(i: number, order: number, left: number, len: number): void {
    this.#orders[i] = order;
    this.#lefts[i] = left;
    this.#lens[i] = len;
  }
}
