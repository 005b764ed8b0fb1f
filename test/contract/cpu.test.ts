// The native CPU device under the contract, for one thread and for several.

import { test } from "node:test";
import { openCpu, roundsToBf16 } from "../support/cpu.js";
import { runDeviceContract } from "./device.js";

const { device, reason } = await openCpu(1);
// On tiles x is bf16 as on a GPU, and codes are bytes over 256 columns (native/cpu/src/amx/span-factors.h), which in matrices of random
// factors is more than among those of models. src/device/cpu/matmul.test.ts compares both, and f32 and f16, with the arithmetic as stated.
const tolerance = roundsToBf16(device) ? { float: 1.2e-2, integer: 3e-2 } : {};
device?.close();
if (device === null) test("device contract: cpu", { skip: reason });
else {
  for (const threads of [1, 3]) {
    runDeviceContract({
      name: `cpu, ${threads} threads`,
      make: async () => (await openCpu(threads)).device!,
      tolerance,
    });
  }
}
