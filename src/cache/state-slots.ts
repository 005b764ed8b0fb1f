// States of recurrent layers. A running request owns one working slot, which its steps advance; a snapshot is a slot too, in the
// directory under the page boundary whose state it holds, owned by nobody, evicted like any page.
//
// Nothing is copied here: copies are listed for the engine. `before` is carried out before the next step's forward, in order, so a
// slot may be read by one copy and written by a later one; `after` once that forward has advanced the working states.

import { NULL_PAGE } from "../core/ids.js";
import type { Request } from "../core/request.js";
import type { CacheGroup } from "./cache-group.js";
import type { GroupPools } from "./group-pools.js";
import { NO_ENTRY } from "./page-directory.js";

/** Copies from[i] -> to[i], i < count, in order. */
export class StateCopies {
  count = 0;
  from: Int32Array = new Int32Array(16);
  to: Int32Array = new Int32Array(16);

  push(from: number, to: number): void {
    if (this.count === this.from.length) {
      this.from = doubled(this.from);
      this.to = doubled(this.to);
    }
    this.from[this.count] = from;
    this.to[this.count++] = to;
  }

  /** Some copy reads or writes the slot. */
  has(slot: number): boolean {
    for (let i = 0; i < this.count; i++) if (this.from[i] === slot || this.to[i] === slot) return true;
    return false;
  }

  clear(): void {
    this.count = 0;
  }
}

export class StateSlots {
  readonly before = new StateCopies();
  readonly after = new StateCopies();
  readonly #pools: GroupPools;
  readonly #g: number;
  readonly #group: CacheGroup;
  readonly #pageSize: number;
  readonly #taken = new Int32Array(1);

  constructor(pools: GroupPools, pageSize: number) {
    this.#pools = pools;
    this.#g = pools.stateIndex;
    this.#group = pools.groups[this.#g]!;
    this.#pageSize = pageSize;
  }

  /** Snapshots are kept, and found again. */
  get isSharing(): boolean {
    return this.#pools.directory !== null;
  }

  /** The entry's snapshot, which was of use now: the last to be evicted. */
  touch(entry: number): number {
    const slot = this.#pools.directory!.pageOf(entry, this.#g);
    this.#group.retain(slot);
    this.#group.release(slot);
    return slot;
  }

  /** The request's working state becomes that of the snapshot; should the working slot be that very one, it is so already. */
  restore(request: Request, snapshot: number): void {
    if (snapshot !== this.#working(request)) this.before.push(snapshot, this.#working(request));
  }

  /** The child goes on from where the parent is. Both own a slot. */
  fork(parent: Request, child: Request): void {
    this.before.push(this.#working(parent), this.#working(child));
  }

  /**
   * Lists a copy of the working state if the request's part of the coming step leaves it at `end`, the end of a page, and a slot can be had. One slot is left
   * for the next request to be admitted. settle() enters it once the step has been committed.
   */
  snapshot(request: Request, end = request.numComputed): void {
    if (!this.isSharing || end % this.#pageSize !== 0 || this.#group.pool.numFree < 2) return;
    // Of an answer only the newest snapshot is worth its memory: the next turn goes on from there.
    this.#dropLast(request);
    if (!this.#pools.tryTake(this.#g, this.#taken, 0, 1)) return;
    const slot = this.#taken[0]!;
    this.after.push(this.#working(request), slot);
    request.pendingSnapshots.push({ slot, end });
  }

  /** A slot for a snapshot that comes from elsewhere, to be written at once; null: none can be had. Others may not wait to be copied. */
  tryTake(): number | null {
    if (this.#group.pool.numFree < 2 || !this.#pools.tryTake(this.#g, this.#taken, 0, 1)) return null;
    const slot = this.#taken[0]!;
    if (!this.before.has(slot)) return slot;
    this.#group.pool.releaseEmpty(slot);
    return null;
  }

  /** The request goes on from the snapshot at page `end`, which is in the slot, or in the directory already (NULL_PAGE). */
  resumeFrom(request: Request, end: number, slot: number): void {
    const entry = this.#pools.entryFor(request, end - 1);
    if (slot !== NULL_PAGE) this.#group.release(this.#pools.publish(this.#g, entry, slot));
    this.restore(request, this.touch(entry));
  }

  /** Enters the snapshots whose boundary is published by now. */
  publishSnapshots(request: Request): void {
    const { pendingSnapshots: pending } = request;
    while (pending.length > 0 && pending[0]!.end <= request.numSharedPages * this.#pageSize) {
      const { slot, end } = pending.shift()!;
      const entry = this.#pools.entryFor(request, end / this.#pageSize - 1);
      this.#group.release(this.#pools.publish(this.#g, entry, slot));
      if (end > request.promptLen) request.lastSnapshotEnd = end;
    }
  }

  /** Gives back the snapshots of steps that will not be committed. */
  dropSnapshots(request: Request): void {
    for (const { slot } of request.pendingSnapshots.splice(0)) this.#group.pool.releaseEmpty(slot);
  }

  #dropLast(request: Request): void {
    if (request.lastSnapshotEnd === 0) return;
    const entry = this.#entryAt(request, request.lastSnapshotEnd);
    request.lastSnapshotEnd = 0;
    if (entry === NO_ENTRY) return;
    if (this.#pools.directory!.pageOf(entry, this.#g) !== NULL_PAGE) this.#pools.drop(this.#g, entry);
  }

  #entryAt(request: Request, end: number): number {
    return this.#pools.directory!.find(request.hashes, end / this.#pageSize - 1, request.tokens);
  }

  #working(request: Request): number {
    return request.tables[this.#g]!.pages[0]!;
  }
}

function doubled(array: Int32Array): Int32Array {
  const grown = new Int32Array(array.length * 2);
  grown.set(array);
  return grown;
}
