// The instruction sets of the cpu device that this processor has. Where the native library cannot be built there are none, and
// one skipped test says why.

import { test } from "node:test";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import { ensureLibrary } from "../../src/device/cpu/library.js";
import { ISA_NAMES } from "../../src/device/cpu/memory.js";

let reason = "";
await ensureLibrary();

export const ISAS: readonly string[] = ISA_NAMES.slice(1).filter((isa) => {
  try {
    new CpuDevice({ threads: 1, isa }).close();
    return true;
  } catch (error) {
    reason = (error as Error).message;
    return false;
  }
});

/** For `skip` of tests that need the cpu device but no particular instruction set. */
export const whyNoCpu: string | false = ISAS.length === 0 ? reason : false;

if (whyNoCpu !== false) test("the cpu device", { skip: whyNoCpu });
