// What is said where a GPU cannot serve: one line each that names what is missing. The driver is a fake of as many calls as it takes.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Driver } from "./abi.js";
import { CudaContext } from "./context.js";

interface Machine {
  readonly init?: number;
  readonly version?: number;
  readonly gpus?: number;
  /** 8.6 is 86. */
  readonly capability?: number;
  readonly memory?: number;
}

const CAPABILITY_MAJOR = 75;
const CAPABILITY_MINOR = 76;

function driverOf({ init = 0, version = 13000, gpus = 1, capability = 90, memory = 2 ** 30 }: Machine): Driver {
  let next = 256;
  const give = (out: unknown, value: number): number => {
    if (out instanceof BigUint64Array) out[0] = BigInt(value);
    else (out as Int32Array)[0] = value;
    return 0;
  };
  const calls: Partial<Record<keyof Driver, (...args: never[]) => number>> = {
    init: () => init,
    driverVersion: (out: Int32Array) => give(out, version),
    deviceCount: (out: Int32Array) => give(out, gpus),
    deviceGet: (out: Int32Array, index: number) => give(out, index),
    deviceName: (out: Uint8Array) => {
      out.set(new TextEncoder().encode("Fake 1000"));
      return 0;
    },
    deviceAttribute: (out: Int32Array, code: number) => {
      if (code === CAPABILITY_MAJOR) return give(out, Math.floor(capability / 10));
      return give(out, code === CAPABILITY_MINOR ? capability % 10 : 4);
    },
    memInfo: (free: BigUint64Array, total: BigUint64Array) => give(free, memory) + give(total, memory),
    memAlloc: (out: BigUint64Array, bytes: number) => {
      next += bytes;
      return give(out, next);
    },
  };
  return new Proxy({} as Driver, {
    get: (_, name: keyof Driver) => calls[name] ?? ((out: unknown) => (ArrayBuffer.isView(out) ? give(out, 8) : 0)),
  });
}

const LINES: readonly (readonly [string, Machine, number, RegExp])[] = [
  ["no GPU that the driver can use", { init: 100 }, 0, /finds no GPU it can use \(cuInit gave 100\)/],
  ["a driver that is too old", { version: 11080 }, 0, /the driver supports CUDA 11\.8; 12\.0 is needed/],
  ["fewer GPUs", { gpus: 1 }, 2, /cuda:2.*this machine has 1 GPU\./],
  ["a GPU that is too old", { capability: 75 }, 0, /Fake 1000 is sm_75; sm_80 is needed/],
];
for (const [what, machine, index, line] of LINES) {
  test(`${what} is said in one line`, () => {
    assert.throws(
      () => new CudaContext(index, 0.9, driverOf(machine)),
      (error: Error & { code: string }) => {
        assert.equal(error.code, "device_unavailable");
        assert.match(error.message, line);
        assert.ok(!error.message.includes("\n"));
        return true;
      },
    );
  });
}

test("no driver is said in one line", () => {
  const before = process.env.PAGODA_CUDA_DRIVER;
  process.env.PAGODA_CUDA_DRIVER = "/nowhere/libcuda.so";
  try {
    assert.throws(
      () => new CudaContext(0, 0.9),
      /no NVIDIA driver is installed \([^\n]*\/nowhere\/libcuda\.so[^\n]*\)/,
    );
  } finally {
    if (before === undefined) delete process.env.PAGODA_CUDA_DRIVER;
    else process.env.PAGODA_CUDA_DRIVER = before;
  }
});

test("an engine takes its share of the GPU's memory and no more", () => {
  const context = new CudaContext(0, 0.25, driverOf({ memory: 2 ** 30 }));
  context.alloc(200 * 2 ** 20, "weights");
  assert.equal(context.freeBytes(), 56 * 2 ** 20);
  assert.throws(
    () => context.alloc(57 * 2 ** 20, "a KV pool"),
    (error: Error & { code: string }) => {
      assert.equal(error.code, "out_of_memory");
      assert.match(error.message, /a KV pool.*larger share of the GPU \(gpuMemory\)/);
      return true;
    },
  );
  context.alloc(56 * 2 ** 20, "a KV pool");
});
