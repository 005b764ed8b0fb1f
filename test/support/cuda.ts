// The CUDA device where there is a GPU, or its emulator where PAGODA_CUDA_DRIVER names it, else the reason why not, for `skip`.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import type { CudaDevice } from "../../src/device/cuda/cuda-device.js";
import type { Device } from "../../src/device/device.js";
import { madeTensor } from "../../src/formats/tensor-views.js";
import type { Tolerance } from "../contract/device.js";

export async function openCuda(): Promise<{ device: CudaDevice; reason: false } | { device: null; reason: string }> {
  try {
    const { CudaDevice } = await import("../../src/device/cuda/cuda-device.js");
    return { device: new CudaDevice({ memoryShare: 0.5 }), reason: false };
  } catch (error) {
    return { device: null, reason: (error as Error).message };
  }
}

/** The device, given f32 for every weight: it rounds nothing then, and what is wrong shows. */
export function withF32Weights(device: Device): Device {
  const load = device.loadWeight.bind(device);
  device.loadWeight = (parts, options) =>
    load(
      parts.map((part) => madeTensor(part.name, "f32", part.shape, () => new Uint8Array(toFloat32(part).buffer))),
      options,
    );
  return device;
}

/**
 * 16-bit weights round the activations they meet to 16 bits (8 bits of mantissa in bf16), block formats are rounded to bf16, and
 * attention over 16-bit pages rounds queries and probabilities likewise. f32 weights and pages keep f32.
 */
export const CUDA_TOLERANCE: Partial<Tolerance> = {
  float: 1.2e-2,
  integer: 1.2e-2,
  kv: { f32: 1e-5, f16: 4e-3, bf16: 2e-2, i8: 2e-2, fp8: 5e-2 },
};
