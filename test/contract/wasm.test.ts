// The wasm device under the contract, with a thread beside the caller's.

import { openDevice } from "../../src/engine/core/load/devices.js";
import { runDeviceContract } from "./device.js";

runDeviceContract({ name: "wasm, 2 threads", make: () => openDevice({ device: "wasm", threads: 2 }) });
