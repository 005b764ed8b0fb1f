// The timeline of launches that kernels compiled with PAGODA_TRACE write (native/cuda/trace.cuh). For measurements: bench/cuda-step.ts.

import { check } from "./abi.js";
import type { CudaContext } from "./context.js";

const HEADER_BYTES = 64;
const RECORD_BYTES = 64;
const MAX_RECORDS = 1 << 17;

/** Whether kernels are to be compiled so that they write their times: PAGODA_CUDA_TRACE is set. */
export function isTraced(): boolean {
  return process.env.PAGODA_CUDA_TRACE !== undefined;
}

/** Of the first or the last block of a launch; times in nanoseconds of the GPU's clock. */
export interface TraceRecord {
  readonly kernel: string;
  readonly begin: number;
  /** When everything ahead was done. */
  readonly waited: number;
  readonly end: number;
  readonly blocks: number;
  readonly isLast: boolean;
}

export class Trace {
  readonly #context: CudaContext;
  readonly #address: number;

  constructor(context: CudaContext) {
    this.#context = context;
    this.#address = context.alloc(HEADER_BYTES + MAX_RECORDS * RECORD_BYTES, "the kernels' timeline");
  }

  /** Tells the kernels of a module where the log is. */
  attach(module: number): void {
    const { driver, stream } = this.#context;
    const out = new BigUint64Array(2);
    const status = driver.moduleGlobal(out, out.subarray(1), module, "trace_log\0");
    check(driver, status, "moduleGlobal", "trace_log");
    const { address, buffer } = this.#context.allocPinned(8);
    new BigUint64Array(buffer)[0] = BigInt(this.#address);
    check(driver, driver.copyIn(Number(out[0]), address, 8, stream), "copyIn", "trace_log");
    this.#context.synchronize();
  }

  /** The latest records in the order in which launches began. */
  read(download: (bytes: Uint8Array, address: number) => void): TraceRecord[] {
    const header = new BigUint64Array(1);
    download(new Uint8Array(header.buffer), this.#address);
    const count = Math.min(MAX_RECORDS, Number(header[0]));
    const bytes = new Uint8Array(count * RECORD_BYTES);
    download(bytes, this.#address + HEADER_BYTES);
    const words = new Uint32Array(bytes.buffer);
    const longs = new BigUint64Array(bytes.buffer);
    const text = new TextDecoder();
    const records = Array.from({ length: count }, (_, i) => {
      const name = bytes.subarray(i * RECORD_BYTES, i * RECORD_BYTES + 32);
      const time = (j: number) => Number(longs[i * 8 + 4 + j]! - longs[4]!);
      return {
        kernel: text.decode(name.subarray(0, name.indexOf(0) < 0 ? 32 : name.indexOf(0))),
        begin: time(0),
        waited: time(1),
        end: time(2),
        blocks: words[i * 16 + 14]!,
        isLast: words[i * 16 + 15] === 1,
      };
    });
    return records.sort((a, b) => a.begin - b.begin);
  }
}
