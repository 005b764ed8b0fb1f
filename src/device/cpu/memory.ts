// Native memory as the device's ops see it: tensors of f32 rows, and the context they hang off.

import { type ErrorDetails, errorFor } from "../../core/errors.js";
import type { Tensor } from "../device.js";
import type { NativeLibrary } from "./abi.js";

const OUT_OF_MEMORY = -2;
/** By the codes of pg_context_create. */
export const ISA_NAMES = [
  "",
  "portable",
  "avx2",
  "avx512",
  "amx",
  "neon",
  "dotprod",
  "i8mm",
  "simd128",
  "relaxed",
  "avxvnni",
  "amx-fast",
];

/** Whether an instruction set has the tiles of AMX. */
export const hasTiles = (isa: string) => isa.startsWith("amx");

/** A native context and everything allocated from it. */
export class CpuContext {
  readonly native: NativeLibrary;
  readonly handle: number;
  readonly isa: string;
  readonly numThreads: number;
  readonly #blocks = new Map<number, number>(); // address -> bytes
  readonly #out = new BigUint64Array(1);
  /** Times that native memory was taken since the start. */
  numAllocations = 0;
  #isClosed = false;

  /** isa: a name of ISA_NAMES, or undefined for the best one here. */
  constructor(native: NativeLibrary, numThreads: number, isa: string | undefined) {
    this.native = native;
    this.numThreads = numThreads;
    const code = isa === undefined ? 0 : ISA_NAMES.indexOf(isa);
    if (code === -1) {
      const expected = ISA_NAMES.slice(1).join(", ");
      throw errorFor("invalid_option", { param: "PAGODA_CPU_ISA", value: isa, expected });
    }
    if (!Number.isInteger(numThreads) || numThreads < 1 || numThreads > 1024) {
      throw errorFor("invalid_option", { param: "threads", value: numThreads, expected: "an integer from 1 to 1024" });
    }
    const status = native.pg_context_create(numThreads, code, this.#out);
    if (status !== 0) {
      const reason = status === -4 ? `this processor has no ${isa}` : `no context for ${numThreads} threads`;
      throw errorFor("device_unavailable", { device: native.device, reason });
    }
    this.handle = Number(this.#out[0]);
    this.isa = ISA_NAMES[native.pg_isa(this.handle)] ?? "unknown";
  }

  /** Throws DeviceError when the status of a call is a failure. */
  check(status: number, call: string): void {
    if (status !== 0) this.#throw(status, call);
  }

  #throw(status: number, call: string): never {
    const text = new Uint8Array(256);
    this.native.pg_last_error(this.handle, text, text.length);
    const reason = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
    throw errorFor("device_call", { device: this.native.device, call, status, reason } satisfies ErrorDetails);
  }

  /** Zeroed native memory; `what` names it when there is none left. */
  alloc(bytes: number, what: string): number {
    const status = this.native.pg_alloc(this.handle, bytes, this.#out);
    if (status === OUT_OF_MEMORY) throw this.#outOfMemory(bytes, what);
    this.check(status, "pg_alloc");
    this.numAllocations++;
    const address = Number(this.#out[0]);
    this.#blocks.set(address, bytes);
    return address;
  }

  free(address: number): void {
    const bytes = this.#blocks.get(address);
    if (bytes === undefined) return;
    this.#blocks.delete(address);
    this.check(this.native.pg_free(this.handle, address, bytes), "pg_free");
  }

  /** The result of a call that writes one handle; `bytes` and `what` say what was asked for when there is no memory. */
  create(call: string, run: (out: BigUint64Array) => number, bytes = 0, what = call): number {
    const status = run(this.#out);
    if (status === OUT_OF_MEMORY) throw this.#outOfMemory(bytes, what);
    this.check(status, call);
    this.numAllocations++;
    return Number(this.#out[0]);
  }

  /** The f32 values at a native address, as a view (no copy). */
  floats(address: number, count: number): Float32Array {
    const { buffer, byteOffset } = this.native.view(address, count * 4);
    return new Float32Array(buffer as ArrayBuffer, byteOffset, count);
  }

  /** The same of integers. */
  ints(address: number, count: number): Int32Array {
    const { buffer, byteOffset } = this.native.view(address, count * 4);
    return new Int32Array(buffer as ArrayBuffer, byteOffset, count);
  }

  #outOfMemory(bytes: number, what: string): Error {
    const remedy = "Use a smaller model, fewer pages or a smaller batch.";
    const { device } = this.native;
    const limit = device === "wasm" ? "4 GiB less what is in use; the cpu device has no such limit" : "too few";
    return errorFor("out_of_memory", { device, value: bytes, what, limit, remedy });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const address of [...this.#blocks.keys()]) this.free(address);
    this.native.pg_context_free(this.handle);
  }
}

/** Rows of f32 in native memory, or a view of some of their columns. */
export class CpuTensor implements Tensor {
  readonly address: number;
  readonly rows: number;
  readonly cols: number;
  readonly stride: number;

  constructor(address: number, rows: number, cols: number, stride: number) {
    this.address = address;
    this.rows = rows;
    this.cols = cols;
    this.stride = stride;
  }

  columns(from: number, to: number): CpuTensor {
    if (!(from >= 0 && from < to && to <= this.cols)) {
      throw new RangeError(`columns ${from}..${to} of a tensor with ${this.cols}`);
    }
    return new CpuTensor(this.address + from * 4, this.rows, to - from, this.stride);
  }
}
