// The encoder of pictures, without what follows it: patches are projected, told their places, and pass through layers in which each sees the
// whole frame, or its window of it. Families differ in names, norms and the way places are told.

import type { Device, KvPool, MapOp, RotaryTable, Tensor } from "../../device/device.js";
import { type Patches, placeOf } from "../../vision/patches.js";
import type { Linear } from "../blocks/linear.js";
import type { Norm } from "../blocks/norm.js";
import type { Layer } from "../blocks/residual.js";
import { readRows } from "./read-rows.js";
import type { Segments } from "./segments.js";
import type { Pause } from "./vision-model.js";

/** How far a pair of numbers is turned: by a frequency times the row, or the column, of a patch. */
export interface Angle {
  readonly frequency: number;
  readonly axis: "row" | "column";
}

/** Patches in another order, blocks of `block` x `block` of them kept together, and how many of them, one after another, see each other. */
export interface Windows {
  readonly order: Int32Array; // [blocks] which block comes there
  readonly lengths: readonly number[];
}

export interface TowerParts {
  readonly hiddenSize: number;
  readonly maxPatches: number;
  readonly patch: Linear; // [hidden, patch]
  /** The row of a token of no patch, which comes first; null: there is none. [hidden] */
  readonly first: Float32Array | null;
  /** Its hidden states are given too. */
  readonly givesFirst?: boolean;
  /** What is added to the patches for their places; null: nothing. [patches, hidden] */
  readonly positionsOf: ((rows: number, columns: number) => Float32Array) | null;
  readonly before: Norm | null;
  readonly layers: readonly (readonly Layer[])[];
  readonly after: Norm | null;
  readonly rotary: { readonly table: RotaryTable; readonly angles: readonly Angle[] } | null;
  /** Edge of the blocks that patches come in. */
  readonly block: number;
  readonly pool: KvPool;
  readonly whole: Segments;
  /** Layers that see windows only. */
  readonly windows: {
    readonly segments: Segments;
    readonly layers: ReadonlySet<number>;
    of(rows: number, columns: number): Windows;
  } | null;
  /** Layers after which the hidden states are wanted too, ascending; -1: those before the first. */
  readonly kept: readonly number[];
}

export class Tower {
  readonly #device: Device;
  readonly #parts: TowerParts;
  readonly #patches: Tensor; // [maxPatches, patch]
  readonly #positions: Tensor; // [maxPatches, hidden]
  readonly #x: Tensor; // [maxPatches, hidden]
  readonly #add: MapOp;

  constructor(device: Device, parts: TowerParts) {
    const { maxPatches, hiddenSize, patch } = parts;
    this.#device = device;
    this.#add = device.createMap({ kind: "add", scale: 1 });
    this.#parts = parts;
    this.#patches = device.loadTensor(new Float32Array(maxPatches * patch.weight.cols), maxPatches, patch.weight.cols);
    this.#positions = device.allocTensor(maxPatches, hiddenSize);
    this.#x = device.allocTensor(maxPatches, hiddenSize);
  }

  /** The hidden states of the patches after the last layer, and after each that is kept: [patches, hidden], in the patches' order. */
  async run({ rows, columns, values }: Patches, pause: Pause): Promise<Float32Array[]> {
    const { hiddenSize, patch, first, positionsOf, before, layers, after, rotary, windows, kept } = this.#parts;
    const device = this.#device;
    const x = this.#x;
    const numPatches = rows * columns;
    const offset = first === null ? 0 : 1;
    const n = numPatches + offset;
    const places = windows === null ? null : windows.of(rows, columns);
    const order = places === null ? null : this.#patchOrder(places.order);
    this.#parts.whole.stage([n]);
    const { staged } = this.#parts.whole;
    if (places !== null) windows!.segments.stage(places.lengths);
    device.write(
      this.#patches,
      offset,
      order === null ? values : permuted(values, order, patch.weight.cols),
      numPatches,
    );
    patch.run(x, this.#patches, staged, n);
    if (positionsOf !== null) {
      const positions = positionsOf(rows, columns);
      device.write(
        this.#positions,
        offset,
        order === null ? positions : permuted(positions, order, hiddenSize),
        numPatches,
      );
      if (first !== null) device.write(this.#positions, 0, first, 1);
      device.map(x, this.#add, x, this.#positions, n);
    } else if (first !== null) throw new Error("a token of no patch needs positions");
    before?.run(x, x, n);
    if (rotary !== null) this.#turn(rotary.table, rotary.angles, columns, n, order);
    const results: Float32Array[] = [];
    const take = async (): Promise<Float32Array> => {
      const all = await readRows(device, x, n, hiddenSize);
      const own = this.#parts.givesFirst === true ? all : all.subarray(offset * hiddenSize);
      return order === null ? own : restored(own, order, hiddenSize);
    };
    if (kept.includes(-1)) results.push(await take());
    for (const [i, parts] of layers.entries()) {
      const waiting = pause();
      if (waiting !== null) await waiting;
      const batch = windows?.layers.has(i) === true ? windows.segments.staged : staged;
      for (const part of parts) part.run(x, batch, [this.#parts.pool]);
      if (kept.includes(i)) results.push(await take());
    }
    after?.run(x, x, n);
    return [await take(), ...results];
  }

  /** Which patch comes where, from the order of their blocks. */
  #patchOrder(blocks: Int32Array): Int32Array {
    const unit = this.#parts.block ** 2;
    return Int32Array.from(
      { length: blocks.length * unit },
      (_, i) => blocks[Math.floor(i / unit)]! * unit + (i % unit),
    );
  }

  #turn(table: RotaryTable, angles: readonly Angle[], columns: number, n: number, order: Int32Array | null): void {
    const half = angles.length;
    const cos = new Float32Array(n * half);
    const sin = new Float32Array(n * half);
    for (let i = 0; i < n; i++) {
      const place = placeOf(order === null ? i : order[i]!, columns, this.#parts.block);
      for (let j = 0; j < half; j++) {
        const { frequency, axis } = angles[j]!;
        const angle = Math.fround(place[axis] * frequency);
        cos[i * half + j] = Math.cos(angle);
        sin[i * half + j] = Math.sin(angle);
      }
    }
    this.#device.writeRotary!(table, 0, cos, sin, n);
  }
}

function permuted(rows: Float32Array, order: Int32Array, cols: number): Float32Array {
  const out = new Float32Array(rows.length);
  for (let i = 0; i < order.length; i++) out.set(rows.subarray(order[i]! * cols, (order[i]! + 1) * cols), i * cols);
  return out;
}

function restored(rows: Float32Array, order: Int32Array, cols: number): Float32Array {
  const out = new Float32Array(rows.length);
  for (let i = 0; i < order.length; i++) out.set(rows.subarray(i * cols, (i + 1) * cols), order[i]! * cols);
  return out;
}
