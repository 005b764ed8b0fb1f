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

  /** Loads the adapter to the device and puts it into the slot. */
  attach(adapter: Adapter, slot: number): AttachedAdapter {
    const device = this.#device;
    if (device.loadLowRank === undefined) {
      const reason = "it takes no adapters; use cpu, wasm or reference";
      throw errorFor("device_unavailable", { device: device.info.name, reason });
    }
    const loaded = new Map<Linear, LowRank[]>();
    try {
      for (const pair of adapter.pairs) {
        const places = this.#placesOf(pair, adapter);
        const a = toFloat32(pair.a);
        const b = toFloat32(pair.b);
        for (const { linear, site } of places) {
          const own = loaded.get(linear) ?? [];
          loaded.set(linear, own);
          own.push(loadAt(device, linear, site, pair, a, b));
        }
      }
    } catch (error) {
      for (const lowRanks of loaded.values()) for (const lowRank of lowRanks) device.freeLowRank!(lowRank);
      throw error;
    }
    for (const [linear, lowRanks] of loaded) linear.setAdapter(slot, lowRanks);
    return new AttachedAdapter(device, slot, loaded);
  }

  #placesOf(pair: AdapterPair, adapter: Adapter): readonly Place[] {
    const places = this.#places.get(canonical(pair.module));
    if (places === undefined) {
      const reason = `the base model has no matrix ${pair.module} that an adapter can attach to`;
      throw new FormatError("adapter_unfit", { file: adapter.file, tensor: pair.a.name, reason });
    }
    const { linear, site } = places[0]!;
    const { outputs, inputs } = site.made ?? { outputs: site.rows, inputs: linear.weight.cols };
    checkShape(adapter, pair.a.name, pair.a.shape, [pair.rank, inputs]);
    checkShape(adapter, pair.b.name, pair.b.shape, [outputs, pair.rank]);
    return places;
  }
}

/** An adapter in a slot. */
export class AttachedAdapter {
  readonly slot: number;
  readonly byteLength: number;
  readonly #device: Device;
  readonly #loaded: ReadonlyMap<Linear, readonly LowRank[]>;

  constructor(device: Device, slot: number, loaded: ReadonlyMap<Linear, readonly LowRank[]>) {
    this.#device = device;
    this.slot = slot;
    this.#loaded = loaded;
    this.byteLength = [...loaded.values()].flat().reduce((sum, lowRank) => sum + lowRank.byteLength, 0);
  }

  /** Takes it out and gives its memory back; no step in flight may have it. */
  detach(): void {
    for (const [linear, lowRanks] of this.#loaded) {
      linear.setAdapter(this.slot, undefined);
      for (const lowRank of lowRanks) this.#device.freeLowRank!(lowRank);
    }
  }
}

function loadAt(
  device: Device,
  linear: Linear,
  site: Site,
  { rank, scale }: AdapterPair,
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

function checkShape(adapter: Adapter, tensor: string, found: readonly number[], expected: readonly number[]): void {
  if (found.length === expected.length && found.every((size, i) => size === expected[i])) return;
  throw new FormatError("tensor_mismatch", {
    file: adapter.file,
    tensor,
    expected: `shape [${expected.join(", ")}], as the base model's matrix has it`,
    found: `[${found.join(", ")}]`,
  });
}
