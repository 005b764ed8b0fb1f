// A device that times its ops: every call goes to the device it stands for, and its time is added to the op's. The engine does
// not know; nothing is timed unless a benchmark asks.

import { performance } from "node:perf_hooks";
import type { Device } from "../../device/device.js";

/** The ops of a step. `stage` copies integers on the host; all others compute. */
const OPS = [
  "stage",
  "embed",
  "addPositions",
  "addTypes",
  "matmul",
  "gatedMatmul",
  "adaptedGatedMatmul",
  "rmsNorm",
  "addRmsNorm",
  "layerNorm",
  "map",
  "gatherLogitRows",
  "copyHeads",
  "rotaryTable",
  "rotary",
  "rotaryAppend",
  "attention",
  "copyPage",
  "shortConv",
  "decayGates",
  "linearAttention",
  "copyStates",
  "mixtureOfExperts",
  "sample",
  "read",
  "readLater",
  "submit",
  "waitFor",
] as const;

export type TimedOp = (typeof OPS)[number];

export interface OpTime {
  calls: number;
  ms: number;
}

export class OpTimes {
  readonly ops = new Map<TimedOp, OpTime>(OPS.map((op) => [op, { calls: 0, ms: 0 }]));

  reset(): void {
    for (const time of this.ops.values()) {
      time.calls = 0;
      time.ms = 0;
    }
  }

  /** Time in ops that compute. */
  get computeMs(): number {
    let ms = 0;
    for (const [op, time] of this.ops) if (op !== "stage") ms += time.ms;
    return ms;
  }

  get calls(): number {
    let calls = 0;
    for (const time of this.ops.values()) calls += time.calls;
    return calls;
  }
}

export function timedDevice(device: Device, times: OpTimes): Device {
  const methods = device as unknown as Record<string, Method>;
  const timed = {} as Record<string, unknown>;
  for (
    let part: object | null = device;
    part !== null && part !== Object.prototype;
    part = Object.getPrototypeOf(part)
  ) {
    for (const name of Object.getOwnPropertyNames(part)) {
      if (name in timed || name === "constructor") continue;
      const value = (device as unknown as Record<string, unknown>)[name];
      timed[name] = typeof value === "function" ? value.bind(device) : value;
    }
  }
  for (const [op, time] of times.ops) {
    if (methods[op] !== undefined) timed[op] = timedMethod(device, methods[op], time);
  }
  return timed as unknown as Device;
}

type Method = (...args: unknown[]) => unknown;

/** Ten parameters in place of a list of them, and no global's getter for the clock: what timing adds counts as the loop's own. */
function timedMethod(device: Device, method: Method, time: OpTime): Method {
  return (a, b, c, d, e, f, g, h, i, j) => {
    const start = performance.now();
    const result = method.call(device, a, b, c, d, e, f, g, h, i, j);
    time.ms += performance.now() - start;
    time.calls++;
    return result;
  };
}
