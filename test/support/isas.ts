// The instruction sets of the cpu device that this processor has; empty where the native library cannot be built.

import { CpuDevice } from "../../src/device/cpu/cpu-device.js";

export const ISAS: readonly string[] = ["portable", "avx2", "avx512"].filter((isa) => {
  try {
    new CpuDevice({ threads: 1, isa }).close();
    return true;
  } catch {
    return false;
  }
});
