// An elementwise op made and run at once.

import type { Device, MapSpec, StagedBatch, Tensor } from "../../src/device/device.js";

export function mapOnce(
  device: Device,
  spec: MapSpec,
  out: Tensor,
  x: Tensor,
  y: Tensor | null,
  n: number,
  batch?: StagedBatch,
): void {
  device.map(out, device.createMap(spec), x, y, n, batch);
}
