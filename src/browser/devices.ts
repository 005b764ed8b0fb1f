// In the place of src/engine/core/devices.ts: a browser has WebGPU where there is a GPU, and the wasm device.

import type { EngineConfig } from "../config/engine-config.js";
import { errorFor } from "../core/errors.js";
import type { Device } from "../device/device.js";
import { WasmDevice } from "../device/wasm/wasm-device.js";
import type { Gpu } from "../device/webgpu/api.js";
import { openGpu } from "../device/webgpu/open-gpu.js";
import { checkBits } from "../device/webgpu/self-check.js";
import { WebGpuDevice } from "../device/webgpu/webgpu-device.js";
import { browserWasmHost } from "./wasm-host.js";

export { kvDtypeOf } from "../engine/core/load/kv-dtype.js";

/** A page cannot ask how much memory there is; pools take a quarter of this. */
const ASSUMED_MEMORY = 2 ** 30;

/** auto: WebGPU on a GPU, never on an adapter in software; else wasm. */
export async function openDevice({ device, threads }: Pick<EngineConfig, "device" | "threads">): Promise<Device> {
  const { crossOriginIsolated, navigator } = globalThis as unknown as BrowserScope;
  if (device !== "wasm") {
    const opened = await openWebGpu(navigator.gpu as Gpu | undefined, device === "webgpu");
    if (typeof opened !== "string") return opened;
    if (device === "webgpu") throw errorFor("device_call", { device, call: "open", status: -1, reason: opened });
  }
  const most = crossOriginIsolated === true ? navigator.hardwareConcurrency : 1;
  const count = threads > 0 ? Math.min(threads, most) : most;
  return WasmDevice.open(browserWasmHost, { threads: count, availableMemory: () => ASSUMED_MEMORY });
}

/** The device, or why there is none. */
async function openWebGpu(gpu: Gpu | undefined, allowsSoftware: boolean): Promise<Device | string> {
  if (gpu === undefined) return "this browser, or a page that is not served securely, has no WebGPU";
  const opened = await openGpu(gpu, null);
  if (typeof opened === "string") return opened;
  if (!opened.isSoftware || allowsSoftware) {
    const device = new WebGpuDevice(opened);
    await checkBits(device, (line) => console.warn(`pagoda: ${line}`));
    return device;
  }
  opened.queue.handle.destroy();
  return "the adapter is in software";
}
