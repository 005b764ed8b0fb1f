// The page pool, rotary embedding and attention of the reference device. Layout of a page: ../kv-layout.ts.

import type { AttentionParams, KvPool, KvPoolSpec, RotarySpec, RotaryTable, StagedBatch, Tensor } from "../device.js";
import { keyOffset, kvLayout, valueOffset } from "../kv-layout.js";
import { type HostAttentionParams, runAttention } from "./attention.js";
import { ReferenceKvPool, roundTo } from "./kv-pool.js";
import { ReferenceRotary } from "./rotary.js";
import { ReferenceRowOps } from "./row-ops.js";
import type { ReferenceStagedBatch } from "./staged-batch.js";
import type { ReferenceTensor } from "./tensor.js";

export abstract class ReferenceKvOps extends ReferenceRowOps {
  allocKvPool(spec: KvPoolSpec): ReferenceKvPool {
    return new ReferenceKvPool(spec);
  }

  /** Numbers are held in f32 whatever the kv dtype. */
  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number {
    return kvLayout(spec).page * 4;
  }

  createRotary(spec: RotarySpec, maxTokens: number): ReferenceRotary {
    return new ReferenceRotary(spec, maxTokens);
  }

  rotaryTable(table: RotaryTable, staged: StagedBatch): void {
    (table as ReferenceRotary).fill(staged as ReferenceStagedBatch);
  }

  writeRotary(table: RotaryTable, first: number, cos: Float32Array, sin: Float32Array, n: number): void {
    const { half, cos: allCos, sin: allSin } = table as ReferenceRotary;
    allCos.set(cos.subarray(0, n * half), first * half);
    allSin.set(sin.subarray(0, n * half), first * half);
  }

  rotary(x: Tensor, table: RotaryTable, headDim: number, offset: number, staged: StagedBatch): void {
    const { data, offset: base, cols, stride } = x as ReferenceTensor;
    for (let t = 0; t < staged.numTokens; t++) {
      for (let head = 0; head < cols; head += headDim) {
        (table as ReferenceRotary).rotate(data, base + t * stride + head + offset, t);
      }
    }
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
    const { numKvHeads, keyDim, valueDim, pageSize, dtype, isLatent = false } = pool.spec;
    const { data: pages, layout } = pool as ReferenceKvPool;
    const { slots } = (staged as ReferenceStagedBatch).batch.groups[pool.spec.group ?? 0]!;
    if (table !== null) this.rotary(q, table, keyDim, 0, staged);
    for (let t = 0; t < staged.numTokens; t++) {
      const page = Math.floor(slots[t]! / pageSize);
      const slotInPage = slots[t]! % pageSize;
      for (let head = 0; head < numKvHeads; head++) {
        const keyAt = keyOffset(layout, page, layer, head, slotInPage);
        const valueAt = valueOffset(layout, page, layer, head, slotInPage);
        copyHead(pages, keyAt, k as ReferenceTensor, t, head, keyDim);
        if (table !== null) (table as ReferenceRotary).rotate(pages, keyAt, t);
        roundTo(dtype, pages, keyAt, keyDim);
        if (isLatent) continue; // the value is part of the key
        copyHead(pages, valueAt, v as ReferenceTensor, t, head, valueDim);
        roundTo(dtype, pages, valueAt, valueDim);
      }
    }
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
    const { batch, plans } = staged as ReferenceStagedBatch;
    runAttention(
      out as ReferenceTensor,
      q as ReferenceTensor,
      pool as ReferenceKvPool,
      layer,
      batch,
      plans[planIndex]!,
      params as HostAttentionParams,
      (pool as ReferenceKvPool).scratch,
    );
  }

  copyPage(pool: KvPool, from: number, to: number): void {
    (pool as ReferenceKvPool).copyPage(from, to);
  }

  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const size = this.kvPageBytes(pool.spec);
    for (let i = 0; i < count; i++) out.set((pool as ReferenceKvPool).bytesOf(pages[i]!), i * size);
  }

  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void {
    const size = this.kvPageBytes(pool.spec);
    for (let i = 0; i < count; i++) {
      (pool as ReferenceKvPool).bytesOf(pages[i]!).set(bytes.subarray(i * size, (i + 1) * size));
    }
  }
}

function copyHead(pages: Float32Array, at: number, x: ReferenceTensor, t: number, head: number, dim: number): void {
  const from = x.offset + t * x.stride + head * dim;
  for (let i = 0; i < dim; i++) pages[at + i] = x.data[from + i]!;
}
