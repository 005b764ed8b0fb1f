// The native CPU device: the kernels in a shared library for this processor.

import { availableCores, availableMemory } from "../host.js";
import { KernelDevice } from "./kernel-device.js";
import { loadLibrary } from "./library.js";

export interface CpuDeviceOptions {
  /** Default: one per core that the process may use. */
  readonly threads?: number;
  /** A name of ISA_NAMES; default: PAGODA_CPU_ISA, else the best one here. */
  readonly isa?: string;
  /** Every thread to a processor of its own; default: whether PAGODA_PIN_THREADS is 1. */
  readonly pinThreads?: boolean;
}

export class CpuDevice extends KernelDevice {
  /** Throws DeviceError device_unavailable when the library is not at hand: ensureLibrary() of library.ts makes it. */
  constructor(options: CpuDeviceOptions = {}) {
    super(loadLibrary(), {
      threads: options.threads ?? availableCores(),
      isa: options.isa ?? process.env.PAGODA_CPU_ISA,
      availableMemory,
      maxPoolBytes: Number.POSITIVE_INFINITY,
    });
    if (!(options.pinThreads ?? process.env.PAGODA_PIN_THREADS === "1")) return;
    this.context.check(this.context.native.pg_pin_threads(this.context.handle), "pg_pin_threads");
  }
}
