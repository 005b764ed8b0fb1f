// The WebGPU device for tests: on the adapter that the machine has, or on SwiftShader, a Vulkan driver in software that Chromium brings.

import { existsSync } from "node:fs";
import { openNodeGpu } from "../../src/device/webgpu/open-node.js";
import type { WebGpuDevice } from "../../src/device/webgpu/webgpu-device.js";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";

/** A null device comes with the reason. By default its kernels are those of a GPU, on a software adapter too; "adapter": what an engine takes. */
export async function openWebGpu(
  kernels: "gpu" | "serial" | "adapter" = "gpu",
): Promise<{ device: WebGpuDevice | null; reason: string }> {
  if (process.env.VK_ICD_FILENAMES === undefined && existsSync(SWIFTSHADER)) {
    process.env.VK_ICD_FILENAMES = process.env.VK_DRIVER_FILES = SWIFTSHADER;
  }
  const opened = await openNodeGpu({
    allowsSoftware: true,
    ...(kernels === "adapter" ? {} : { isSerial: kernels === "serial" }),
  });
  return typeof opened === "string" ? { device: null, reason: opened } : { device: opened, reason: "" };
}
