// Recurrent layers of the cuda device and the pool of their states (native/cuda/recurrent.cu).

import type {
  Activation,
  KvPool,
  LinearAttentionSpec,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  StepLimits,
  Tensor,
} from "../device.js";
import { ACTIVATION_CODE } from "./codes.js";
import { check } from "./driver/abi.js";
import { CudaKvOps } from "./kv-ops.js";
import type { CudaKvPool } from "./kv-pool.js";
import { addressOf } from "./row-ops.js";
import type { CudaStagedBatch } from "./staged-batch.js";
import type { CudaTensor } from "./tensor.js";

const MAX_TAPS = 16;
/** Tokens of a block of the convolution: many where there are many, so that their inputs are read from the cache. */
const CONV_TOKENS = 8;
/** Of the state: keys of 8 lanes with a quad each, columns of a block (native/cuda/recurrent.cu). */
const QUAD_KEYS = 32;
const MAX_KEY_DIM = 512;
const COLUMNS = 32;

export class CudaStatePool implements StatePool {
  readonly spec: StatePoolSpec;
  readonly address: number;

  constructor(spec: StatePoolSpec, address: number) {
    this.spec = spec;
    this.address = address;
  }

  get byteLength(): number {
    return 4 * this.spec.numSlots * this.spec.floats;
  }
}

export abstract class CudaRecurrentOps extends CudaKvOps {
  allocStatePool(spec: StatePoolSpec): CudaStatePool {
    const bytes = 4 * spec.numSlots * spec.floats;
    return new CudaStatePool(spec, this.runtime.allocPool(bytes, `a state pool of ${spec.numSlots} slots`));
  }

  copyStates(pool: StatePool, from: number, to: number): void {
    const { context, queue } = this.runtime;
    const { address, spec } = pool as CudaStatePool;
    const bytes = 4 * spec.floats;
    queue.flush();
    this.runtime.pageCopies.join(true);
    const status = context.driver.copyWithin(address + to * bytes, address + from * bytes, bytes, context.stream);
    check(context.driver, status, "copyWithin", from, to, bytes);
  }

  readStates(out: Float32Array, pool: StatePool, slot: number): void {
    const { address, spec } = pool as CudaStatePool;
    const bytes = new Uint8Array(out.buffer, out.byteOffset, 4 * spec.floats);
    this.runtime.pageCopies.join(false);
    this.runtime.download(bytes, address + 4 * slot * spec.floats);
  }

  writeStates(pool: StatePool, slot: number, values: Float32Array): void {
    const { address, spec } = pool as CudaStatePool;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, 4 * spec.floats);
    this.runtime.pageCopies.join(true);
    this.runtime.upload(address + 4 * slot * spec.floats, bytes);
  }

  swapOut(out: Uint8Array, pool: KvPool | StatePool, page: number): void {
    this.runtime.queue.flush();
    this.runtime.pageCopies.save(this.runtime.pinnedAddress(out), this.#pageAt(pool, page, out), out.length);
  }

  swapIn(pool: KvPool | StatePool, page: number, bytes: Uint8Array): void {
    this.runtime.queue.flush();
    this.runtime.pageCopies.load(this.#pageAt(pool, page, bytes), this.runtime.pinnedAddress(bytes), bytes.length);
  }

  /** The address of a page, or of a slot of states, that has as many bytes as `like`. */
  #pageAt(pool: KvPool | StatePool, page: number, like: Uint8Array): number {
    const isStates = pool instanceof CudaStatePool;
    const bytes = isStates ? 4 * pool.spec.floats : this.kvPageBytes((pool as CudaKvPool).spec);
    if (like.length !== bytes) throw new RangeError(`${like.length} bytes for a page of ${bytes}`);
    return (pool as CudaStatePool | CudaKvPool).address + page * bytes;
  }

  shortConv(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    activation: Activation,
    pool: StatePool,
    offset: number,
    batch: StagedBatch,
  ): void {
    const staged = batch as CudaStagedBatch;
    if (weight.rows > MAX_TAPS) throw new RangeError(`a convolution of ${weight.rows} taps; ${MAX_TAPS} at most`);
    if (staged.numRows === 0) return;
    const { address, spec } = pool as CudaStatePool;
    const perBlock = staged.numTokens > staged.numRows ? CONV_TOKENS : 1;
    (out as CudaTensor).storage.version++;
    this.runtime
      .overRows(
        "recurrent",
        weight.rows <= 4 ? "short_conv_4" : "short_conv_16",
        x.cols,
        Math.ceil(staged.numTokens / perBlock),
      )
      .long((out as CudaTensor).address)
      .long((x as CudaTensor).address)
      .long((weight as CudaTensor).address)
      .long(addressOf(bias))
      .long(address)
      .long(staged.stateSlots)
      .long(staged.positions)
      .long(staged.qoIndptr)
      .long(staged.stateLens)
      .long(out.stride)
      .long(x.stride)
      .long(weight.stride)
      .long(spec.floats)
      .long(offset)
      .int(x.cols)
      .int(weight.rows)
      .int(ACTIVATION_CODE[activation])
      .int(staged.numTokens)
      .int(staged.numRows)
      .int(perBlock)
      .end();
  }

  decayGates(decay: Tensor, step: Tensor, x: Tensor, bias: Tensor, rate: Tensor, limits: StepLimits, n: number): void {
    if (n === 0) return;
    (decay as CudaTensor).storage.version++;
    (step as CudaTensor).storage.version++;
    this.runtime
      .overRows("recurrent", "decay_gates", x.cols, n)
      .long((decay as CudaTensor).address)
      .long((step as CudaTensor).address)
      .long((x as CudaTensor).address)
      .long((bias as CudaTensor).address)
      .long((rate as CudaTensor).address)
      .long(decay.stride)
      .long(step.stride)
      .long(x.stride)
      .int(x.cols)
      .float(limits.min)
      .float(limits.max)
      .int(0)
      .end();
  }

  linearAttention(
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    rate: Tensor,
    spec: LinearAttentionSpec,
    pool: StatePool,
    offset: number,
    batch: StagedBatch,
  ): void {
    const staged = batch as CudaStagedBatch;
    const { numHeads, numKeyHeads, keyDim, valueDim } = spec;
    if (keyDim > MAX_KEY_DIM) throw new RangeError(`linear attention of ${keyDim} keys; ${MAX_KEY_DIM} at most`);
    if (staged.numRows === 0) return;
    const states = pool as CudaStatePool;
    const { modules, queue } = this.runtime;
    const quads = 2 ** Math.max(0, Math.ceil(Math.log2(keyDim / QUAD_KEYS)));
    const kernel = modules.functionOf("recurrent", `linear_attention_${quads}`);
    (out as CudaTensor).storage.version++;
    queue
      .begin(kernel, staged.numRows, numHeads, Math.ceil(valueDim / COLUMNS), 256, 0)
      .long((out as CudaTensor).address)
      .long((q as CudaTensor).address)
      .long((k as CudaTensor).address)
      .long((v as CudaTensor).address)
      .long((decay as CudaTensor).address)
      .long((rate as CudaTensor).address)
      .long(addressOf(spec.skip))
      .long(states.address)
      .long(staged.stateSlots)
      .long(staged.positions)
      .long(staged.qoIndptr)
      .long(staged.stateLens)
      .long(out.stride)
      .long(q.stride)
      .long(k.stride)
      .long(v.stride)
      .long(decay.stride)
      .long(rate.stride)
      .long(states.spec.floats)
      .long(offset)
      .int(numHeads)
      .int(numKeyHeads)
      .int(keyDim)
      .int(valueDim)
      .int(spec.isDelta ? 1 : 0)
      .int(0)
      .end();
  }
}
