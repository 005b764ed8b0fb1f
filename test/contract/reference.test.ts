// The reference device against itself: what this shows is that rows and chunks never change a bit. Its numbers are held to
// independent ones in src/device/reference/*.test.ts, and to Hugging Face's in test/goldens.test.ts.

import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { runDeviceContract } from "./device.js";

runDeviceContract({ name: "reference", make: () => new ReferenceDevice() });
