// What every group of ops needs: the context, the compiled kernels, the launch queue, and the operands of matmuls.

import type { StepRoom } from "../device.js";
import { KIND, type Kind } from "./codes.js";
import { check } from "./driver/abi.js";
import type { CudaContext } from "./driver/context.js";
import { LaunchQueue } from "./driver/launch-queue.js";
import { CudaModules } from "./driver/modules.js";
import { PageCopies } from "./driver/page-copies.js";
import { LowRankRoom } from "./low-rank.js";
import { PartialStates } from "./partial-states.js";
import { type CudaTensor, type Operand, ORDER } from "./tensor.js";

const STAGING_BYTES = 16 * 2 ** 20;
const COUNTER_BYTES = 16;
/** What stays free for the driver: graphs, and kernels that no rehearsal called. */
const DRIVER_BYTES = 256 * 2 ** 20;
/**
 * On Hopper the most tokens of an operand in strip order. More go to the tile kernel, whose warps share what they read of them; each warp of
 * the stream kernel would read all of them for its strip.
 */
export const STREAM_TOKENS = 32;
/** On Hopper: room for the sums of chains that run side by side, and tiles of which they may be (matmul-tile.cuh). */
export const PARTS_BYTES = 24 * 2 ** 20;
export const MOST_TILES = 1024;

export class CudaRuntime {
  readonly context: CudaContext;
  readonly modules: CudaModules;
  readonly queue: LaunchQueue;
  readonly pageCopies: PageCopies;
  readonly lowRankRoom = new LowRankRoom();
  readonly partials = new PartialStates();
  /** What steps have at most, once it is known. */
  stepRoom: StepRoom | null = null;
  /** Whether matmuls have Hopper's kernels (sm_90a): bulk copies for few tokens, wgmma for many. */
  readonly isHopper: boolean;
  /** Integers that kernels count in, zero between launches: what blocks of the attention kernels have taken. */
  readonly counters: number;
  /** Sums of chains, then how many of each tile have come; zero between launches. */
  readonly parts: number;
  readonly #rehearsed: number[] = [];
  readonly #pinned = new WeakMap<ArrayBufferLike, number>();
  readonly #staging: { address: number; buffer: ArrayBuffer };

  constructor(context: CudaContext) {
    this.context = context;
    this.modules = new CudaModules(context);
    this.queue = new LaunchQueue(context);
    this.pageCopies = new PageCopies(context);
    this.isHopper = context.facts.arch === "sm_90a";
    this.#staging = context.allocPinned(STAGING_BYTES);
    this.counters = context.alloc(COUNTER_BYTES, "counters");
    this.parts = this.isHopper ? context.alloc(PARTS_BYTES + 4 * MOST_TILES, "sums of chains") : 0;
  }

  /** Begins a launch over [n rows] x [columns]: one row per blockIdx.x, which alone goes beyond 65,535, blocks of 256 threads along the columns. */
  overRows(source: string, kernel: string, columns: number, n: number): LaunchQueue {
    return this.queue.begin(this.modules.functionOf(source, kernel), n, Math.ceil(columns / 256), 1, 256, 0);
  }

  /** A tenth of what is left stays free; where steps have what they need, little: for flights' tokens and integers, graphs of the driver. */
  freeMemory(): number {
    const free = this.context.freeBytes();
    const margin = this.stepRoom === null ? free : DRIVER_BYTES + 0.02 * free;
    return Math.floor(free - Math.min(0.1 * free, margin));
  }

  /** Memory of a pool; one of a rehearsal is taken back at its end. */
  allocPool(bytes: number, what: string): number {
    const address = this.context.alloc(bytes, what);
    if (this.queue.isRehearsal) this.#rehearsed.push(address);
    return address;
  }

  /** Launches of `run` are forgotten, and its pools taken back. */
  rehearse(run: () => void): void {
    const { queue } = this;
    queue.flush();
    queue.isRehearsal = true;
    try {
      run();
      queue.settle();
    } finally {
      queue.deferred = null;
      queue.isRehearsal = false;
      this.context.synchronize();
      for (const address of this.#rehearsed.splice(0)) this.context.free(address);
    }
  }

  /** Host bytes to device memory, in stream order. Not for use in a step. */
  upload(address: number, bytes: Uint8Array): void {
    this.queue.flush();
    const { driver, stream } = this.context;
    const staging = new Uint8Array(this.#staging.buffer);
    for (let at = 0; at < bytes.length; at += STAGING_BYTES) {
      const part = bytes.subarray(at, at + STAGING_BYTES);
      this.context.synchronize(); // the staging memory is free again
      staging.set(part);
      check(driver, driver.copyIn(address + at, this.#staging.address, part.length, stream), "copyIn", address + at);
    }
  }

  /** Device memory to host bytes; waits. */
  download(bytes: Uint8Array, address: number): void {
    this.queue.flush();
    const { driver, stream } = this.context;
    const staging = new Uint8Array(this.#staging.buffer);
    for (let at = 0; at < bytes.length; at += STAGING_BYTES) {
      const size = Math.min(STAGING_BYTES, bytes.length - at);
      check(driver, driver.copyOut(this.#staging.address, address + at, size, stream), "copyOut", address + at);
      this.context.synchronize();
      bytes.set(staging.subarray(0, size), at);
    }
  }

  /** Page-locked memory whose address pinnedAddress() knows. */
  allocPinned(bytes: number): ArrayBuffer {
    const { address, buffer } = this.context.allocPinned(bytes);
    this.#pinned.set(buffer, address);
    return buffer;
  }

  pinnedAddress({ buffer, byteOffset }: ArrayBufferView): number {
    const address = this.#pinned.get(buffer);
    if (address === undefined) throw new RangeError("the memory is not of allocHost()");
    return address + byteOffset;
  }

  /** A queued copy to page-locked memory, after everything queued so far. */
  copyOut(to: number, from: number, bytes: number): void {
    this.queue.flush();
    const { driver, stream } = this.context;
    check(driver, driver.copyOut(to, from, bytes, stream), "copyOut", to, from, bytes);
  }

  /** Writes the arguments of `out`'s operand for a producer of n rows, and says that the operand will be up to date. */
  operandOut(out: CudaTensor, n: number): LaunchQueue {
    const { operand } = out;
    out.storage.version++;
    // Padded columns must stay zero, and only pack_operand writes them.
    if (operand === null || operand.paddedCols !== out.cols || n === 0) return this.noOperand();
    this.#layOut(operand, n, operand.kind);
    operand.version = out.storage.version;
    return this.operandArgs(operand);
  }

  operandArgs(operand: Pick<Operand, "address" | "tokens8" | "kind" | "order">): LaunchQueue {
    return this.queue.long(operand.address).int(operand.tokens8).int(operand.kind).int(operand.order).int(0);
  }

  noOperand(): LaunchQueue {
    return this.queue.long(0).int(0).int(0).int(0).int(0);
  }

  /** The operand of the first n rows of x in `kind`: the one its producer wrote, else converted now. */
  operandOf(x: CudaTensor, n: number, kind: Kind): Operand {
    x.operand ??= this.#newOperand(x, kind);
    const operand = x.operand;
    if (operand.version === x.storage.version && operand.kind === kind && operand.n === n) return operand;
    this.#layOut(operand, n, kind);
    operand.version = x.storage.version;
    const pairs = operand.paddedCols / 2;
    const kernel = this.modules.functionOf("rows", "pack_operand");
    this.queue.begin(kernel, n, Math.ceil(pairs / 256), 1, 256, 0).long(x.address);
    this.operandArgs(operand).long(x.stride).int(n).int(x.cols).int(operand.paddedCols).int(0).end();
    return operand;
  }

  #newOperand(x: CudaTensor, kind: Kind): Operand {
    const paddedCols = Math.ceil(x.cols / 64) * 64;
    const maxTokens = Math.ceil(x.rows / 256) * 256;
    const address = this.context.alloc(
      maxTokens * paddedCols * 2,
      `the matmul operand of a ${x.rows} x ${x.cols} tensor`,
    );
    return {
      address,
      maxTokens,
      paddedCols,
      version: -1,
      kind,
      order: ORDER.strip,
      tokens8: 0,
      n: 0,
    };
  }

  #layOut(operand: Operand, n: number, kind: Kind): void {
    operand.kind = kind;
    operand.n = n;
    operand.order = this.isHopper && n > STREAM_TOKENS ? ORDER.tile : ORDER.strip;
    operand.tokens8 = operand.order === ORDER.tile ? Math.ceil(n / 256) * 32 : stripTiles(n);
  }

  /** Milliseconds of device time of what `run` queues. Not for use in a step. */
  time(run: () => void): number {
    const { context, queue } = this;
    const { driver, stream } = context;
    const out = new BigUint64Array(1);
    const events = [0, 1].map(() => {
      check(driver, driver.eventCreate(out, 0), "eventCreate");
      return Number(out[0]);
    });
    queue.flush();
    // As in a step: one graph, so that short kernels are not hidden behind their launches.
    const { isHeld } = queue;
    queue.isHeld = true;
    check(driver, driver.eventRecord(events[0]!, stream), "eventRecord");
    run();
    queue.flush();
    check(driver, driver.eventRecord(events[1]!, stream), "eventRecord");
    queue.isHeld = isHeld;
    queue.flush();
    context.synchronize();
    const ms = new Float32Array(1);
    check(driver, driver.eventElapsed(ms, events[0]!, events[1]!), "eventElapsed");
    for (const event of events) driver.eventDestroy(event);
    return ms[0]!;
  }

  close(): void {
    this.queue.close();
    this.pageCopies.close();
    this.modules.close();
    this.context.close();
  }
}

/** Groups of 8 tokens that the strip kernel works on at a time: 1, 2, 4 or 8. */
export function stripWidth(n: number): number {
  return n <= 8 ? 1 : n <= 16 ? 2 : n <= 32 ? 4 : 8;
}

/** Groups of 8 tokens in an operand in strip order. */
export function stripTiles(n: number): number {
  const width = stripWidth(n);
  return Math.ceil(n / (8 * width)) * width;
}

export function kindOf(dtype: string): Kind {
  return dtype === "f16" ? KIND.f16 : KIND.bf16;
}
