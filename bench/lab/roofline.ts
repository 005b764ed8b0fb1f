// How near a kernel comes to what the machine can do, on a machine that gives more one moment and less the next: in every short window the
// peaks are run, then the kernel, then the peaks again, and the window's share is of the mean of both. What is reported is the median.

import { median } from "../../src/cli/bench/statistics.js";
import { CpuDevice } from "../../src/device/cpu/cpu-device.js";
import type { PeakRun } from "../../src/device/cpu/kernel-device.js";
import { ensureLibrary } from "../../src/device/cpu/library.js";
import type { Tensor } from "../../src/device/device.js";
import { COLD_BYTES } from "./peaks.js";

const WINDOW_MS = 5;
const MOVED_BYTES = 16 * 2 ** 20; // by a run of the memory peak: long out of cache when their turn comes again
const PEAK_MS = 0.5; // of a run of the others

/** What one call does. */
export interface CallWork {
  /** f32; a product that is added counts as two. */
  readonly operations: number;
  /** That have to move between memory and the processor. */
  readonly bytes: number;
}

export interface RooflineResult {
  /** Of a call, the median. */
  readonly ms: number;
  /** Shares of the peaks; of the roofline: of whichever bound is the nearer one. Medians over windows. */
  readonly compute: number;
  readonly memory: number;
  readonly roofline: number;
  readonly windows: number;
}

export class Roofline {
  readonly #meter: CpuDevice;
  readonly #cold: Tensor[]; // MOVED_BYTES each
  #turn = 0;

  private constructor(threads: number) {
    this.#meter = new CpuDevice({ threads });
    const ones = new Float32Array(MOVED_BYTES / 4).fill(1);
    this.#cold = Array.from({ length: COLD_BYTES / MOVED_BYTES }, () => this.#meter.loadTensor(ones, 1, ones.length));
  }

  /** Null, with a line on stderr, where the native library cannot be used. */
  static async open(threads: number): Promise<Roofline | null> {
    try {
      await ensureLibrary();
      return new Roofline(threads);
    } catch (error) {
      process.stderr.write(`pagoda: no peaks to compare with: ${(error as Error).message}\n`);
      return null;
    }
  }

  close(): void {
    this.#meter.close();
  }

  /** `call` gets the number of the call; at least five windows, as many as `budgetMs` has room for. */
  measure(call: (round: number) => void, work: CallWork, budgetMs: number): RooflineResult {
    let round = 0;
    call(round++);
    const seen: { ms: number; compute: number; memory: number; roofline: number }[] = [];
    const end = performance.now() + budgetMs;
    while (seen.length < 5 || performance.now() < end) {
      const before = this.#peaks();
      const calls = timed(WINDOW_MS, () => {
        call(round++);
        return 1;
      });
      const after = this.#peaks();
      const share = (kind: "float" | "memory", amount: number) =>
        (amount * calls.work) / calls.seconds / ((before[kind] + after[kind]) / 2);
      const [compute, memory] = [share("float", work.operations), share("memory", work.bytes)];
      const ms = (1000 * calls.seconds) / calls.work;
      seen.push({ ms, compute, memory, roofline: Math.max(compute, memory) });
    }
    const middle = (key: keyof (typeof seen)[number]) => median(seen.map((window) => window[key]));
    return {
      ms: middle("ms"),
      compute: middle("compute"),
      memory: middle("memory"),
      roofline: middle("roofline"),
      windows: seen.length,
    };
  }

  /** Per second. */
  #peaks(): { float: number; memory: number } {
    const rate = (kind: PeakRun, ms: number, data: Tensor | null): number => {
      const { work, seconds } = timed(ms, () => this.#meter.runPeak(kind, data));
      return work / seconds;
    };
    this.#meter.runPeak("float", null); // wakes the threads
    const float = rate("float", PEAK_MS, null);
    return { float, memory: rate("update", 0, this.#cold[this.#turn++ % this.#cold.length]!) };
  }
}

/** Runs `part` until `ms` have passed, at least once; the sum of what it returns. */
function timed(ms: number, part: () => number): { work: number; seconds: number } {
  const start = performance.now();
  let work = 0;
  let passed: number;
  do {
    work += part();
    passed = performance.now() - start;
  } while (passed < ms);
  return { work, seconds: passed / 1000 };
}
