// Puts an adapter's pairs where they belong: to each Linear of the base that was made of the pair's matrix, its rows of b. All of them or none.

import { toFloat32 } from "../core/dequantize/dequantize.js";
import { errorFor, FormatError } from "../core/errors.js";
import type { Device, LowRank } from "../device/device.js";
import type { Linear, Site } from "../models/blocks/linear.js";
import type { Adapter, AdapterPair } from "./adapter.js";

interface Place {
  readonly linear: Linear;
  readonly site: Site;
}

/** A pair of an adapter, and the matrices it is for. */
export interface PlacedPair extends AdapterPair {
  readonly places: readonly Place[];
}

/** What may stand before the decoder's names, in a checkpoint and in an adapter for it: they need not agree. */
const BEFORE = /^(?:(?:base_model|model|language_model|transformer|gpt_neox|backbone)\.)+/;
const canonical = (name: string): string => name.replace(BEFORE, "");

/** The matrices of a base that adapters may attach to. */
export class AdapterSites {
  readonly #device: Device;
  readonly #places = new Map<string, Place[]>();

  constructor(device: Device, linears: readonly Linear[]) {
    this.#device = device;
    for (const linear of linears) {
      for (const site of linear.sites) {
        const name = canonical(site.name);
        const places = this.#places.get(name) ?? [];
        places.push({ linear, site });
        this.#places.set(name, places);
      }
    }
  }

  /** Where each pair goes. Refuses an adapter that does not fit, or any where the device takes none. */
  place(adapter: Adapter): PlacedPair[] {
    const device = this.#device;
    if (device.loadLowRank === undefined) {
      const reason = "it takes no adapters; use cuda, cpu, wasm or reference";
      throw errorFor("device_unavailable", { device: device.info.name, reason });
    }
    const seen = new Set<string>();
    return adapter.pairs.map((pair) => {
      const name = canonical(pair.module);
      if (seen.has(name)) throw unfit(adapter, pair, `another pair is for ${pair.module} too`);
      seen.add(name);
      return { ...pair, places: this.#placesOf(pair, adapter) };
    });
  }

  /** Loads the adapter to the device and puts it into the slot. */
  attach(adapter: Adapter, slot: number): AttachedAdapter {
    const attached = new AttachedAdapter(this.#device, slot);
    try {
      for (const pair of this.place(adapter)) attached.load(pair, toFloat32(pair.a), toFloat32(pair.b));
    } catch (error) {
      attached.detach();
      throw error;
    }
    return attached;
  }

  #placesOf(pair: AdapterPair, adapter: Adapter): readonly Place[] {
    const places = this.#places.get(canonical(pair.module));
    if (places === undefined) {
      const reason = /\.experts(\.|$)/.test(pair.module)
        ? "experts take no adapters"
        : `the base model has no matrix ${pair.module} that an adapter can attach to`;
      throw unfit(adapter, pair, reason);
    }
    const { linear, site } = places[0]!;
    const { outputs, inputs } = site.made ?? { outputs: site.rows, inputs: linear.weight.cols };
    checkShape(adapter, pair.a.name, pair.a.shape, [pair.rank, inputs]);
    checkShape(adapter, pair.b.name, pair.b.shape, [outputs, pair.rank]);
    return places;
  }
}

/** An adapter in a slot, or as much of it as is loaded: no row may have the slot before all of it is. */
export class AttachedAdapter {
  readonly slot: number;
  byteLength = 0;
  readonly #device: Device;
  readonly #loaded: { linear: Linear; lowRank: LowRank }[] = [];

  constructor(device: Device, slot: number) {
    this.#device = device;
    this.slot = slot;
  }

  /** Loads one pair, whose numbers are a and b, to the device. `factor` is on what the adapter adds. */
  load(pair: PlacedPair, a: Float32Array, b: Float32Array, factor = 1): void {
    for (const { linear, site } of pair.places) {
      const lowRank = loadAt(this.#device, linear, site, { rank: pair.rank, scale: factor * pair.scale }, a, b);
      this.#loaded.push({ linear, lowRank });
      linear.addAdapter(this.slot, lowRank);
      this.byteLength += lowRank.byteLength;
    }
  }

  /** Takes it out and gives its memory back; no step in flight may have it. */
  detach(): void {
    for (const { linear, lowRank } of this.#loaded.splice(0)) {
      linear.dropAdapter(this.slot);
      this.#device.freeLowRank!(lowRank);
    }
    this.byteLength = 0;
  }
}

function loadAt(
  device: Device,
  linear: Linear,
  site: Site,
  { rank, scale }: Pick<AdapterPair, "rank" | "scale">,
  a: Float32Array,
  b: Float32Array,
): LowRank {
  const part = site.made?.lowRankOf(a, b, rank) ?? { a, b: rowsOf(b, rank, site) };
  return device.loadLowRank!({
    ...part,
    rank,
    inputs: linear.weight.cols,
    cols: site.rows,
    firstCol: site.firstRow,
    scale: scale * linear.scale,
  });
}

/** The rows of b in the Linear's order. */
function rowsOf(b: Float32Array, rank: number, { rows, rowOf }: Site): Float32Array {
  if (rowOf === undefined) return b;
  const out = new Float32Array(rows * rank);
  for (let row = 0; row < rows; row++) out.set(b.subarray(rowOf(row) * rank, (rowOf(row) + 1) * rank), row * rank);
  return out;
}

function unfit(adapter: Adapter, { a }: AdapterPair, reason: string): FormatError {
  return new FormatError("adapter_unfit", { file: adapter.file, tensor: a.name, reason });
}

function checkShape(adapter: Adapter, tensor: string, found: readonly number[], expected: readonly number[]): void {
  if (found.length === expected.length && found.every((size, i) => size === expected[i])) return;
  throw new FormatError("tensor_mismatch", {
    file: adapter.file,
    tensor,
    expected: `shape [${expected.join(", ")}], as the base model's matrix has it`,
    found: `[${found.join(", ")}]`,
  });
}
