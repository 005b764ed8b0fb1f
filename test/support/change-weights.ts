// Changes numbers of a model.safetensors where it lies.

import { readFileSync, writeFileSync } from "node:fs";
import { f32ToF16 } from "../../src/core/dequantize/small-floats.js";

/** A number of 1, 2 or 4 bytes as the tensor holds it. */
const WRITERS: Readonly<Record<string, [size: number, write: (bytes: Buffer, value: number, at: number) => void]>> = {
  F32: [4, (bytes, value, at) => bytes.writeFloatLE(value, at)],
  F16: [2, (bytes, value, at) => bytes.writeUInt16LE(f32ToF16(value), at)],
  BF16: [2, (bytes, value, at) => bytes.writeUInt16LE(new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16, at)],
  U8: [1, (bytes, value, at) => bytes.writeUInt8(Number.isFinite(value) ? Math.abs(value) & 255 : 255, at)], // scales of mxfp4
};

/** What becomes of a weight; null: it stays. */
export type WeightChange = (tensor: string, index: number) => number | null;

/** How many have changed. */
export function changeWeights(file: string, change: WeightChange): number {
  const bytes = readFileSync(file);
  const first = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, first)) as Record<
    string,
    { dtype: string; data_offsets: [number, number] }
  >;
  let numChanged = 0;
  for (const [tensor, { dtype, data_offsets }] of Object.entries(header)) {
    if (WRITERS[dtype] === undefined) continue;
    const [size, write] = WRITERS[dtype];
    const [from, to] = data_offsets;
    for (let i = 0; from + i * size < to; i++) {
      const value = change(tensor, i);
      if (value === null) continue;
      numChanged++;
      write(bytes, value, first + from + i * size);
    }
  }
  writeFileSync(file, bytes);
  return numChanged;
}
