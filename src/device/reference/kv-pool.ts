// The page pool, held in f32 in the layout of ../kv-layout.ts, with the scratch its attention needs. A narrower kv dtype is honoured
// by rounding what is written: the numbers read are those the dtype can hold.

import {
  bf16ToF32,
  F8_E4M3_VALUES,
  f16ToF32,
  f32ToBf16,
  f32ToE4m3,
  f32ToF16,
} from "../../core/dequantize/small-floats.js";
import type { KvDtype, KvPool, KvPoolSpec } from "../device.js";
import { type KvLayout, kvLayout } from "../kv-layout.js";
import { checkBytes } from "./allocation.js";
import { AttentionScratch } from "./attention.js";

export class ReferenceKvPool implements KvPool {
  readonly spec: KvPoolSpec;
  readonly layout: KvLayout;
  readonly data: Float32Array; // [numPages, layout.page]
  readonly scratch: AttentionScratch;

  constructor(spec: KvPoolSpec) {
    this.spec = spec;
    this.layout = kvLayout(spec);
    checkBytes(spec.numPages * this.layout.page * 4, "the KV pool", "Use fewer pages (numPages) or the cpu device.");
    this.data = new Float32Array(spec.numPages * this.layout.page);
    this.scratch = new AttentionScratch(spec);
  }

  get byteLength(): number {
    return this.data.byteLength;
  }

  copyPage(from: number, to: number): void {
    const { page } = this.layout;
    this.data.copyWithin(to * page, from * page, (from + 1) * page);
  }

  /** The page's bytes, where they lie. */
  bytesOf(page: number): Uint8Array {
    if (page < 0 || page >= this.spec.numPages) throw new RangeError(`page ${page} of ${this.spec.numPages}`);
    const size = this.layout.page * 4;
    return new Uint8Array(this.data.buffer, this.data.byteOffset + page * size, size);
  }
}

/** Rounds data[at .. at+count), one head's vector of one slot, to what the dtype holds. */
export function roundTo(dtype: KvDtype, data: Float32Array, at: number, count: number): void {
  switch (dtype) {
    case "f32":
      break;
    case "f16":
      for (let i = at; i < at + count; i++) data[i] = f16ToF32(f32ToF16(data[i]!));
      break;
    case "bf16":
      for (let i = at; i < at + count; i++) data[i] = bf16ToF32(f32ToBf16(data[i]!));
      break;
    case "i8":
      roundToInt8(data, at, count);
      break;
    case "fp8":
      roundToFp8(data, at, count);
  }
}

/** One scale per vector: max |x| / 127. */
function roundToInt8(data: Float32Array, at: number, count: number): void {
  let max = 0;
  for (let i = at; i < at + count; i++) max = Math.max(max, Math.abs(data[i]!));
  const scale = Math.fround(max / 127);
  for (let i = at; i < at + count; i++) data[i] = scale === 0 ? 0 : nearestEven(data[i]! / scale) * scale;
}

/** One scale per vector: the least power of two that brings it within e4m3's 448, from 2^-100 to 2^7. */
function roundToFp8(data: Float32Array, at: number, count: number): void {
  let max = 0;
  for (let i = at; i < at + count; i++) max = Math.max(max, Math.abs(data[i]!));
  if (!Number.isFinite(max)) {
    data.fill(Number.NaN, at, at + count);
    return;
  }
  const scale = 2 ** Math.min(7, Math.max(-100, Math.ceil(Math.log2(max / 448))));
  for (let i = at; i < at + count; i++) data[i] = F8_E4M3_VALUES[f32ToE4m3(data[i]! / scale)]! * scale;
}

/** Nearest integer, ties to even, for |x| < 2^51: above 2^52 doubles are integers, so the sum itself rounds. */
function nearestEven(x: number): number {
  return x + 6755399441055744 - 6755399441055744;
}
