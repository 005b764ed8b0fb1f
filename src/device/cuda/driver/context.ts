// One GPU as this process holds it: the primary context, one stream, memory on both sides of the bus.

import { DeviceError, errorFor } from "../../../core/errors.js";
import { check, DRIVER, type Driver, openLibrary, viewMemory } from "./abi.js";
import { archOf, imagesFor, PTX } from "./sources.js";

/** CUDA 12.0: the first driver that knows sm_90 and all calls this device makes. */
const LEAST_DRIVER = 12000;
/** mma.sync on bf16 and cp.async begin with sm_80. */
const LEAST_MAJOR = 8;
const OUT_OF_MEMORY = 2;
/** Where a block has 99 KB of shared memory, not 163 or more. */
const SMALL_SHARED = ["sm_86", "sm_89", "sm_120"];
const ATTRIBUTE = { multiprocessors: 16, major: 75, minor: 76, sharedPerBlock: 97 };

/** What must be known of a GPU before anything runs on it. */
export interface GpuFacts {
  readonly index: number;
  readonly name: string;
  /** "sm_90a": the architecture whose kernels are used. */
  readonly arch: string;
  /** What they may be compiled for, the best first. */
  readonly images: readonly string[];
  readonly multiprocessors: number;
  /** Most shared memory of one block. */
  readonly sharedBytes: number;
  readonly memoryBytes: number;
  readonly driverVersion: number;
  /** Whether kernels may begin before the one ahead has ended (programmatic dependent launch, sm_90 on). */
  readonly canOverlap: boolean;
}

export class CudaContext {
  readonly driver: Driver;
  readonly facts: GpuFacts;
  readonly stream: number;
  /** Share of the GPU's memory this engine may take. */
  readonly #budget: number;
  readonly #ordinal: number;
  readonly #out = new BigUint64Array(1);
  readonly #blocks = new Map<number, number>(); // device address -> bytes
  readonly #pinned: number[] = [];
  #allocated = 0;
  /** Grows when device memory is taken or given back: addresses noted before may be another's now. */
  generation = 0;
  /** Blocks of device memory and of page-locked memory taken since the start. */
  numAllocations = 0;
  #isClosed = false;

  /** Throws DeviceError device_unavailable with one line that says what is missing. */
  constructor(index: number, memoryShare: number, driver: Driver = openDriver()) {
    this.driver = driver;
    const status = driver.init(0);
    if (status !== 0) throw unavailable(index, `the driver finds no GPU it can use (cuInit gave ${status})`);
    this.facts = readFacts(driver, index);
    this.#ordinal = this.#int("deviceGet", (out) => driver.deviceGet(out, index));
    check(driver, driver.contextRetain(this.#out, this.#ordinal), "contextRetain", this.#ordinal);
    check(driver, driver.contextSet(Number(this.#out[0])), "contextSet");
    check(driver, driver.streamCreate(this.#out, 1), "streamCreate");
    this.stream = Number(this.#out[0]);
    this.#budget = Math.floor(this.facts.memoryBytes * memoryShare);
  }

  /** Bytes that can still be allocated: what the GPU has free, within this engine's share. */
  freeBytes(): number {
    const free = new BigUint64Array(1);
    check(this.driver, this.driver.memInfo(free, this.#out), "memInfo");
    return Math.max(0, Math.min(Number(free[0]), this.#budget - this.#allocated));
  }

  get allocatedBytes(): number {
    return this.#allocated;
  }

  /** Zeroed device memory, aligned to 256 bytes; `what` names it when there is none left. */
  alloc(bytes: number, what: string): number {
    const size = Math.max(256, Math.ceil(bytes / 256) * 256);
    const { driver } = this;
    const status = this.#allocated + size > this.#budget ? OUT_OF_MEMORY : driver.memAlloc(this.#out, size);
    if (status === OUT_OF_MEMORY) {
      throw errorFor("out_of_memory", {
        device: "cuda",
        value: size,
        what,
        limit: this.freeBytes(),
        remedy: "Use a smaller model, fewer pages, a smaller batch or a larger share of the GPU (gpuMemory).",
      });
    }
    check(driver, status, "memAlloc", size);
    const address = Number(this.#out[0]);
    this.generation++;
    this.numAllocations++;
    this.#blocks.set(address, size);
    this.#allocated += size;
    check(driver, driver.fill(address, 0, size, this.stream), "fill", address, 0, size);
    return address;
  }

  free(address: number): void {
    const bytes = this.#blocks.get(address);
    if (bytes === undefined) return;
    this.generation++;
    this.#blocks.delete(address);
    this.#allocated -= bytes;
    check(this.driver, this.driver.memFree(address), "memFree", address);
  }

  /** Page-locked host memory, which copies run to and from without the CPU. */
  allocPinned(bytes: number): { address: number; buffer: ArrayBuffer } {
    const size = Math.max(64, bytes);
    check(this.driver, this.driver.hostAlloc(this.#out, size, 0), "hostAlloc", size);
    const address = Number(this.#out[0]);
    this.#pinned.push(address);
    this.numAllocations++;
    return { address, buffer: viewMemory(address, size) };
  }

  synchronize(): void {
    check(this.driver, this.driver.streamSynchronize(this.stream), "streamSynchronize");
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { driver } = this;
    driver.streamSynchronize(this.stream);
    for (const address of this.#blocks.keys()) driver.memFree(address);
    for (const address of this.#pinned) driver.hostFree(address);
    this.#blocks.clear();
    driver.streamDestroy(this.stream);
    driver.contextRelease(this.#ordinal);
  }

  #int(name: keyof typeof DRIVER, run: (out: Int32Array) => number): number {
    const out = new Int32Array(1);
    check(this.driver, run(out), name);
    return out[0]!;
  }
}

/** Throws DeviceError device_unavailable where there is none. */
export function openDriver(): Driver {
  const named = process.env.PAGODA_CUDA_DRIVER;
  const paths = named === undefined ? ["libcuda.so.1", "libcuda.so", "nvcuda.dll"] : [named];
  try {
    return openLibrary(paths, DRIVER);
  } catch (error) {
    const [line] = (error as Error).message.split("\n");
    throw unavailable(0, `no NVIDIA driver is installed (${paths.join(", ")}: ${line})`);
  }
}

function readFacts(driver: Driver, index: number): GpuFacts {
  const out = new Int32Array(1);
  const version = driver.driverVersion(out) === 0 ? out[0]! : 0;
  if (version < LEAST_DRIVER) {
    throw unavailable(index, `the driver supports CUDA ${versionOf(version)}; ${versionOf(LEAST_DRIVER)} is needed`);
  }
  const count = driver.deviceCount(out) === 0 ? out[0]! : 0;
  if (index >= count) throw unavailable(index, `this machine has ${count} GPU${count === 1 ? "" : "s"}`);
  check(driver, driver.deviceGet(out, index), "deviceGet", index);
  const device = out[0]!;
  const attribute = (code: number): number => {
    check(driver, driver.deviceAttribute(out, code, device), "deviceAttribute", code, device);
    return out[0]!;
  };
  const text = new Uint8Array(128);
  check(driver, driver.deviceName(text, text.length, device), "deviceName");
  const name = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
  const major = attribute(ATTRIBUTE.major);
  const gpu = archOf(major, attribute(ATTRIBUTE.minor));
  if (major < LEAST_MAJOR) throw unavailable(index, `${name} is ${gpu}; sm_${LEAST_MAJOR}0 is needed`);
  // For tests: the kernels of an earlier GPU.
  const wanted = process.env.PAGODA_CUDA_ARCH ?? gpu;
  const images = imagesFor(gpu, wanted);
  const arch = images[0] !== PTX ? images[0]! : wanted === gpu ? "sm_80" : wanted;
  const free = new BigUint64Array(1);
  const total = new BigUint64Array(1);
  const context = new BigUint64Array(1);
  // Memory can be asked for inside a context only.
  check(driver, driver.contextRetain(context, device), "contextRetain", device);
  check(driver, driver.contextSet(Number(context[0])), "contextSet");
  check(driver, driver.memInfo(free, total), "memInfo");
  driver.contextRelease(device);
  return {
    index,
    name,
    arch,
    images,
    multiprocessors: attribute(ATTRIBUTE.multiprocessors),
    sharedBytes: Math.min(attribute(ATTRIBUTE.sharedPerBlock), SMALL_SHARED.includes(arch) ? 99 * 1024 : Infinity),
    memoryBytes: Number(total[0]),
    driverVersion: version,
    canOverlap: !/^sm_8\d$/.test(arch),
  };
}

function versionOf(version: number): string {
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}

function unavailable(index: number, reason: string): DeviceError {
  return new DeviceError("device_unavailable", {
    device: index === 0 ? "cuda" : `cuda:${index}`,
    reason: `${reason}.`,
  });
}
