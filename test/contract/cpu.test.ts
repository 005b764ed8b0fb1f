// The native CPU device under the contract, for one thread and for several.

import { test } from "node:test";
import { openCpu, roundsToBf16 } from "../support/cpu.js";
import { runDeviceContract } from "./device.js";

const { device, reason } = await openCpu(1);
// As on a GPU: f32 and f16 weights are exact there too, and have their own comparison in src/device/cpu/matmul.test.ts.
const tolerance = roundsToBf16(device) ? { float: 1.2e-2 } : {};
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
