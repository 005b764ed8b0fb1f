// Chooses and opens the device an engine runs on.

import type { EngineConfig } from "../../config/engine-config.js";
import type { Device, KvDtype } from "../../device/device.js";
import { NullDevice } from "../../device/null/null-device.js";
import { ReferenceDevice } from "../../device/reference/reference-device.js";

export async function openDevice(config: Pick<EngineConfig, "device" | "threads">): Promise<Device> {
  switch (config.device) {
    case "reference":
      return new ReferenceDevice();
    case "null":
      return new NullDevice();
    case "cpu":
      return openCpu(config.threads);
    case "auto":
      try {
        return await openCpu(config.threads);
      } catch (error) {
        // One line, then on with the device that always works.
        process.stderr.write(`pagoda: ${(error as Error).message} Using the reference device, which is slow.\n`);
        return new ReferenceDevice();
      }
  }
}

/** Loaded on demand: the library is opened, and built where it is absent, only when it is asked for. threads 0: all cores. */
async function openCpu(threads: number): Promise<Device> {
  const { CpuDevice } = await import("../../device/cpu/cpu-device.js");
  return new CpuDevice(threads > 0 ? { threads } : {});
}

export function kvDtypeOf(config: Pick<EngineConfig, "kvDtype">, device: Device): KvDtype {
  return config.kvDtype === "auto" ? device.info.kvDtype : config.kvDtype;
}
