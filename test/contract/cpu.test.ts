// The native CPU device under the contract, for one thread and for several.

import { test } from "node:test";
import { openCpu } from "../support/cpu.js";
import { runDeviceContract } from "./device.js";

const { device, reason } = await openCpu(1);
device?.close();
if (device === null) test("device contract: cpu", { skip: reason });
else {
  for (const threads of [1, 3]) {
    runDeviceContract({ name: `cpu, ${threads} threads`, make: async () => (await openCpu(threads)).device! });
  }
}
