// The native CPU device where it can be opened, else the reason why not, for `skip`.

import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import type { Device } from "../../src/device/device.js";
import { openDevice } from "../../src/engine/core/load/devices.js";

export async function openCpu(
  threads = 2,
): Promise<{ device: Device; reason: false } | { device: null; reason: string }> {
  try {
    return { device: await openDevice({ device: "cpu", threads }), reason: false };
  } catch (error) {
    return { device: null, reason: (error as Error).message };
  }
}

/** As openCpu, with kernels that keep activations in f32: where tiles of AMX would round them, those of AVX-512. */
export async function openExactCpu(threads = 2): ReturnType<typeof openCpu> {
  const best = await openCpu(threads);
  if (!roundsToBf16(best.device)) return best;
  best.device?.close();
  return { device: new CpuDevice({ threads, isa: "avx512" }), reason: false };
}

/** Whether the kernels round the activations that bf16 weights meet to bf16 as well: tiles of AMX do, like a GPU. */
export function roundsToBf16(device: Device | null): boolean {
  return device?.info.numerics === "cpu-amx";
}
