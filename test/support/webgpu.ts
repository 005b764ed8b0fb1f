// The WebGPU device for tests: on the adapter that the machine has, or on SwiftShader, a Vulkan driver in software that Chromium brings.

import { existsSync } from "node:fs";
import koffi from "koffi";
import { openNodeGpu } from "../../src/device/webgpu/open-node.js";
import type { WebGpuDevice } from "../../src/device/webgpu/webgpu-device.js";

const CHROMIUM = "/usr/lib/chromium";
const SWIFTSHADER = `${CHROMIUM}/vk_swiftshader_icd.json`;

/** Libraries are closed when nothing holds them. */
const held: unknown[] = [];

/** A null device comes with the reason. By default its kernels are those of a GPU, on a software adapter too; "adapter": what an engine takes. */
export async function openWebGpu(
  kernels: "gpu" | "serial" | "adapter" = "gpu",
): Promise<{ device: WebGpuDevice | null; reason: string }> {
  if (process.env.VK_ICD_FILENAMES === undefined && existsSync(SWIFTSHADER)) {
    process.env.VK_ICD_FILENAMES = process.env.VK_DRIVER_FILES = SWIFTSHADER;
    // Chromium brings Vulkan's loader too. Dawn asks for it by its name, which a library that is loaded already answers to.
    if (existsSync(`${CHROMIUM}/libvulkan.so.1`)) held.push(koffi.load(`${CHROMIUM}/libvulkan.so.1`));
  }
  const opened = await openNodeGpu({
    allowsSoftware: true,
    ...(kernels === "adapter" ? {} : { isSerial: kernels === "serial" }),
  });
  return typeof opened === "string" ? { device: null, reason: opened } : { device: opened, reason: "" };
}
