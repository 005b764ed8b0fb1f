// What bounds a launch, and how an op says that it cannot.

import { errorFor } from "../../core/errors.js";

/** The most workgroups of a dimension, by the specification. */
export const MOST_GROUPS = 65535;

export function unsupported(call: string, reason: string): Error {
  return errorFor("device_call", { device: "webgpu", call, status: -1, reason });
}
