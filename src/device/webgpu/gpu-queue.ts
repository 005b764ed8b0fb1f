// What is queued for the GPU: one encoder and one compute pass from submit to submit, programs and bind groups made once, the parameters of
// all launches in one uniform buffer that is written before the submit.

import { DeviceError } from "../../core/errors.js";
import type { GpuEncoder, GpuHandle, GpuMemory, GpuPass } from "./api.js";
import { STAGE_COMPUTE, USAGE } from "./api.js";
import type { GpuClock } from "./clock.js";
import { isBindingWritten, type Kernel, shaderOf } from "./kernel.js";
import type { TileSize } from "./kernels/tile.js";

const PARAM_BYTES = 256; // of one launch, and the offset alignment that every adapter takes
const PARAM_WORDS = PARAM_BYTES / 4;
/** Launches between two submits, at most: with more of them the queue submits on its own. */
const MAX_LAUNCHES = 1024;
const MAX_OPERANDS = 12;

/** A buffer with a number, by which bind groups are found. */
export class GpuBuffer {
  static #last = 0;
  readonly id = ++GpuBuffer.#last;
  readonly memory: GpuMemory;
  readonly byteLength: number;
  /** Counts the launches and writes that changed it. */
  version = 0;

  constructor(memory: GpuMemory, byteLength: number) {
    this.memory = memory;
    this.byteLength = byteLength;
  }
}

/** A kernel whose operands share bindings in one way. */
interface Program {
  readonly pipeline: object;
  readonly layout: object;
  /** Operands that have a binding. */
  readonly bound: readonly number[];
}

/** What is known of the first buffers of a launch; behind all of them, the program and its bind group. */
interface LaunchNode {
  readonly next: Map<number, LaunchNode>;
  program: Program | null;
  group: object | null;
}

function nodeOf<K>(nodes: Map<K, LaunchNode>, key: K): LaunchNode {
  let node = nodes.get(key);
  if (node === undefined) {
    node = { next: new Map(), program: null, group: null };
    nodes.set(key, node);
  }
  return node;
}

export class GpuQueue {
  readonly handle: GpuHandle;
  /** Kernels without barriers are taken where there are some: the adapter is a processor. */
  readonly isSerial: boolean;
  /** The tiles of products that the adapter takes. */
  readonly tiles: TileSize;
  /** Buffers that were allocated, in bytes. */
  allocatedBytes = 0;
  launches = 0;
  /** Times every pass. */
  clock: GpuClock | null = null;
  /** Nothing is computed any more. */
  isLost = false;
  #fault: string | null = null;
  #isOutOfMemory = false;
  readonly #programs = new Map<Kernel, Map<number, Program>>();
  readonly #known = new Map<Kernel, LaunchNode>();
  readonly #params: GpuBuffer;
  readonly #words = new Uint32Array(MAX_LAUNCHES * PARAM_WORDS);
  readonly #ints = new Int32Array(this.#words.buffer);
  readonly #floats = new Float32Array(this.#words.buffer);
  readonly #offset = [0];
  #encoder: GpuEncoder | null = null;
  #pass: GpuPass | null = null;
  #numLaunches = 0; // since the last submit
  // The launch being made.
  #kernel: Kernel | null = null;
  readonly #operands: GpuBuffer[] = [];
  #numOperands = 0;
  #word = 0;

  constructor(handle: GpuHandle, isSerial: boolean, tiles: TileSize) {
    this.handle = handle;
    this.isSerial = isSerial;
    this.tiles = tiles;
    handle.onuncapturederror = ({ error }) => {
      this.#fault ??= error.message;
      if (error.constructor.name === "GPUOutOfMemoryError") this.#isOutOfMemory = true;
    };
    void handle.lost.then(({ reason, message }) => {
      if (reason === "destroyed") return;
      this.isLost = true;
      this.#fault ??= `the device was lost: ${message}`;
    });
    this.#params = this.alloc(MAX_LAUNCHES * PARAM_BYTES, "launch parameters", USAGE.uniform | USAGE.copyDst);
  }

  alloc(bytes: number, what: string, usage: number = USAGE.storage | USAGE.copySrc | USAGE.copyDst): GpuBuffer {
    const size = Math.max(16, Math.ceil(bytes / 16) * 16);
    const { limits } = this.handle;
    const limit =
      usage & USAGE.storage ? Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize) : limits.maxBufferSize;
    if (size > limit)
      throw new DeviceError("out_of_memory", {
        device: "webgpu",
        value: size,
        what,
        limit,
        remedy: "Use a smaller size, or --device cpu.",
      });
    const memory = this.handle.createBuffer({ size, usage, label: what });
    this.allocatedBytes += size;
    return new GpuBuffer(memory, size);
  }

  free(buffer: GpuBuffer): void {
    this.submit();
    this.allocatedBytes -= buffer.byteLength;
    buffer.memory.destroy();
  }

  /** Writes behind all that is queued. The data is read before the call returns. */
  write(to: GpuBuffer, offset: number, data: ArrayBufferView, from = 0, bytes = data.byteLength): void {
    this.submit();
    this.writeNow(to, offset, data, from, bytes);
  }

  /** Writes ahead of what is queued since the last submit, which may not use these bytes. */
  writeNow(to: GpuBuffer, offset: number, data: ArrayBufferView, from = 0, bytes = data.byteLength): void {
    if (bytes === 0) return;
    to.version++;
    const { buffer, byteOffset } = data;
    const isShared = typeof SharedArrayBuffer !== "undefined" && buffer instanceof SharedArrayBuffer;
    const isOdd = bytes % 4 !== 0;
    if (!isShared && !isOdd) {
      this.handle.queue.writeBuffer(to.memory, offset, buffer, byteOffset + from, bytes);
      return;
    }
    // Dawn's binding reads no shared memory, and sizes are whole words.
    const copy = new Uint8Array(Math.ceil(bytes / 4) * 4);
    copy.set(new Uint8Array(buffer, byteOffset + from, bytes));
    this.handle.queue.writeBuffer(to.memory, offset, copy.buffer, 0, copy.length);
  }

  // --- launches: begin(kernel), its operands and its parameters in their order, dispatch() ---

  begin(kernel: Kernel): this {
    if (this.#numLaunches === MAX_LAUNCHES) this.submit();
    this.#kernel = kernel;
    this.#numOperands = 0;
    this.#word = this.#numLaunches * PARAM_WORDS;
    return this;
  }

  operand(buffer: GpuBuffer): this {
    this.#operands[this.#numOperands++] = buffer;
    return this;
  }

  u32(value: number): this {
    this.#words[this.#word++] = value;
    return this;
  }

  i32(value: number): this {
    this.#ints[this.#word++] = value;
    return this;
  }

  f32(value: number): this {
    this.#floats[this.#word++] = value;
    return this;
  }

  dispatch(x: number, y = 1, z = 1): void {
    if (x === 0 || y === 0 || z === 0) return;
    const kernel = this.#kernel!;
    const node = this.#nodeFor(kernel);
    node.program ??= this.#programFor(kernel);
    node.group ??= this.#makeGroup(node.program);
    const pass = this.#openPass();
    pass.setPipeline(node.program.pipeline);
    this.#offset[0] = this.#numLaunches * PARAM_BYTES;
    pass.setBindGroup(0, node.group, this.#offset);
    pass.dispatchWorkgroups(x, y, z);
    this.#numLaunches++;
    this.launches++;
    const { operands } = kernel;
    for (let i = 0; i < operands.length; i++) if (operands[i]!.isWritten) this.#operands[i]!.version++;
  }

  /** Copies between buffers, in its place among the launches. */
  copy(from: GpuBuffer, fromOffset: number, to: GpuMemory, toOffset: number, bytes: number): void {
    this.#closePass();
    this.#openEncoder().copyBufferToBuffer(from.memory, fromOffset, to, toOffset, bytes);
  }

  /** Writes the first `count` times of a query set, in its place among the launches. */
  resolve(set: object, count: number, to: GpuBuffer): void {
    this.#closePass();
    this.#openEncoder().resolveQuerySet(set, 0, count, to.memory, 0);
  }

  /** Hands all that is queued to the GPU. */
  submit(): void {
    this.#closePass();
    const encoder = this.#encoder;
    if (encoder === null) return;
    const { queue } = this.handle;
    if (this.#numLaunches > 0) {
      queue.writeBuffer(this.#params.memory, 0, this.#words.buffer, 0, this.#numLaunches * PARAM_BYTES);
    }
    this.#encoder = null;
    this.#numLaunches = 0;
    queue.submit([encoder.finish()]);
  }

  /** Throws what the GPU has reported since the last call. A lost device stays lost. */
  throwFault(): void {
    const fault = this.#fault;
    if (fault === null) return;
    if (!this.isLost) this.#fault = null;
    if (this.#isOutOfMemory)
      throw new DeviceError("out_of_memory", {
        device: "webgpu",
        value: this.allocatedBytes,
        what: "weights and pools",
        limit: 0,
        remedy: "Use --device cpu, a smaller model, --quantize q4 or fewer pages (--num-pages).",
      });
    throw new DeviceError("device_call", { device: "webgpu", call: "a flight", status: -1, reason: fault });
  }

  #openEncoder(): GpuEncoder {
    this.#encoder ??= this.handle.createCommandEncoder();
    return this.#encoder;
  }

  #openPass(): GpuPass {
    this.#pass ??= this.#openEncoder().beginComputePass(this.clock?.next());
    return this.#pass;
  }

  #closePass(): void {
    this.#pass?.end();
    this.#pass = null;
  }

  #nodeFor(kernel: Kernel): LaunchNode {
    let node = nodeOf(this.#known, kernel);
    for (let i = 0; i < this.#numOperands; i++) node = nodeOf(node.next, this.#operands[i]!.id);
    return node;
  }

  #programFor(kernel: Kernel): Program {
    const { operands } = kernel;
    const count = operands.length;
    if (count !== this.#numOperands) throw new TypeError(`${kernel.name}: ${this.#numOperands} operands of ${count}`);
    let pattern = 0;
    for (let i = 0; i < count; i++) pattern = pattern * MAX_OPERANDS + this.#firstSharing(operands, i);
    let programs = this.#programs.get(kernel);
    if (programs === undefined) {
      programs = new Map();
      this.#programs.set(kernel, programs);
    }
    let program = programs.get(pattern);
    if (program === undefined) {
      program = this.#makeProgram(kernel);
      programs.set(pattern, program);
    }
    return program;
  }

  /** The first operand that has operand i's binding. */
  #firstSharing(operands: Kernel["operands"], i: number): number {
    const { id } = this.#operands[i]!;
    let first = -1;
    let isWritten = false;
    for (let j = 0; j < operands.length; j++) {
      if (this.#operands[j]!.id !== id) continue;
      if (first < 0) first = j;
      if (operands[j]!.isWritten) isWritten = true;
    }
    return isWritten || operands[first]!.type === operands[i]!.type ? first : i;
  }

  #makeProgram(kernel: Kernel): Program {
    const { operands, name } = kernel;
    const sharing = operands.map((_, i) => this.#firstSharing(operands, i));
    const bound = sharing.flatMap((first, i) => (first === i ? [i] : []));
    const { handle } = this;
    const storage = bound.map((i, at) => ({
      binding: at + 1,
      visibility: STAGE_COMPUTE,
      buffer: { type: isBindingWritten(operands, sharing, i) ? "storage" : "read-only-storage" },
    }));
    const uniform = { binding: 0, visibility: STAGE_COMPUTE, buffer: { type: "uniform", hasDynamicOffset: true } };
    const layout = handle.createBindGroupLayout({ entries: [uniform, ...storage] });
    const module = handle.createShaderModule({ label: name, code: shaderOf(kernel, sharing) });
    const pipeline = handle.createComputePipeline({
      label: name,
      layout: handle.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: "main" },
    });
    return { pipeline, layout, bound };
  }

  #makeGroup({ layout, bound }: Program): object {
    const entries = bound.map((i, at) => ({ binding: at + 1, resource: { buffer: this.#operands[i]!.memory } }));
    const params = { binding: 0, resource: { buffer: this.#params.memory, size: PARAM_BYTES } };
    return this.handle.createBindGroup({ layout, entries: [params, ...entries] });
  }
}
