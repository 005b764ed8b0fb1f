// An instance of the kernels' module over a shared memory, in the thread that opens the device and in its workers.

/** 4 GiB, the end of a 32-bit memory. */
export const MAX_PAGES = 65536;
export const STACK_BYTES = 512 * 1024;

/** The functions of native/cpu/include/pagoda_cpu.h, and those of native/cpu/src/wasm.cpp. */
export interface KernelExports {
  readonly pg_wasm_start: () => void;
  readonly pg_wasm_serve: (seat: number) => void;
  readonly pg_wasm_ready: (count: number) => number;
  readonly pg_wasm_leave: (count: number) => void;
  readonly pg_wasm_fail: () => void;
  readonly pg_wasm_allocate: (bytes: number) => number;
  readonly pg_wasm_release: (address: number, bytes: number) => void;
  readonly __stack_pointer: WebAssembly.Global;
  readonly __tls_size: WebAssembly.Global;
  readonly __wasm_init_tls: (address: number) => void;
}

/** What a worker needs: it sits down at `seat`, with memory for its stack and its thread-local variables. */
export interface WorkerStart {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly seat: number;
  readonly stack: number;
}

export async function instantiate(module: WebAssembly.Module, memory: WebAssembly.Memory): Promise<KernelExports> {
  const imports = { env: { memory }, wasi_snapshot_preview1: systemCalls(memory) };
  return (await WebAssembly.instantiate(module, imports)).exports as unknown as KernelExports;
}

/** Runs until the device is closed. When it traps, the others are told: they would wait for what it had taken. */
export async function serve({ module, memory, seat, stack }: WorkerStart, onReady: () => void): Promise<void> {
  const exports = await instantiate(module, memory);
  exports.__stack_pointer.value = stack + STACK_BYTES; // grows down
  exports.__wasm_init_tls(stack + STACK_BYTES);
  onReady();
  try {
    exports.pg_wasm_serve(seat);
  } catch (error) {
    exports.pg_wasm_fail();
    throw error;
  }
}

/** All that the C library asks of a system: the clock. It never writes but to say why it aborts, and that goes nowhere. */
function systemCalls(memory: WebAssembly.Memory): Record<string, (...args: never[]) => number | undefined> {
  const BAD_FILE = 8;
  return {
    clock_time_get: (_clock: number, _precision: bigint, out: number) => {
      const time = BigInt(Math.round(performance.now() * 1e6));
      new DataView(memory.buffer).setBigUint64(out, time, true);
      return 0;
    },
    fd_close: () => BAD_FILE,
    fd_seek: () => BAD_FILE,
    fd_write: () => BAD_FILE,
    fd_fdstat_get: () => BAD_FILE,
    proc_exit: () => {
      throw new Error("the kernels' module has aborted");
    },
  };
}
