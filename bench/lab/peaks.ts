// What this machine can do at best on the device's threads, measured by the native library: the yardstick of the kernel benches.

import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import { ensureLibrary } from "../../src/device/cpu/library.js";
import type { Device, DeviceInfo } from "../../src/device/device.js";

interface PeakMeter {
  measurePeak(kind: "float" | "int8" | "memory"): number;
  close(): void;
}

export interface Peaks {
  /** f32 multiply-adds, two operations each. */
  readonly floatPerSecond: number;
  /** int8 multiply-adds, two operations each. */
  readonly int8PerSecond: number;
  readonly bytesPerSecond: number;
}

/** Peaks are null, with a line on stderr, where the native library cannot be used. */
export async function measurePeaks(open: () => Promise<Device>): Promise<{ info: DeviceInfo; peaks: Peaks | null }> {
  const device = await open();
  const { info } = device;
  device.close();
  try {
    await ensureLibrary();
    const cpu = new CpuDevice({ threads: info.numWorkers }) as unknown as PeakMeter;
    const peaks = {
      floatPerSecond: cpu.measurePeak("float"),
      int8PerSecond: cpu.measurePeak("int8"),
      bytesPerSecond: cpu.measurePeak("memory"),
    };
    cpu.close();
    return { info, peaks };
  } catch (error) {
    process.stderr.write(`pagoda: no peaks to compare with: ${(error as Error).message}\n`);
    return { info, peaks: null };
  }
}

export function describePeaks(peaks: Peaks | null): string {
  if (peaks === null) return "peaks not measured";
  const giga = (value: number) => (value / 1e9).toFixed(value > 1e11 ? 0 : 1);
  const { floatPerSecond, int8PerSecond, bytesPerSecond } = peaks;
  return `peaks: f32 ${giga(floatPerSecond)} GFLOP/s, int8 ${giga(int8PerSecond)} GOP/s, memory ${giga(bytesPerSecond)} GB/s`;
}

export interface Work {
  readonly operations: number;
  /** Read at least once from memory. */
  readonly bytes: number;
  readonly isInteger: boolean;
}

/** Shares of the peaks that a piece of work reached; of the roofline: of whichever bound is the nearer one. */
export function sharesOf(peaks: Peaks | null, work: Work, seconds: number) {
  if (peaks === null) return { compute: null, memory: null, roofline: null };
  const peak = work.isInteger ? peaks.int8PerSecond : peaks.floatPerSecond;
  const compute = work.operations / seconds / peak;
  const memory = work.bytes / seconds / peaks.bytesPerSecond;
  return { compute, memory, roofline: Math.max(compute, memory) };
}

/** For a table. */
export function percent(share: number | null): number {
  return share === null ? Number.NaN : 100 * share;
}

/** More than the caches hold: what is used in turns within as much comes from memory. */
export const COLD_BYTES = 128 * 2 ** 20;

/** The median time of a call in seconds: repeated until `budgetMs` is spent, at least five times after one warm-up. */
export function timeCall(call: (round: number) => void, budgetMs: number): number {
  call(0);
  const took: number[] = [];
  const end = performance.now() + budgetMs;
  while (took.length < 5 || (performance.now() < end && took.length < 10_000)) {
    const start = performance.now();
    call(took.length);
    took.push((performance.now() - start) / 1000);
  }
  return took.sort((a, b) => a - b)[took.length >> 1]!;
}
