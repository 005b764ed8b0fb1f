// The kernels as a WebAssembly module behind the interface of the native library. One shared memory of at most 4 GiB holds
// everything; every thread is a worker with an instance of the module over it. Typed arrays are copied in and out of it.

import { errorFor } from "../../core/errors.js";
import { ABI, ABI_VERSION, type AbiType, type NativeFunctions, type NativeLibrary } from "../cpu/abi.js";
import { instantiate, type KernelExports, MAX_PAGES, STACK_BYTES, type WorkerStart } from "./instance.js";

/** What a worker is to the thread that starts it. */
export interface KernelWorker {
  /** Resolves when the worker has its instance and is about to wait for work. */
  readonly ready: Promise<void>;
  terminate(): void;
}

export interface WasmHost {
  /** Compiles the best module that this engine takes. */
  compile(): Promise<WebAssembly.Module>;
  startWorker(start: WorkerStart): KernelWorker;
}

const INITIAL_PAGES = 64;
const USUAL_SCRATCH = 2 ** 20;

export class WasmLibrary {
  readonly native: NativeLibrary;
  readonly #exports: KernelExports;
  readonly #memory: WebAssembly.Memory;
  readonly #workers: KernelWorker[] = [];
  #bytes: Uint8Array;
  #scratch = 0;
  #scratchBytes = 0;
  /** What the first trap said. */
  #failure: string | null = null;

  private constructor(exports: KernelExports, memory: WebAssembly.Memory) {
    this.#exports = exports;
    this.#memory = memory;
    this.#bytes = new Uint8Array(memory.buffer);
    const functions: Record<string, (...args: never[]) => number> = {};
    for (const [name, [result, ...args]] of Object.entries(ABI)) {
      functions[name] = this.#wrap(this.#guarded(name), result, args);
    }
    const view = (address: number) => ({ buffer: this.#memory.buffer, byteOffset: address });
    this.native = { ...(functions as NativeFunctions), device: "wasm", readsFiles: false, view };
  }

  /** An instance with workers for `threads` threads, this one included. */
  static async open(host: WasmHost, threads: number): Promise<WasmLibrary> {
    const memory = makeMemory();
    const module = await host.compile();
    const exports = await instantiate(module, memory);
    exports.pg_wasm_start();
    const library = new WasmLibrary(exports, memory);
    const version = library.native.pg_abi_version();
    if (version !== ABI_VERSION) {
      const reason = `the module has interface ${version}, this program needs ${ABI_VERSION}; run: npm run build:wasm`;
      throw errorFor("device_unavailable", { device: "wasm", reason });
    }
    await library.#startWorkers(host, module, threads - 1);
    return library;
  }

  close(): void {
    this.#exports.pg_wasm_leave(this.#workers.length);
    for (const worker of this.#workers.splice(0)) worker.terminate();
  }

  async #startWorkers(host: WasmHost, module: WebAssembly.Module, count: number): Promise<void> {
    for (let seat = 0; seat < count; seat++) {
      const stack = this.#exports.pg_wasm_allocate(STACK_BYTES + this.#exports.__tls_size.value);
      this.#workers.push(host.startWorker({ module, memory: this.#memory, seat, stack }));
    }
    await Promise.all(this.#workers.map((worker) => worker.ready));
    // A worker says that it is ready just before it sits down: a few microseconds.
    while (this.#exports.pg_wasm_ready(count) === 0) await new Promise((resolve) => setTimeout(resolve, 0));
  }

  /** A trap, here or in a worker, is the end of the device: what was under way is held for ever. */
  #guarded(name: string): Call {
    const call = this.#exports[name as keyof KernelExports] as Call;
    const frees = name.endsWith("_free"); // then the memory goes as a whole
    return (...args) => {
      try {
        if (this.#failure === null) return call(...args);
      } catch (error) {
        this.#exports.pg_wasm_fail();
        this.#failure = (error as Error).message;
      }
      if (frees) return 0;
      const reason = `${this.#failure}; the device cannot be used any more`;
      throw errorFor("device_call", { device: "wasm", call: name, status: "trap", reason });
    };
  }

  /** Buffers lie one after the other in scratch memory while the call runs. */
  #wrap(call: Call, result: AbiType, types: readonly AbiType[]): (...args: never[]) => number {
    const converted: (number | bigint)[] = new Array(types.length);
    const hasBuffers = types.some((type) => type === "in" || type === "out");
    const toNumber =
      result === "i64" ? (value: number | bigint) => Number(value) : (value: number | bigint) => value as number;
    return (...args: Argument[]) => {
      let at = hasBuffers ? this.#reserve(args) : 0;
      for (let i = 0; i < types.length; i++) {
        const argument = args[i]!;
        if (typeof argument === "number") converted[i] = types[i] === "i64" ? BigInt(argument) : argument;
        else {
          this.#bytes.set(bytesOf(argument), at);
          converted[i] = at;
          at += padded(argument.byteLength);
        }
      }
      const value = toNumber(call(...converted));
      if (hasBuffers) this.#copyBack(types, args, converted);
      return value;
    };
  }

  #copyBack(types: readonly AbiType[], args: readonly Argument[], addresses: readonly (number | bigint)[]): void {
    this.#renewView();
    for (let i = 0; i < types.length; i++) {
      if (types[i] !== "out") continue;
      const bytes = bytesOf(args[i] as ArrayBufferView);
      bytes.set(this.#bytes.subarray(addresses[i] as number, (addresses[i] as number) + bytes.length));
    }
    this.#shrink();
  }

  /** The address of scratch memory for all buffers among the arguments. What a call needs beyond the usual is given back after it. */
  #reserve(args: readonly Argument[]): number {
    let needed = 0;
    for (const argument of args) if (typeof argument !== "number") needed += padded(argument.byteLength);
    if (needed > this.#scratchBytes) {
      this.#exports.pg_wasm_release(this.#scratch, this.#scratchBytes);
      this.#scratchBytes = Math.max(needed, USUAL_SCRATCH);
      this.#scratch = this.#exports.pg_wasm_allocate(this.#scratchBytes) >>> 0;
      if (this.#scratch === 0) {
        this.#scratchBytes = 0;
        throw errorFor("out_of_memory", {
          ...{ device: "wasm", value: needed, what: "the arguments of a call", limit: "4 GiB less what is in use" },
          remedy: "Use a smaller model or batch, or the cpu device.",
        });
      }
    }
    this.#renewView();
    return this.#scratch;
  }

  #shrink(): void {
    if (this.#scratchBytes <= USUAL_SCRATCH) return;
    this.#exports.pg_wasm_release(this.#scratch, this.#scratchBytes);
    this.#scratch = this.#scratchBytes = 0;
  }

  /** The view ends where the memory ended when it was made. */
  #renewView(): void {
    if (this.#bytes.buffer !== this.#memory.buffer) this.#bytes = new Uint8Array(this.#memory.buffer);
  }
}

type Argument = number | ArrayBufferView;
type Call = (...args: (number | bigint)[]) => number | bigint;

/** Sixteen-byte aligned: vectors and 64-bit numbers lie well. */
const padded = (bytes: number) => Math.ceil(bytes / 16) * 16;
const bytesOf = (view: ArrayBufferView) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** Shared even with one thread: views of it stay valid when it grows. Some systems reserve the maximum, so less may have to do. */
function makeMemory(): WebAssembly.Memory {
  for (let maximum = MAX_PAGES; ; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum, shared: true });
    } catch (error) {
      if (maximum > 4096) continue;
      const reason = `no shared WebAssembly memory: ${(error as Error).message}`;
      throw errorFor("device_unavailable", { device: "wasm", reason });
    }
  }
}
