// The encoder of pictures, without what follows it: patches are projected, told their places, and pass through layers in which each sees its
// whole frame, or its window of it. Families differ in names, norms and the way places are told. Frames of all sizes share a run; the host
// only writes patches, and places where they are not those of the run before.

import type { Device, KvPool, MapOp, RotaryTable, StagedBatch, Tensor } from "../../device/device.js";
import { type Patches, placeOf } from "../../vision/patches.js";
import type { Linear } from "../blocks/linear.js";
import type { Norm } from "../blocks/norm.js";
import type { Layer } from "../blocks/residual.js";
import { type FrameGrid, FrameLayout, type LayoutRules } from "./layout.js";
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
  /** Rows of a run: patches, and a token of no patch for each frame where there is one. */
  readonly maxRows: number;
  readonly maxFrames: number;
  readonly patch: Linear; // [hidden, patch]
  /** The row of a token of no patch, which comes first; null: there is none. [hidden] */
  readonly first: Float32Array | null;
  /** What is added to the patches for their places; null: nothing. [patches, hidden] */
  readonly positionsOf: ((rows: number, columns: number) => Float32Array) | null;
  readonly before: Norm | null;
  readonly layers: readonly (readonly Layer[])[];
  readonly after: Norm | null;
  /** Patches are turned by their places, counted from `firstPlace`; a token of no patch is not. */
  readonly rotary: {
    readonly table: RotaryTable;
    readonly angles: readonly Angle[];
    readonly firstPlace: number;
  } | null;
  readonly layout: LayoutRules;
  readonly pool: KvPool;
  readonly whole: Segments;
  /** Layers that see windows only. */
  readonly windows: { readonly segments: Segments; readonly layers: ReadonlySet<number> } | null;
}

/** Hidden states after so many layers, or normed after the last one. */
export type Moment = number | "end";

export class Tower {
  readonly #device: Device;
  readonly #parts: TowerParts;
  readonly #patches: Tensor; // [maxRows, patch]
  readonly #positions: Tensor; // [maxRows, hidden]
  readonly #x: Tensor; // [maxRows, hidden]
  readonly #add: MapOp;
  #layout: FrameLayout | null = null;
  /** The grids of the run before, whose places are still on the device. */
  #key = "";

  constructor(device: Device, parts: TowerParts) {
    const { maxRows, hiddenSize, patch, first, positionsOf } = parts;
    if (first !== null && positionsOf === null) throw new Error("a token of no patch needs positions");
    this.#device = device;
    this.#add = device.createMap({ kind: "add", scale: 1 });
    this.#parts = parts;
    this.#patches = device.loadTensor(new Float32Array(maxRows * patch.weight.cols), maxRows, patch.weight.cols);
    this.#positions = device.allocTensor(maxRows, hiddenSize);
    this.#x = device.allocTensor(maxRows, hiddenSize);
  }

  get maxRows(): number {
    return this.#parts.maxRows;
  }

  /** These frames have room in one run. */
  fits(frames: readonly FrameGrid[]): boolean {
    const { maxFrames, maxRows, first } = this.#parts;
    const extra = first === null ? 0 : 1;
    return (
      frames.length <= maxFrames &&
      frames.reduce((sum, { rows, columns }) => sum + rows * columns + extra, 0) <= maxRows
    );
  }

  /** A staged batch of its rows, whose logit rows are those that become tokens. */
  get staged(): StagedBatch {
    return this.#parts.whole.staged;
  }

  /** `onStates` is given the hidden states of the rows, [numRows, hidden], to be read at once. */
  async run(
    frames: readonly Patches[],
    pause: Pause,
    onStates: (moment: Moment, x: Tensor, layout: FrameLayout) => void,
  ): Promise<FrameLayout> {
    const { patch, positionsOf, before, layers, after, windows, whole, pool } = this.#parts;
    const device = this.#device;
    const x = this.#x;
    const layout = this.#place(frames);
    const n = layout.numRows;
    whole.stage(layout.lengths, layout.gathered);
    if (layout.windows !== null) windows!.segments.stage(layout.windows, layout.gathered);
    this.#writePatches(frames, layout);
    patch.run(x, this.#patches, whole.staged, n);
    if (positionsOf !== null) device.map(x, this.#add, x, this.#positions, n);
    before?.run(x, x, n);
    onStates(0, x, layout);
    for (const [i, parts] of layers.entries()) {
      const waiting = pause();
      if (waiting !== null) await waiting;
      const { staged } = windows?.layers.has(i) === true ? windows.segments : whole;
      for (const part of parts) part.run(x, staged, [pool]);
      onStates(i + 1, x, layout);
    }
    after?.run(x, x, n);
    onStates("end", x, layout);
    return layout;
  }

  /** Rows follow each other as the frames' patches do, but in windows. */
  #writePatches(frames: readonly Patches[], { lengths, patchOf, windows }: FrameLayout): void {
    const { cols } = this.#patches;
    let end = 0;
    for (const [f, { values }] of frames.entries()) {
      end += lengths[f]!;
      const count = values.length / cols;
      const from = end - count;
      const own = windows === null ? values : permuted(values, patchOf.subarray(from, end), cols);
      this.#device.write(this.#patches, from, own, count);
    }
  }

  /** Positions and angles come to the device, unless they are there. */
  #place(frames: readonly Patches[]): FrameLayout {
    const key = frames.map(sizeOf).join();
    if (this.#layout !== null && key === this.#key) return this.#layout;
    const { layout: rules, patch, positionsOf, rotary } = this.#parts;
    const layout = new FrameLayout(frames, rules);
    const { patchOf, numRows } = layout;
    const nothing = new Float32Array(patch.weight.cols);
    for (let row = 0; row < numRows; row++) if (patchOf[row]! < 0) this.#device.write(this.#patches, row, nothing, 1);
    if (positionsOf !== null) this.#writePositions(frames, layout, positionsOf);
    if (rotary !== null) this.#writeAngles(frames, layout, rotary);
    this.#layout = layout;
    this.#key = key;
    return layout;
  }

  #writePositions(
    frames: readonly Patches[],
    { frameOf, patchOf, numRows }: FrameLayout,
    positionsOf: (rows: number, columns: number) => Float32Array,
  ): void {
    const { hiddenSize, first } = this.#parts;
    const values = new Float32Array(numRows * hiddenSize);
    const ofSize = new Map<string, Float32Array>();
    for (let row = 0; row < numRows; row++) {
      const frame = frames[frameOf[row]!]!;
      const size = sizeOf(frame);
      const positions = ofSize.get(size) ?? positionsOf(frame.rows, frame.columns);
      ofSize.set(size, positions);
      const patch = patchOf[row]!;
      const own = patch < 0 ? first! : positions.subarray(patch * hiddenSize, (patch + 1) * hiddenSize);
      values.set(own, row * hiddenSize);
    }
    this.#device.write(this.#positions, 0, values, numRows);
  }

  #writeAngles(
    frames: readonly Patches[],
    { frameOf, patchOf, numRows }: FrameLayout,
    { table, angles, firstPlace }: NonNullable<TowerParts["rotary"]>,
  ): void {
    const half = angles.length;
    const cos = new Float32Array(numRows * half).fill(1);
    const sin = new Float32Array(numRows * half);
    for (let row = 0; row < numRows; row++) {
      if (patchOf[row]! < 0) continue;
      const place = placeOf(patchOf[row]!, frames[frameOf[row]!]!.columns, this.#parts.layout.block);
      for (let j = 0; j < half; j++) {
        const { frequency, axis } = angles[j]!;
        const angle = Math.fround((firstPlace + place[axis]) * frequency);
        cos[row * half + j] = Math.cos(angle);
        sin[row * half + j] = Math.sin(angle);
      }
    }
    this.#device.writeRotary!(table, 0, cos, sin, numRows);
  }
}

function sizeOf({ rows, columns }: Patches): string {
  return `${rows} x ${columns}`;
}

function permuted(rows: Float32Array, order: Int32Array, cols: number): Float32Array {
  const out = new Float32Array(rows.length);
  for (let i = 0; i < order.length; i++) out.set(rows.subarray(order[i]! * cols, (order[i]! + 1) * cols), i * cols);
  return out;
}
