// The shared library through koffi: the only file of the cpu device that touches the FFI.

import koffi from "koffi";
import { errorFor } from "../../core/errors.js";
import { ABI, ABI_VERSION, type AbiType, type NativeFunctions, type NativeLibrary } from "./abi.js";

const KOFFI_TYPE: Record<AbiType, string> = {
  i32: "int32_t",
  i64: "int64_t",
  f32: "float",
  f64: "double",
  addr: "uintptr_t",
  in: "void *",
  out: "void *",
};

/** Opens the shared library; throws DeviceError device_unavailable when it cannot be used. */
export function openLibrary(path: string): NativeLibrary {
  try {
    const library = koffi.load(path);
    const functions: Record<string, (...args: unknown[]) => number> = {};
    for (const [name, [result, ...args]] of Object.entries(ABI)) {
      functions[name] = library.func(
        name,
        KOFFI_TYPE[result],
        args.map((type: AbiType) => KOFFI_TYPE[type]),
      );
    }
    const native = functions as NativeFunctions;
    const version = native.pg_abi_version();
    if (version !== ABI_VERSION) throw new Error(`it has interface ${version}, this program needs ${ABI_VERSION}`);
    const view = (address: number, bytes: number) => ({ buffer: koffi.view(address, bytes), byteOffset: 0 });
    return { ...native, device: "cpu", readsFiles: true, view };
  } catch (error) {
    throw errorFor("device_unavailable", { device: "cpu", reason: `${path}: ${(error as Error).message}` });
  }
}
