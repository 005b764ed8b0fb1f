// The first n rows of a tensor, on the host.

import type { Device, Tensor } from "../../device/device.js";

export async function readRows(device: Device, x: Tensor, n: number, cols: number): Promise<Float32Array> {
  const out = new Float32Array(n * cols);
  if (device.readAsync === undefined) device.read(out, x, 0, n);
  else await device.readAsync(out, x, 0, n);
  return out;
}
