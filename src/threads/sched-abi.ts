// Linux's scheduler through koffi: how a thread shares the processors with others. The only file of this folder that touches the FFI.

import koffi from "koffi";

const SYS_SCHED_SETATTR: Readonly<Record<string, number>> = { x64: 314, arm64: 274 };
const ATTR_BYTES = 48; // the first version of the struct, which every kernel takes
const KEEP_POLICY = 0x08n; // whoever started the process may have chosen one

/**
 * Of the calling thread; threads that it starts inherit it. false: the system does not let us. `sliceUs`: what it asks to run at a
 * stretch; 0: the system's own choice. Kernels before 6.12 take no notice of it.
 */
export function setSchedule(nice: number, sliceUs: number): boolean {
  const call = SYS_SCHED_SETATTR[process.arch];
  if (call === undefined) return false;
  const attr = new DataView(new ArrayBuffer(ATTR_BYTES));
  attr.setUint32(0, ATTR_BYTES, true);
  attr.setBigUint64(8, KEEP_POLICY, true);
  attr.setInt32(16, nice, true);
  attr.setBigUint64(24, BigInt(1000 * sliceUs), true);
  const syscall = koffi.load(null).func("syscall", "long", ["long", "int", "void *", "uint32_t"]);
  return syscall(call, 0, new Uint8Array(attr.buffer), 0) === 0;
}
