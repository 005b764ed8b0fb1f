// From a GPU object to a queue: the adapter, its limits, and whether the host can wait for it.

import type { Gpu, GpuAdapter, GpuLimits } from "./api.js";
import { USAGE } from "./api.js";
import type { DawnEvents } from "./events.js";
import { GpuQueue } from "./gpu-queue.js";
import type { OpenGpu } from "./webgpu-device.js";

/** Limits whose defaults are below what adapters have. */
const RAISED: readonly (keyof GpuLimits)[] = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
];
/** Workgroup memory that large tiles take. */
const LARGE_TILES = 32768;
/** WebGPU does not tell how much memory there is. */
const ASSUMED_MEMORY = 8 * 2 ** 30;
const ASSUMED_SOFTWARE_MEMORY = 2 * 2 ** 30;

/** An open GPU, or why there is none, in one line. `events`: what Node waits with; null: the host cannot wait. `isSerial`: see GpuQueue. */
export async function openGpu(gpu: Gpu, events: DawnEvents | null, isSerial?: boolean): Promise<OpenGpu | string> {
  const scheduled = <T>(call: () => T): T => (events === null ? call() : events.within(call));
  const adapter = await scheduled(() => gpu.requestAdapter({ powerPreference: "high-performance" }));
  if (adapter === null)
    return "there is no adapter: no GPU has a driver that WebGPU can use (Vulkan, Metal, Direct3D 12)";
  if (!gpu.wgslLanguageFeatures.has("packed_4x8_integer_dot_product")) {
    return "its WGSL has no packed integer dots (packed_4x8_integer_dot_product)";
  }
  const requiredLimits = Object.fromEntries(RAISED.map((name) => [name, adapter.limits[name]]));
  if (adapter.limits.maxComputeInvocationsPerWorkgroup < 256)
    return `${nameOf(adapter)} has less than 256 threads in a workgroup`;
  const requiredFeatures = ["timestamp-query"].filter((feature) => adapter.features.has(feature));
  const handle = await scheduled(() => adapter.requestDevice({ requiredLimits, requiredFeatures }));
  const { isFallbackAdapter } = adapter.info;
  const isLarge = !isFallbackAdapter && adapter.limits.maxComputeWorkgroupStorageSize >= LARGE_TILES;
  const queue = new GpuQueue(handle, isSerial ?? isFallbackAdapter, isLarge ? "large" : "small");
  if (events !== null) tryToWait(queue, events);
  return {
    gpu,
    queue,
    events,
    adapter: nameOf(adapter),
    isSoftware: isFallbackAdapter,
    memoryBytes: isFallbackAdapter ? ASSUMED_SOFTWARE_MEMORY : ASSUMED_MEMORY,
  };
}

function nameOf({ info }: GpuAdapter): string {
  return [info.vendor, info.architecture, info.device, info.description].filter((text) => text !== "").join(" ");
}

/** Throws where waiting does not work (events.ts). */
function tryToWait(queue: GpuQueue, events: DawnEvents): void {
  const memory = queue.handle.createBuffer({ size: 16, usage: USAGE.mapRead | USAGE.copyDst });
  events.map(memory, 16);
  events.wait(memory);
  memory.destroy();
}
