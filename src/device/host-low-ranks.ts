// What adapters add to one product on devices of the host: by slot, and group by group of the step's rows.

import type { LowRank, LowRanks, StagedBatch, Tensor } from "./device.js";

export class HostLowRanks implements LowRanks {
  readonly #bySlot: (LowRank[] | undefined)[] = [];

  add(slot: number, lowRank: LowRank): void {
    const own = this.#bySlot[slot];
    if (own === undefined) this.#bySlot[slot] = [lowRank];
    else own.push(lowRank);
  }

  drop(slot: number): void {
    this.#bySlot[slot] = undefined;
  }

  isIn({ adapters }: StagedBatch): boolean {
    if (adapters === undefined) return false;
    for (let g = 0; g < adapters.count; g++) if (this.#bySlot[adapters.slots[g]!] !== undefined) return true;
    return false;
  }

  /** Has the device add what it is, one low rank after another, to rows[from..to) less `base`. */
  addTo(device: LowRankDevice, out: Tensor, x: Tensor, batch: StagedBatch, n: number, firstLogit: number): void {
    const adapters = batch.adapters!;
    const isHead = firstLogit >= 0;
    const rows = isHead ? adapters.logits : adapters.tokens;
    const indptr = isHead ? adapters.logitIndptr : adapters.tokenIndptr;
    const base = isHead ? firstLogit : 0;
    for (let g = 0; g < adapters.count; g++) {
      const lowRanks = this.#bySlot[adapters.slots[g]!];
      if (lowRanks === undefined) continue;
      let from = indptr[g]!;
      let to = indptr[g + 1]!;
      while (from < to && rows[from]! < base) from++;
      while (from < to && rows[to - 1]! >= base + n) to--;
      if (from === to) continue;
      for (let i = 0; i < lowRanks.length; i++) device.addLowRank(out, x, lowRanks[i]!, rows, from, to, base);
    }
  }
}

interface LowRankDevice {
  /** out[r] += scale * b (a x[r]) for each r = rows[i] - base, from <= i < to. No row comes twice. */
  addLowRank(out: Tensor, x: Tensor, lowRank: LowRank, rows: Int32Array, from: number, to: number, base: number): void;
}
