// The reference device holds everything in JavaScript buffers, which have a limit.

import { DeviceError } from "../../core/errors.js";

/** Node 20 aborts on views larger than this. */
const MAX_BYTES = 2 ** 32;

/** Throws out_of_memory before the allocation that could not succeed. */
export function checkBytes(value: number, what: string, remedy = "Use the cpu device."): void {
  if (value <= MAX_BYTES) return;
  throw new DeviceError("out_of_memory", { device: "reference", value, what, limit: MAX_BYTES, remedy });
}
