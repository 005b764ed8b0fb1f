// In the place of src/engine/core/devices.ts: a browser has the wasm device.

import type { EngineConfig } from "../config/engine-config.js";
import type { Device } from "../device/device.js";
import { WasmDevice } from "../device/wasm/wasm-device.js";
import { browserWasmHost } from "./wasm-host.js";

export { kvDtypeOf } from "../engine/core/kv-dtype.js";

/** A page cannot ask how much memory there is; pools take a quarter of this. */
const ASSUMED_MEMORY = 2 ** 30;

export function openDevice({ threads }: Pick<EngineConfig, "threads">): Promise<Device> {
  const { crossOriginIsolated, navigator } = globalThis as unknown as BrowserScope;
  const most = crossOriginIsolated === true ? navigator.hardwareConcurrency : 1;
  const count = threads > 0 ? Math.min(threads, most) : most;
  return WasmDevice.open(browserWasmHost, { threads: count, availableMemory: () => ASSUMED_MEMORY });
}
