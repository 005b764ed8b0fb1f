// The only file of the cuda device that touches the FFI: the functions of the CUDA driver (libcuda), of the run-time compiler
// (libnvrtc) that it calls, and one checked call that names function, status and arguments when one of them fails.
//
// Argument types: "addr" is a native address or handle held in a plain number (48 bits fit a double), "buf" a typed array or
// string lent for the call; both are pointers to C.

import koffi from "koffi";
import { errorFor } from "../../../core/errors.js";

export type AbiType = "i32" | "u32" | "u64" | "f32" | "addr" | "buf";

const I32 = "i32";
const U32 = "u32";
const U64 = "u64";
const ADDR = "addr";
const BUF = "buf";

/** name -> [symbol, ...arguments]; all return a CUresult. */
export const DRIVER = {
  init: ["cuInit", U32],
  driverVersion: ["cuDriverGetVersion", BUF],
  deviceCount: ["cuDeviceGetCount", BUF],
  deviceGet: ["cuDeviceGet", BUF, I32],
  deviceName: ["cuDeviceGetName", BUF, I32, I32],
  deviceAttribute: ["cuDeviceGetAttribute", BUF, I32, I32],
  contextRetain: ["cuDevicePrimaryCtxRetain", BUF, I32],
  contextRelease: ["cuDevicePrimaryCtxRelease_v2", I32],
  contextSet: ["cuCtxSetCurrent", ADDR],
  memInfo: ["cuMemGetInfo_v2", BUF, BUF],
  memAlloc: ["cuMemAlloc_v2", BUF, U64],
  memFree: ["cuMemFree_v2", ADDR],
  hostAlloc: ["cuMemHostAlloc", BUF, U64, U32],
  hostFree: ["cuMemFreeHost", ADDR],
  copyIn: ["cuMemcpyHtoDAsync_v2", ADDR, ADDR, U64, ADDR],
  copyOut: ["cuMemcpyDtoHAsync_v2", ADDR, ADDR, U64, ADDR],
  copyWithin: ["cuMemcpyDtoDAsync_v2", ADDR, ADDR, U64, ADDR],
  fill: ["cuMemsetD8Async", ADDR, I32, U64, ADDR],
  streamCreate: ["cuStreamCreate", BUF, U32],
  streamDestroy: ["cuStreamDestroy_v2", ADDR],
  streamWait: ["cuStreamWaitEvent", ADDR, ADDR, U32],
  streamSynchronize: ["cuStreamSynchronize", ADDR],
  captureBegin: ["cuStreamBeginCapture_v2", ADDR, I32],
  captureEnd: ["cuStreamEndCapture", ADDR, BUF],
  graphInstantiate: ["cuGraphInstantiateWithFlags", BUF, ADDR, U64],
  graphLaunch: ["cuGraphLaunch", ADDR, ADDR],
  graphDestroy: ["cuGraphDestroy", ADDR],
  graphExecDestroy: ["cuGraphExecDestroy", ADDR],
  eventCreate: ["cuEventCreate", BUF, U32],
  eventDestroy: ["cuEventDestroy_v2", ADDR],
  eventRecord: ["cuEventRecord", ADDR, ADDR],
  eventQuery: ["cuEventQuery", ADDR],
  eventSynchronize: ["cuEventSynchronize", ADDR],
  eventElapsed: ["cuEventElapsedTime", BUF, ADDR, ADDR],
  moduleLoad: ["cuModuleLoadData", BUF, BUF],
  moduleUnload: ["cuModuleUnload", ADDR],
  moduleFunction: ["cuModuleGetFunction", BUF, ADDR, BUF],
  moduleGlobal: ["cuModuleGetGlobal_v2", BUF, BUF, ADDR, BUF],
  functionAttribute: ["cuFuncSetAttribute", ADDR, I32, I32],
  launch: ["cuLaunchKernelEx", ADDR, ADDR, ADDR, ADDR],
  errorName: ["cuGetErrorName", I32, BUF],
} as const satisfies Record<string, readonly [string, ...AbiType[]]>;

export const COMPILER = {
  create: ["nvrtcCreateProgram", BUF, BUF, BUF, I32, ADDR, ADDR],
  compile: ["nvrtcCompileProgram", ADDR, I32, BUF],
  logSize: ["nvrtcGetProgramLogSize", ADDR, BUF],
  log: ["nvrtcGetProgramLog", ADDR, BUF],
  cubinSize: ["nvrtcGetCUBINSize", ADDR, BUF],
  cubin: ["nvrtcGetCUBIN", ADDR, BUF],
  ptxSize: ["nvrtcGetPTXSize", ADDR, BUF],
  ptx: ["nvrtcGetPTX", ADDR, BUF],
  destroy: ["nvrtcDestroyProgram", BUF],
  version: ["nvrtcVersion", BUF, BUF],
} as const satisfies Record<string, readonly [string, ...AbiType[]]>;

type Argument<T> = T extends "buf" ? ArrayBufferView | string : number;
type Arguments<T> = T extends readonly [string, ...infer Rest] ? { [I in keyof Rest]: Argument<Rest[I]> } : never;
export type Functions<Table> = { readonly [Name in keyof Table]: (...args: Arguments<Table[Name]>) => number };
export type Driver = Functions<typeof DRIVER>;
export type Compiler = Functions<typeof COMPILER>;

const KOFFI_TYPE: Record<AbiType, string> = {
  i32: "int32_t",
  u32: "uint32_t",
  u64: "uint64_t",
  f32: "float",
  addr: "uintptr_t",
  buf: "void *",
};

/** Opens the first of these libraries that is there; throws the last one's error. */
export function openLibrary<Table extends Record<string, readonly [string, ...AbiType[]]>>(
  paths: readonly string[],
  table: Table,
): Functions<Table> {
  let failure: unknown = new Error("no library is named");
  for (const path of paths) {
    try {
      const library = koffi.load(path);
      const functions: Record<string, (...args: unknown[]) => number> = {};
      for (const [name, [symbol, ...args]] of Object.entries(table)) {
        functions[name] = library.func(
          symbol,
          "int32_t",
          args.map((type) => KOFFI_TYPE[type as AbiType]),
        );
      }
      return functions as Functions<Table>;
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** Throws DeviceError when a driver call failed; the arguments are shown as they were given. */
export function check(driver: Driver, status: number, name: keyof typeof DRIVER, ...args: readonly unknown[]): void {
  if (status === 0) return;
  const call = `${DRIVER[name][0]}(${args.map(shown).join(", ")})`;
  throw errorFor("device_call", { device: "cuda", call, status, reason: errorName(driver, status) });
}

/** The driver's own name of a status: CUDA_ERROR_... */
export function errorName(driver: Driver, status: number): string {
  const out = new BigUint64Array(1);
  if (driver.errorName(status, out) !== 0 || out[0] === 0n) return `CUDA error ${status}`;
  return koffi.decode(Number(out[0]), "char", -1) as string;
}

function shown(value: unknown): string {
  if (typeof value === "number" && value > 0xffff_ffff) return `0x${value.toString(16)}`;
  return ArrayBuffer.isView(value) ? `${value.constructor.name}[${value.byteLength}]` : String(value);
}

/** Memory outside the JavaScript heap that stays where it is; freed when the process ends. */
export function allocNative(bytes: number): { address: number; buffer: ArrayBuffer } {
  const block = koffi.alloc("uint8_t", bytes + 64);
  const address = Math.ceil(Number(koffi.address(block)) / 64) * 64;
  return { address, buffer: koffi.view(address, bytes) };
}

/** The memory at a native address as an ArrayBuffer; the caller keeps the memory alive. */
export function viewMemory(address: number, bytes: number): ArrayBuffer {
  return koffi.view(address, bytes);
}
