// Recurrent layers on the GPU, and their states.

import type { Activation } from "../../core/activation.js";
import type { LinearAttentionSpec, StagedBatch, StatePool, StatePoolSpec, StepLimits, Tensor } from "../device.js";
import type { Kernel } from "./kernel.js";
import { DECAY_GATES, linearAttentionKernel, MOST_TAPS, shortConvKernel } from "./kernels/recurrent.js";
import { GpuKvOps } from "./kv-ops.js";
import { GpuStatePool } from "./kv-pool.js";
import { unsupported } from "./limits.js";
import type { GpuStagedBatch } from "./staged-batch.js";
import type { GpuTensor } from "./tensor.js";

export abstract class GpuRecurrentOps extends GpuKvOps {
  readonly #convolutions = new Map<Activation, Kernel>();
  /** By key dim and kind. */
  readonly #attentions = new Map<number, Kernel>();

  allocStatePool(spec: StatePoolSpec): GpuStatePool {
    return new GpuStatePool(this.queue, spec);
  }

  shortConv(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    activation: Activation,
    pool: StatePool,
    offset: number,
    staged: StagedBatch,
  ): void {
    if (weight.rows > MOST_TAPS) throw unsupported("shortConv", `${weight.rows} taps; ${MOST_TAPS} at most`);
    const kernel = this.#convolutions.get(activation) ?? this.#makeConvolution(activation);
    const { buffer: step, qoIndptr, positions, stateSlots, stateLens, numRows } = staged as GpuStagedBatch;
    const [o, i, w, b] = [out as GpuTensor, x as GpuTensor, weight as GpuTensor, bias as GpuTensor | null];
    const { buffer: states, spec } = pool as GpuStatePool;
    this.queue
      .begin(kernel)
      .operand(o.buffer)
      .operand(states)
      .operand(i.buffer)
      .operand(w.buffer)
      .operand(b === null ? this.nothing : b.buffer)
      .operand(step)
      .u32(i.cols)
      .u32(w.rows)
      .u32(o.offset)
      .u32(o.stride)
      .u32(i.offset)
      .u32(i.stride)
      .u32(w.offset)
      .u32(w.stride)
      .u32(b === null ? 0 : 1)
      .u32(b === null ? 0 : b.offset)
      .u32(spec.floats)
      .u32(offset)
      .u32(qoIndptr)
      .u32(positions)
      .u32(stateSlots)
      .u32(stateLens)
      .dispatch(Math.ceil(i.cols / 64), numRows);
  }

  decayGates(decay: Tensor, step: Tensor, x: Tensor, bias: Tensor, rate: Tensor, limits: StepLimits, n: number): void {
    const [d, s, i, b, r] = [
      decay as GpuTensor,
      step as GpuTensor,
      x as GpuTensor,
      bias as GpuTensor,
      rate as GpuTensor,
    ];
    this.queue
      .begin(DECAY_GATES)
      .operand(d.buffer)
      .operand(s.buffer)
      .operand(i.buffer)
      .operand(b.buffer)
      .operand(r.buffer)
      .u32(i.cols)
      .u32(d.offset)
      .u32(d.stride)
      .u32(s.offset)
      .u32(s.stride)
      .u32(i.offset)
      .u32(i.stride)
      .u32(b.offset)
      .u32(r.offset)
      .f32(Math.max(limits.min, -3e38))
      .f32(Math.min(limits.max, 3e38))
      .dispatch(Math.ceil(i.cols / 64), n);
  }

  linearAttention(
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    rate: Tensor,
    { numHeads, numKeyHeads, keyDim, valueDim, isDelta, skip }: LinearAttentionSpec,
    pool: StatePool,
    offset: number,
    staged: StagedBatch,
  ): void {
    const key = 2 * keyDim + (isDelta ? 1 : 0);
    const kernel = this.#attentions.get(key) ?? this.#makeAttention(key, keyDim, isDelta);
    const { buffer: step, qoIndptr, positions, stateSlots, stateLens, numRows } = staged as GpuStagedBatch;
    const { buffer: states, spec } = pool as GpuStatePool;
    const skips = skip as GpuTensor | null;
    const { queue } = this;
    queue
      .begin(kernel)
      .operand((out as GpuTensor).buffer)
      .operand(states);
    for (const x of [q, k, v, decay, rate]) queue.operand((x as GpuTensor).buffer);
    queue
      .operand(skips === null ? this.nothing : skips.buffer)
      .operand(step)
      .u32(valueDim)
      .u32(numHeads / numKeyHeads);
    for (const x of [out, q, k, v, decay, rate]) queue.u32((x as GpuTensor).offset).u32(x.stride);
    queue
      .u32(skips === null ? 0 : 1)
      .u32(skips === null ? 0 : skips.offset)
      .u32(spec.floats)
      .u32(offset)
      .u32(qoIndptr)
      .u32(positions)
      .u32(stateSlots)
      .u32(stateLens)
      .dispatch(Math.ceil(valueDim / 64), numHeads, numRows);
  }

  #makeConvolution(activation: Activation): Kernel {
    const kernel = shortConvKernel(activation);
    this.#convolutions.set(activation, kernel);
    return kernel;
  }

  #makeAttention(key: number, keyDim: number, isDelta: boolean): Kernel {
    const kernel = linearAttentionKernel(keyDim, isDelta);
    this.#attentions.set(key, kernel);
    return kernel;
  }

  copyStates(pool: StatePool, from: number, to: number): void {
    const { buffer, spec } = pool as GpuStatePool;
    this.copyWords(buffer, from * spec.floats, to * spec.floats, spec.floats);
  }

  writeStates(pool: StatePool, slot: number, values: Float32Array): void {
    const { buffer, spec } = pool as GpuStatePool;
    this.queue.write(buffer, 4 * slot * spec.floats, values, 0, 4 * spec.floats);
  }
}
