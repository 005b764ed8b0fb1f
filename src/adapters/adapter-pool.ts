// The adapters that are loaded, within a budget of memory. One is loaded when a request first names it, pair by pair between steps; when there
// is no room the least recently used one that nobody holds leaves. Pinned ones stay. Adapters are loaded one after another, in the order in
// which they were asked for: who waits for room is not overtaken.

import { createHash } from "node:crypto";
import { toFloat32 } from "../core/dequantize/dequantize.js";
import { errorFor } from "../core/errors.js";
import type { HostTensor } from "../core/tensor.js";
import type { Device } from "../device/device.js";
import type { Adapter, AdapterFacts, AdapterRef, AdapterStats } from "./adapter.js";
import { type AdapterSites, AttachedAdapter, type PlacedPair } from "./attach.js";
import { readAside } from "./read-aside.js";

export interface AdapterPoolOptions {
  readonly device: Device;
  readonly sites: AdapterSites;
  readonly maxBytes: number;
  open(path: string): Adapter;
  /** A step in flight has rows of the slot. */
  isInFlight(slot: number): boolean;
}

/** An adapter that stays loaded until it is released as often as it was taken. */
export interface HeldAdapter {
  readonly slot: number;
  readonly facts: AdapterFacts;
  retain(): void;
  release(): void;
}

interface Entry {
  readonly ref: AdapterRef;
  isPinned: boolean;
  /** It was unloaded by name: it goes as soon as nobody holds it. */
  isLeaving: boolean;
  users: number;
  lastUse: number;
  /** What it takes, or will take, of the budget. */
  byteLength: number;
  attached: AttachedAdapter | null;
  loading: Promise<AdapterFacts> | null;
}

export class AdapterPool {
  readonly #options: AdapterPoolOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #freeSlots: number[] = [];
  #numSlots = 0;
  #numUses = 0;
  #queue: Promise<unknown> = Promise.resolve();
  #onChange: (() => void) | null = null;
  #isClosed = false;

  constructor(options: AdapterPoolOptions) {
    this.#options = options;
  }

  /** Resolves once it is loaded; rejects when it cannot be. */
  async acquire(ref: AdapterRef): Promise<HeldAdapter> {
    const key = `${ref.name}\0${ref.path}\0${ref.scale}`;
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = {
        ref,
        isPinned: false,
        isLeaving: false,
        users: 0,
        lastUse: 0,
        byteLength: 0,
        attached: null,
        loading: null,
      };
      this.#entries.set(key, entry);
    }
    entry.isPinned ||= ref.isPinned;
    entry.isLeaving = false;
    entry.users++;
    entry.loading ??= this.#loadInTurn(entry);
    try {
      const facts = await entry.loading;
      entry.lastUse = ++this.#numUses;
      return this.#hold(entry, facts);
    } catch (error) {
      entry.users--;
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
      throw error;
    }
  }

  /** All of this name go, pinned or not, each as soon as nobody holds it. */
  unload(name: string): void {
    for (const entry of this.#entries.values()) {
      if (entry.ref.name !== name) continue;
      entry.isPinned = false;
      entry.isLeaving = true;
    }
    this.settle();
  }

  /** A flight has landed, or a holder has gone: who waits for room looks again. */
  settle(): void {
    for (const entry of this.#entries.values()) if (entry.isLeaving && this.#canEvict(entry)) this.#evict(entry);
    this.#onChange?.();
  }

  stats(): { adapters: AdapterStats[]; adapterLimitBytes: number } {
    const adapters = [...this.#entries.values()].map(({ ref, attached, isPinned, users, byteLength }) => {
      return { name: ref.name, isLoaded: attached !== null, isPinned, users, byteLength };
    });
    return { adapters, adapterLimitBytes: this.#options.maxBytes };
  }

  /** Nothing is loaded any more; the device frees what is there. */
  close(): void {
    this.#isClosed = true;
    this.#onChange?.();
  }

  #hold(entry: Entry, facts: AdapterFacts): HeldAdapter {
    return {
      slot: entry.attached!.slot,
      facts,
      retain: () => {
        entry.users++;
      },
      release: () => {
        entry.users--;
        entry.lastUse = ++this.#numUses;
        if (entry.users === 0) this.settle();
      },
    };
  }

  #loadInTurn(entry: Entry): Promise<AdapterFacts> {
    const loading = this.#queue.then(() => this.#load(entry));
    this.#queue = loading.catch(() => undefined);
    return loading;
  }

  async #load(entry: Entry): Promise<AdapterFacts> {
    const { device, sites } = this.#options;
    const adapter = this.#options.open(entry.ref.path);
    const attached = new AttachedAdapter(device, this.#takeSlot());
    try {
      const pairs = sites.place(adapter);
      await this.#makeRoom(entry, adapter, bytesOf(pairs));
      const hash = createHash("sha256").update(String(entry.ref.scale));
      for (const pair of pairs) {
        const [a, b] = [await readAside(pair.a), await readAside(pair.b)];
        await nextTurn(); // a step may come first
        this.#checkOpen();
        absorb(hash, pair, a, b);
        attached.load(pair, toFloat32(a), toFloat32(b), entry.ref.scale);
      }
      entry.attached = attached;
      entry.byteLength = attached.byteLength;
      const maxRank = Math.max(0, ...pairs.map(({ rank }) => rank));
      return { identity: hash.digest("hex").slice(0, 32), byteLength: attached.byteLength, maxRank };
    } catch (error) {
      if (!this.#isClosed) attached.detach();
      this.#freeSlots.push(attached.slot);
      entry.byteLength = 0;
      throw error;
    } finally {
      adapter.close();
    }
  }

  /** Evicts others until the adapter fits; waits where all are held. */
  async #makeRoom(entry: Entry, { file }: Adapter, byteLength: number): Promise<void> {
    const { maxBytes } = this.#options;
    for (;;) {
      this.#checkOpen();
      let [taken, pinned] = [0, 0];
      for (const other of this.#entries.values()) {
        if (other === entry) continue;
        taken += other.byteLength;
        if (other.isPinned) pinned += other.byteLength;
      }
      if (byteLength > maxBytes - pinned)
        throw errorFor("adapter_too_large", { file, value: byteLength, limit: maxBytes - pinned, pinned });
      if (taken + byteLength <= maxBytes) break;
      const victim = this.#leastRecent();
      if (victim !== null) this.#evict(victim);
      else await this.#change();
    }
    entry.byteLength = byteLength;
  }

  #leastRecent(): Entry | null {
    let found: Entry | null = null;
    for (const entry of this.#entries.values()) {
      if (this.#canEvict(entry) && (found === null || entry.lastUse < found.lastUse)) found = entry;
    }
    return found;
  }

  #canEvict({ attached, users, isPinned }: Entry): boolean {
    return attached !== null && users === 0 && !isPinned && !this.#options.isInFlight(attached.slot);
  }

  #evict(entry: Entry): void {
    for (const [key, other] of this.#entries) if (other === entry) this.#entries.delete(key);
    this.#freeSlots.push(entry.attached!.slot);
    entry.attached!.detach();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#onChange = () => {
        this.#onChange = null;
        resolve();
      };
    });
  }

  #takeSlot(): number {
    return this.#freeSlots.pop() ?? this.#numSlots++;
  }

  #checkOpen(): void {
    if (this.#isClosed) throw errorFor("engine_dead", { reason: "it was closed." });
  }
}

/** At most: a device may hold them in fewer. */
function bytesOf(pairs: readonly PlacedPair[]): number {
  let bytes = 0;
  for (const { rank, a, b, places } of pairs) {
    const width = a.dtype === "bf16" && b.dtype === "bf16" ? 2 : 4;
    for (const { linear, site } of places) bytes += width * rank * (linear.weight.cols + site.rows);
  }
  return bytes;
}

function absorb(hash: ReturnType<typeof createHash>, pair: PlacedPair, a: HostTensor, b: HostTensor): void {
  hash.update(`${pair.module} ${pair.scale} ${a.dtype} ${a.shape.join("x")} ${b.dtype} ${b.shape.join("x")}\n`);
  hash.update(a.bytes()).update(b.bytes());
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
