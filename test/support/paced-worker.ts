// Entry of a paced engine's thread: the engine's own, with a pause before each step.

import { KernelDevice } from "../../src/device/cpu/kernel-device.js";

/** About as long as a step of the bundled model takes on the reference device. */
const PAUSE_MS = 40;
const never = new Int32Array(new SharedArrayBuffer(4));
const { stage } = KernelDevice.prototype;
KernelDevice.prototype.stage = function (this: KernelDevice, ...batch: Parameters<typeof stage>): void {
  Atomics.wait(never, 0, 0, PAUSE_MS);
  stage.apply(this, batch);
};
await import("../../src/engine/core/worker.js");
