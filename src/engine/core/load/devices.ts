// Chooses and opens the device an engine runs on.

import { existsSync } from "node:fs";
import type { EngineConfig } from "../../../config/engine-config.js";
import { errorFor } from "../../../core/errors.js";
import type { Device } from "../../../device/device.js";
import { availableCores, availableMemory } from "../../../device/host.js";

export { kvDtypeOf } from "./kv-dtype.js";

type DeviceConfig = Pick<EngineConfig, "device" | "threads"> & Partial<Pick<EngineConfig, "gpuMemory">>;

export async function openDevice(config: DeviceConfig): Promise<Device> {
  const { device } = config;
  switch (device) {
    case "reference":
      return openReference();
    case "null":
      return openNull();
    case "cpu":
      return openCpu(config.threads);
    case "wasm":
      return openWasm(config.threads);
    case "webgpu":
      return openWebGpu();
    case "auto":
      return openBest(config);
    default:
      return openCuda(config, device === "cuda" ? 0 : Number(device.slice("cuda:".length)));
  }
}

/**
 * cuda, else webgpu on a GPU where its package is installed, else cpu, else wasm, else reference. A machine without a GPU is nothing to speak of;
 * everything else gets one line. Nobody waits for a compiler: without a native library it is wasm, and the library is there at the next start.
 */
async function openBest(config: DeviceConfig): Promise<Device> {
  try {
    return await openCuda(config, 0);
  } catch (error) {
    if (mayHaveGpu()) process.stderr.write(`pagoda: ${(error as Error).message} Using the cpu device.\n`);
  }
  const gpu = await openHardwareGpu();
  if (gpu !== null) return gpu;
  try {
    const native = await openFoundCpu(config.threads);
    if (native !== null) return native;
  } catch (error) {
    process.stderr.write(`pagoda: ${(error as Error).message} Using the wasm device.\n`);
  }
  try {
    return await openWasm(config.threads);
  } catch (error) {
    process.stderr.write(`pagoda: ${(error as Error).message} Using the reference device, which is slow.\n`);
    return openReference();
  }
}

/** Whether the NVIDIA kernel driver has made its device files here. */
function mayHaveGpu(): boolean {
  return existsSync("/dev/nvidiactl") || existsSync("/dev/dxg");
}

// Each device's modules are loaded when it is opened.

async function openReference(): Promise<Device> {
  const { ReferenceDevice } = await import("../../../device/reference/reference-device.js");
  return new ReferenceDevice();
}

async function openNull(): Promise<Device> {
  const { NullDevice } = await import("../../../device/null/null-device.js");
  return new NullDevice();
}

/** Most machines have no driver, and need no more of this device to say so. */
async function openCuda({ gpuMemory = 0.9 }: DeviceConfig, index: number): Promise<Device> {
  const { openDriver } = await import("../../../device/cuda/driver/context.js");
  openDriver();
  const { CudaDevice } = await import("../../../device/cuda/cuda-device.js");
  return new CudaDevice({ index, memoryShare: gpuMemory });
}

/** Asked for by name: a software adapter serves too. */
async function openWebGpu(): Promise<Device> {
  const { openNodeGpu } = await import("../../../device/webgpu/open-node.js");
  const opened = await openNodeGpu({ allowsSoftware: true });
  if (typeof opened === "string")
    throw errorFor("device_call", { device: "webgpu", call: "open", status: -1, reason: opened });
  return opened;
}

/** null: the package is not installed, or there is no GPU that it can use. */
async function openHardwareGpu(): Promise<Device | null> {
  const { dawnVersion } = await import("../../../device/webgpu/dawn-package.js");
  if (dawnVersion() === null) return null;
  const { openNodeGpu } = await import("../../../device/webgpu/open-node.js");
  try {
    const opened = await openNodeGpu({ allowsSoftware: false });
    return typeof opened === "string" ? null : opened;
  } catch (error) {
    process.stderr.write(`pagoda: ${(error as Error).message} Using the cpu device.\n`);
    return null;
  }
}

/** The library is compiled where it is absent. threads 0: all cores. */
async function openCpu(threads: number): Promise<Device> {
  const { ensureLibrary } = await import("../../../device/cpu/library.js");
  await ensureLibrary();
  const { CpuDevice } = await import("../../../device/cpu/cpu-device.js");
  return new CpuDevice(threads > 0 ? { threads } : {});
}

/** Null where the library is not compiled yet. */
async function openFoundCpu(threads: number): Promise<Device | null> {
  const { BUILD_COMMAND, compileForNextStart, findLibrary, unusablePackage } = await import(
    "../../../device/cpu/library.js"
  );
  if (await findLibrary()) return openCpu(threads);
  const why = {
    started: "the native library is compiled in the background and serves from the next start on",
    off: "there is no native library, and PAGODA_COMPILE is 0",
    "no-compiler": "there is no native library, and no C++ compiler",
    failed: `the native library could not be compiled; ${BUILD_COMMAND} says why`,
  }[await compileForNextStart()];
  const unusable = unusablePackage();
  if (unusable !== null) process.stderr.write(`pagoda: ${unusable}\n`);
  process.stderr.write(`pagoda: running on WebAssembly: ${why}\n`);
  return null;
}

async function openWasm(threads: number): Promise<Device> {
  const { WasmDevice } = await import("../../../device/wasm/wasm-device.js");
  const { nodeWasmHost } = await import("../../../device/wasm/node-host.js");
  return WasmDevice.open(nodeWasmHost, { threads: threads > 0 ? threads : availableCores(), availableMemory });
}
