// The kernels of native/cpu as WebAssembly: for machines with no native library, and for browsers.

import { KernelDevice } from "../cpu/kernel-device.js";
import { type WasmHost, WasmLibrary } from "./wasm-library.js";

/** Of the 4 GiB that a memory can have, pools get at most this: weights and activations need the rest. */
const MAX_POOL_BYTES = 2 ** 30;

export interface WasmDeviceOptions {
  readonly threads: number;
  /** Bytes that a new allocation can have, as far as the machine is concerned. */
  readonly availableMemory: () => number;
}

export class WasmDevice extends KernelDevice {
  readonly #library: WasmLibrary;

  private constructor(library: WasmLibrary, options: WasmDeviceOptions) {
    super(library.native, { ...options, isa: undefined, maxPoolBytes: MAX_POOL_BYTES });
    this.#library = library;
  }

  /** Throws DeviceError device_unavailable where there is no WebAssembly with vectors and shared memory. */
  static async open(host: WasmHost, options: WasmDeviceOptions): Promise<WasmDevice> {
    const library = await WasmLibrary.open(host, options.threads);
    try {
      return new WasmDevice(library, options);
    } catch (error) {
      library.close();
      throw error;
    }
  }

  override close(): void {
    super.close();
    this.#library.close();
  }
}
