// Opens WebGPU in Node: the package `webgpu` (Dawn), an optional peer dependency.

import type { Gpu } from "./api.js";
import { GpuClock } from "./clock.js";
import { dawnVersion } from "./dawn-package.js";
import { DawnEvents } from "./events.js";
import { openGpu } from "./open-gpu.js";
import { checkBits } from "./self-check.js";
import { WebGpuDevice } from "./webgpu-device.js";

interface DawnPackage {
  create(flags: readonly string[]): Gpu;
}

/** Earlier builds do not load on glibc 2.36, or lack limits that the device asks for. */
const LEAST_VERSION = [0, 6, 2] as const;
/** Times are not rounded to 0.1 ms, as they are for pages on the web. */
const DAWN_FLAGS = ["disable-dawn-features=timestamp_quantization"];
const INSTALL = "Install it: npm install webgpu";

/** The package's own entry, or why it cannot be used. */
async function loadDawn(): Promise<DawnPackage | string> {
  const version = dawnVersion();
  if (version === null) return `it needs the package webgpu. ${INSTALL}`;
  if (!isAtLeast(version))
    return `the package webgpu is ${version}; ${LEAST_VERSION.join(".")} or later is needed. ${INSTALL}`;
  try {
    return (await import("webgpu" as string)) as DawnPackage;
  } catch (error) {
    return `the package webgpu does not load: ${(error as Error).message}`;
  }
}

function isAtLeast(version: string): boolean {
  const found = version.split(/[.-]/).map(Number);
  for (const [i, least] of LEAST_VERSION.entries()) if (found[i] !== least) return found[i]! > least;
  return true;
}

export interface OpenOptions {
  /** Software adapters are taken too. */
  readonly allowsSoftware: boolean;
  /** Kernels without barriers; left out: on software adapters. */
  readonly isSerial?: boolean;
}

/** The device, or why there is none, in one line. */
export async function openNodeGpu({ allowsSoftware, isSerial }: OpenOptions): Promise<WebGpuDevice | string> {
  const dawn = await loadDawn();
  if (typeof dawn === "string") return dawn;
  const events = new DawnEvents();
  const opened = await openGpu(dawn.create(DAWN_FLAGS), events, isSerial);
  if (typeof opened === "string") return opened;
  if (opened.isSoftware && !allowsSoftware) {
    opened.queue.handle.destroy();
    return `there is no adapter of a GPU, but one in software (${opened.adapter}), which runs where it is asked for: --device webgpu`;
  }
  const { queue } = opened;
  if (process.env.PAGODA_WEBGPU_CLOCK !== undefined && queue.handle.features.has("timestamp-query"))
    queue.clock = new GpuClock(queue);
  const device = new WebGpuDevice(opened);
  await checkBits(device, (line) => process.stderr.write(`pagoda: ${line}\n`));
  return device;
}
