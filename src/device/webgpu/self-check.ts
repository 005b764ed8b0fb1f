// Whether an adapter keeps the order of sums that the kernels write: a row's product has the same bits alone, among few rows and in a tile.
// WGSL lets an implementation reorder arithmetic; then answers may depend on what runs beside them.

import type { HostTensor } from "../../core/tensor.js";
import { readTensor } from "../read-tensor.js";
import type { WebGpuDevice } from "./webgpu-device.js";

const ROWS = 72;
const COLS = 1184;
const TOKENS = 33;

/** Numbers of all magnitudes: sums of them round differently in another order. */
function noise(count: number): Float32Array {
  const values = new Float32Array(count);
  let state = 1;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    values[i] = (state / 2 ** 31) * 2 ** (i % 7);
  }
  return values;
}

export async function hasFixedBits(device: WebGpuDevice): Promise<boolean> {
  const values = noise(ROWS * COLS);
  const bytes = new Uint8Array(values.buffer);
  const host: HostTensor = {
    name: "self-check",
    dtype: "f32",
    shape: [ROWS, COLS],
    file: null,
    byteLength: bytes.length,
    bytes: () => bytes,
  };
  const x = device.loadTensor(noise(TOKENS * COLS), TOKENS, COLS);
  const out = device.allocTensor(TOKENS, ROWS);
  for (const quantize of ["none", "q4"] as const) {
    const weight = device.loadWeight([host], { quantize });
    const whole = new Uint32Array(TOKENS * ROWS);
    const some = new Uint32Array(8 * ROWS);
    device.matmul(out, x, weight, TOKENS);
    await readTensor(device, new Float32Array(whole.buffer), out, 0, TOKENS);
    for (const n of [1, 3, 8]) {
      device.matmul(out, x, weight, n);
      await readTensor(device, new Float32Array(some.buffer), out, 0, n);
      for (let i = 0; i < n * ROWS; i++) if (some[i] !== whole[i]) return false;
    }
    for (const { buffer } of weight.parts) device.release(buffer);
  }
  device.release(x.buffer);
  device.release(out.buffer);
  return true;
}

/** Checks an adapter that is not a processor, whose kernels tests compare, and says what it found in the device's facts and in one line. */
export async function checkBits(device: WebGpuDevice, say: (line: string) => void): Promise<void> {
  if (device.isSoftware || (await hasFixedBits(device))) return;
  device.info = { ...device.info, hasLooseBits: true };
  say(
    "this adapter does not keep the order of sums: with webgpu an answer may depend on what else is computed beside it.",
  );
}
