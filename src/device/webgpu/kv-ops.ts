// Pages on the GPU: rotary embedding, appends, attention, copies of pages.

import type { AttentionParams, KvPool, KvPoolSpec, RotarySpec, RotaryTable, StagedBatch, Tensor } from "../device.js";
import type { GpuBuffer } from "./gpu-queue.js";
import { APPEND, COPY_WORDS, ROTARY } from "./kernels/rotary.js";
import { GpuKvPool, wordLayout } from "./kv-pool.js";
import { MOST_GROUPS } from "./limits.js";
import { GpuRotary } from "./rotary-tables.js";
import { GpuRowOps } from "./row-ops.js";
import type { GpuStagedBatch, StagedPlan } from "./staged-batch.js";
import { ITEM_INTS } from "./staged-batch.js";
import type { GpuTensor } from "./tensor.js";

export abstract class GpuKvOps extends GpuRowOps {
  #states: GpuBuffer = this.nothing;

  allocKvPool(spec: KvPoolSpec): GpuKvPool {
    return new GpuKvPool(this.queue, spec);
  }

  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number {
    return 4 * wordLayout(spec).page;
  }

  createRotary(spec: RotarySpec, maxTokens: number): GpuRotary {
    return new GpuRotary(this.queue, spec, maxTokens);
  }

  rotaryTable(table: RotaryTable, staged: StagedBatch): void {
    (table as GpuRotary).fill(staged as GpuStagedBatch);
  }

  writeRotary(table: RotaryTable, first: number, cos: Float32Array, sin: Float32Array, n: number): void {
    const { half, buffer } = table as GpuRotary;
    const values = new Float32Array(2 * n * half);
    for (let i = 0; i < n * half; i++) {
      values[2 * i] = cos[i]!;
      values[2 * i + 1] = sin[i]!;
    }
    this.queue.write(buffer, 8 * first * half, values);
  }

  rotary(x: Tensor, table: RotaryTable, headDim: number, offset: number, staged: StagedBatch): void {
    const { half, buffer, spec } = table as GpuRotary;
    const pairs = (x.cols / headDim) * half;
    this.queue
      .begin(ROTARY)
      .operand((x as GpuTensor).buffer)
      .operand(buffer)
      .u32(pairs)
      .u32((x as GpuTensor).offset)
      .u32(x.stride)
      .u32(half)
      .u32(spec.interleaved ? 1 : 0)
      .u32(headDim)
      .u32(offset)
      .dispatch(Math.ceil(pairs / 64), staged.numTokens);
  }

  rotaryAppend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: RotaryTable | null,
    pool: KvPool,
    layer: number,
    staged: StagedBatch,
  ): void {
    const { spec, layout, buffer: pages } = pool as GpuKvPool;
    const { numKvHeads, keyDim, valueDim, dtype, pageSize, isLatent = false } = spec;
    const { slots, buffer: step, numTokens } = staged as GpuStagedBatch;
    const isByVectors = dtype === "i8" || dtype === "fp8";
    if (isByVectors && table !== null) this.rotary(q, table, keyDim, 0, staged);
    const half = table === null ? 0 : (table as GpuRotary).half;
    const qPairs = isByVectors ? 0 : (q.cols / keyDim) * half;
    const perHead = isByVectors ? 2 : layout.keySlot + layout.valueSlot;
    const keyWords = isByVectors ? 1 : layout.keySlot;
    const words = numKvHeads * (isLatent ? keyWords : perHead);
    const { queue } = this;
    queue.begin(APPEND[dtype]);
    if (!isByVectors) queue.operand((q as GpuTensor).buffer);
    queue
      .operand((k as GpuTensor).buffer)
      .operand((v as GpuTensor).buffer)
      .operand(pages)
      .operand(table === null ? this.nothing : (table as GpuRotary).buffer)
      .operand(step)
      .u32(qPairs)
      .u32(words)
      .u32((q as GpuTensor).offset)
      .u32(q.stride)
      .u32((k as GpuTensor).offset)
      .u32(k.stride)
      .u32((v as GpuTensor).offset)
      .u32(v.stride)
      .u32(half)
      .u32(table?.spec.interleaved === true ? 1 : 0)
      .u32(slots[spec.group ?? 0]!)
      .u32(keyDim)
      .u32(valueDim)
      .u32(layout.keySlot)
      .u32(layout.valueSlot)
      .u32(numKvHeads)
      .u32(pageSize)
      .u32(layout.page)
      .u32(layer * layout.layer)
      .u32(layout.values)
      .u32(layout.keyHead)
      .u32(layout.valueHead)
      .dispatch(Math.ceil((qPairs + words) / 64), numTokens);
  }

  attention(
    out: Tensor,
    q: Tensor,
    pool: KvPool,
    layer: number,
    staged: StagedBatch,
    planIndex: number,
    params: AttentionParams,
  ): void {
    const plan = (staged as GpuStagedBatch).plans[planIndex]!;
    const { spec } = pool as GpuKvPool;
    this.#reserveStates(plan.numPartials * spec.numKvHeads * plan.qTile * (spec.valueDim + 2));
    for (let first = 0; first < plan.numItems; first += MOST_GROUPS) {
      const count = Math.min(MOST_GROUPS, plan.numItems - first);
      this.#attend(
        out as GpuTensor,
        q as GpuTensor,
        pool as GpuKvPool,
        layer,
        staged as GpuStagedBatch,
        plan,
        params,
        first,
        count,
      );
    }
    if (plan.numMerges > 0) this.#merge(out as GpuTensor, pool as GpuKvPool, staged as GpuStagedBatch, plan, params);
  }

  #attend(
    out: GpuTensor,
    q: GpuTensor,
    pool: GpuKvPool,
    layer: number,
    staged: GpuStagedBatch,
    plan: StagedPlan,
    { scale, softcap, sinks }: AttentionParams,
    first: number,
    count: number,
  ): void {
    const { spec, layout } = pool;
    const group = spec.group ?? 0;
    this.queue
      .begin(pool.kernelFor(plan.tileRows))
      .operand(out.buffer)
      .operand(this.#states)
      .operand(q.buffer)
      .operand(pool.buffer)
      .operand(staged.buffer)
      .operand(sinks === null ? this.nothing : (sinks as GpuTensor).buffer)
      .u32(plan.items + first * ITEM_INTS)
      .u32(plan.groupSize)
      .u32(plan.window)
      .u32(plan.attentionChunk)
      .i32(plan.mostAhead)
      .u32(plan.qTile)
      .u32(staged.positions)
      .u32(staged.visibleEnd)
      .u32(staged.qoIndptr)
      .u32(staged.kvIndptr[group]!)
      .u32(staged.kvIndices[group]!)
      .u32(q.offset)
      .u32(q.stride)
      .u32(out.offset)
      .u32(out.stride)
      .u32(layout.page)
      .u32(layer * layout.layer)
      .u32(layout.values)
      .u32(layout.keyHead)
      .u32(layout.keySlot)
      .u32(layout.valueHead)
      .u32(layout.valueSlot)
      .u32(spec.pageSize)
      .u32(spec.numKvHeads)
      .f32(scale)
      .f32(softcap)
      .u32(sinks === null ? 0 : 1)
      .u32(sinks === null ? 0 : (sinks as GpuTensor).offset)
      .dispatch(count, spec.numKvHeads);
  }

  #merge(
    out: GpuTensor,
    { spec, merge, mergeAndRound }: GpuKvPool,
    staged: GpuStagedBatch,
    plan: StagedPlan,
    { sinks }: AttentionParams,
  ): void {
    const { queue, rounded } = this;
    const rounds = mergeAndRound !== null && plan.isAllMerged && rounded.isFor(out);
    if (rounds) rounded.reserveFor(out);
    queue
      .begin(rounds ? mergeAndRound : merge)
      .operand(out.buffer)
      .operand(this.#states)
      .operand(staged.buffer)
      .operand(sinks === null ? this.nothing : (sinks as GpuTensor).buffer);
    if (rounds) queue.operand(rounded.codes).operand(rounded.factors);
    queue
      .u32(plan.merges)
      .u32(plan.groupSize)
      .u32(plan.qTile)
      .u32(staged.qoIndptr)
      .u32(out.offset)
      .u32(out.stride)
      .u32(spec.numKvHeads)
      .u32(sinks === null ? 0 : 1)
      .u32(sinks === null ? 0 : (sinks as GpuTensor).offset)
      .u32(out.cols)
      .dispatch(plan.numMerges, spec.numKvHeads, plan.tileRows);
    if (rounds) rounded.hold(out, staged.numTokens);
  }

  #reserveStates(floats: number): void {
    if (4 * floats <= this.#states.byteLength) return;
    if (this.#states !== this.nothing) this.queue.free(this.#states);
    this.#states = this.queue.alloc(8 * floats, "partial states of attention");
  }

  copyPage(pool: KvPool, from: number, to: number): void {
    const { buffer, layout } = pool as GpuKvPool;
    this.copyWords(buffer, from * layout.page, to * layout.page, layout.page);
  }

  protected copyWords(buffer: GpuBuffer, from: number, to: number, count: number): void {
    if (from === to) return;
    this.queue
      .begin(COPY_WORDS)
      .operand(buffer)
      .u32(from)
      .u32(to)
      .u32(count)
      .dispatch(Math.min(1024, Math.ceil(count / 256)));
  }

  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void {
    const size = 4 * (pool as GpuKvPool).layout.page;
    for (let i = 0; i < count; i++)
      this.queue.write((pool as GpuKvPool).buffer, pages[i]! * size, bytes, i * size, size);
  }
}
