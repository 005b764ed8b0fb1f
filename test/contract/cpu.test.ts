// The native CPU device under the contract, for one thread and for several.

import { test } from "node:test";
import { openDevice } from "../../src/engine/devices.js";
import { runDeviceContract } from "./device.js";

const reason = await openDevice({ device: "cpu", threads: 1 }).then(
  (device) => {
    device.close();
    return null;
  },
  (error: Error) => error.message,
);

if (reason !== null) test("device contract: cpu", { skip: reason });
else {
  for (const threads of [1, 3]) {
    runDeviceContract({ name: `cpu, ${threads} threads`, make: () => openDevice({ device: "cpu", threads }) });
  }
}
