// A device that cannot block, as WebGPU in a browser: the contract holds where results are awaited.

import { UnblockingDevice } from "../support/unblocking-device.js";
import { runDeviceContract } from "./device.js";

runDeviceContract({ name: "unblocking", make: () => new UnblockingDevice() });
