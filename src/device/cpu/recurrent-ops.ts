// The state pool and the recurrent layers of the cpu device. Maths: native/cpu/src/linear-attention.h.

import type {
  Activation,
  LinearAttentionSpec,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  StepLimits,
  Tensor,
} from "../device.js";
import { ACTIVATION_CODE } from "./codes.js";
import { CpuKvOps } from "./kv-ops.js";
import type { CpuContext, CpuTensor } from "./memory.js";
import type { CpuStagedBatch } from "./staged-batch.js";

export class CpuStatePool implements StatePool {
  readonly spec: StatePoolSpec;
  readonly address: number;
  readonly data: Float32Array; // [numSlots, floats]

  constructor(context: CpuContext, spec: StatePoolSpec, address: number) {
    this.spec = spec;
    this.address = address;
    this.data = context.floats(address, spec.numSlots * spec.floats);
  }

  get byteLength(): number {
    return this.data.byteLength;
  }

  /** The slot's numbers, where they lie. */
  slot(index: number): Float32Array {
    const { floats, numSlots } = this.spec;
    if (index < 0 || index >= numSlots) throw new RangeError(`slot ${index} of ${numSlots}`);
    return this.data.subarray(index * floats, (index + 1) * floats);
  }
}

export abstract class CpuRecurrentOps extends CpuKvOps {
  allocStatePool(spec: StatePoolSpec): CpuStatePool {
    const address = this.context.alloc(spec.numSlots * spec.floats * 4, `a state pool of ${spec.numSlots} slots`);
    return new CpuStatePool(this.context, spec, address);
  }

  copyStates(pool: StatePool, from: number, to: number): void {
    const states = pool as CpuStatePool;
    states.slot(to).set(states.slot(from));
  }

  readStates(out: Float32Array, pool: StatePool, slot: number): void {
    out.set((pool as CpuStatePool).slot(slot));
  }

  writeStates(pool: StatePool, slot: number, values: Float32Array): void {
    (pool as CpuStatePool).slot(slot).set(values);
  }

  decayGates(decay: Tensor, step: Tensor, x: Tensor, bias: Tensor, rate: Tensor, limits: StepLimits, n: number): void {
    const { native, handle } = this.context;
    native.pg_decay_gates(
      handle,
      (decay as CpuTensor).address,
      decay.stride,
      (step as CpuTensor).address,
      step.stride,
      (x as CpuTensor).address,
      x.stride,
      (bias as CpuTensor).address,
      (rate as CpuTensor).address,
      limits.min,
      limits.max,
      n,
      x.cols,
    );
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
    const { native, handle } = this.context;
    const status = native.pg_short_conv(
      handle,
      (out as CpuTensor).address,
      out.stride,
      (x as CpuTensor).address,
      x.stride,
      (weight as CpuTensor).address,
      weight.stride,
      bias === null ? 0 : (bias as CpuTensor).address,
      weight.rows,
      x.cols,
      ACTIVATION_CODE[activation],
      (batch as CpuStagedBatch).handle,
      (pool as CpuStatePool).address,
      pool.spec.numSlots,
      pool.spec.floats,
      offset,
    );
    if (status !== 0) this.context.check(status, "pg_short_conv");
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
    const { native, handle } = this.context;
    const status = native.pg_linear_attention(
      handle,
      (out as CpuTensor).address,
      out.stride,
      (q as CpuTensor).address,
      q.stride,
      (k as CpuTensor).address,
      k.stride,
      (v as CpuTensor).address,
      v.stride,
      (decay as CpuTensor).address,
      decay.stride,
      (rate as CpuTensor).address,
      rate.stride,
      spec.skip === null ? 0 : (spec.skip as CpuTensor).address,
      spec.numHeads,
      spec.numKeyHeads,
      spec.keyDim,
      spec.valueDim,
      spec.isDelta ? 1 : 0,
      (batch as CpuStagedBatch).handle,
      (pool as CpuStatePool).address,
      pool.spec.numSlots,
      pool.spec.floats,
      offset,
    );
    if (status !== 0) this.context.check(status, "pg_linear_attention");
  }
}
