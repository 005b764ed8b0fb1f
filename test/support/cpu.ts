// The native CPU device where it can be opened, else the reason why not, for `skip`.

import type { Device } from "../../src/device/device.js";
import { openDevice } from "../../src/engine/core/devices.js";

export async function openCpu(
  threads = 2,
): Promise<{ device: Device; reason: false } | { device: null; reason: string }> {
  try {
    return { device: await openDevice({ device: "cpu", threads }), reason: false };
  } catch (error) {
    return { device: null, reason: (error as Error).message };
  }
}

/** Whether the kernels round the activations that bf16 weights meet to bf16 as well: tiles of AMX do, like a GPU. */
export function roundsToBf16(device: Device | null): boolean {
  return device?.info.numerics === "cpu-amx";
}
