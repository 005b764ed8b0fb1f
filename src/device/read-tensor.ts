// Rows of a tensor for the host, on any device: where it can block, the promise has resolved already.

import type { Device, Tensor } from "./device.js";

export async function readTensor(
  device: Device,
  out: Float32Array,
  x: Tensor,
  firstRow: number,
  n: number,
): Promise<void> {
  if (device.readAsync === undefined) device.read(out, x, firstRow, n);
  else await device.readAsync(out, x, firstRow, n);
}
