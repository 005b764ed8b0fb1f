// Rotary embedding, appends to pages and attention of the cuda device (native/cuda/rotary.cu, attention-*.cu).

import { bucket } from "../../core/math.js";
import type { AttentionParams, KvPool, KvPoolSpec, RotarySpec, RotaryTable, StagedBatch, Tensor } from "../device.js";
import { KIND, KV_CODE } from "./codes.js";
import { check } from "./driver/abi.js";
import {
  CudaKvPool,
  decodeShared,
  ELEMENT_BYTES,
  extendShared,
  isHeadOfTower,
  LATENT_ROWS,
  latentShared,
  layoutOf,
  type PageSpec,
  wgmmaShared,
} from "./kv-pool.js";
import { addressOf, CudaRowOps, hasPairs, hasQuads } from "./row-ops.js";
import type { CudaRuntime } from "./runtime.js";
import { type CudaStagedBatch, PLANS_AT } from "./staged-batch.js";
import { EXTEND_ROWS, type StagedPlan } from "./staged-plan.js";
import type { CudaTensor } from "./tensor.js";

export class CudaRotary implements RotaryTable {
  readonly spec: RotarySpec;
  readonly half: number; // rotaryDim / 2
  readonly cos: number; // [maxTokens, half]
  readonly sin: number; // [maxTokens, half]
  readonly invFreq: number;
  readonly interleaved: number;

  constructor(runtime: CudaRuntime, spec: RotarySpec, maxTokens: number) {
    const { context } = runtime;
    this.spec = spec;
    this.half = spec.invFreq.length;
    this.cos = context.alloc(4 * maxTokens * this.half, "the rotary table");
    this.sin = context.alloc(4 * maxTokens * this.half, "the rotary table");
    this.invFreq = context.alloc(4 * this.half, "the rotary table");
    this.interleaved = spec.interleaved ? 1 : 0;
    const { invFreq } = spec;
    runtime.upload(this.invFreq, new Uint8Array(invFreq.buffer, invFreq.byteOffset, invFreq.byteLength));
  }
}

/** Packed rows and dims of a block of attention-merge.cu. */
const MERGE_ROWS = 4;
const MERGE_DIMS = 128;

/** Blocks that share the heads of eight tokens whose keys are appended as they are. */
const APPEND_BLOCKS = 4;

type Launch = (
  source: string,
  kernel: string,
  grid: readonly [x: number, y: number, z: number],
  threads: number,
  shared?: number,
) => void;

/** An append to pages that has been asked for. */
interface Append {
  q: CudaTensor;
  k: CudaTensor;
  v: CudaTensor;
  rotary: CudaRotary | null;
  pool: CudaKvPool;
  layer: number;
  batch: CudaStagedBatch;
}

export abstract class CudaKvOps extends CudaRowOps {
  /** The last one; its launch is deferred, so that attention may do it (attention-turned.cuh). */
  readonly #append: Partial<Append> = {};

  allocKvPool(spec: KvPoolSpec): CudaKvPool {
    const bytes = spec.numPages * this.kvPageBytes(spec);
    this.runtime.partials.reserve(this.runtime, spec);
    const address = this.runtime.allocPool(bytes, `a KV pool of ${spec.numPages} pages`);
    return new CudaKvPool(spec, address, bytes, this.runtime.context.facts);
  }

  kvPageBytes(spec: PageSpec): number {
    return layoutOf(spec, this.runtime.context.facts).page * ELEMENT_BYTES[spec.dtype];
  }

  copyPage(pool: KvPool, from: number, to: number): void {
    const { context, queue } = this.runtime;
    const { address, spec } = pool as CudaKvPool;
    const bytes = this.kvPageBytes(spec);
    queue.flush();
    this.runtime.pageCopies.join(true);
    const status = context.driver.copyWithin(address + to * bytes, address + from * bytes, bytes, context.stream);
    check(context.driver, status, "copyWithin", from, to, bytes);
  }

  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const { address, spec } = pool as CudaKvPool;
    const bytes = this.kvPageBytes(spec);
    this.runtime.pageCopies.join(false);
    for (let i = 0; i < count; i++) {
      this.runtime.download(out.subarray(i * bytes, (i + 1) * bytes), address + pages[i]! * bytes);
    }
  }

  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void {
    const { address, spec } = pool as CudaKvPool;
    const size = this.kvPageBytes(spec);
    this.runtime.pageCopies.join(true);
    for (let i = 0; i < count; i++) {
      this.runtime.upload(address + pages[i]! * size, bytes.subarray(i * size, (i + 1) * size));
    }
  }

  createRotary(spec: RotarySpec, maxTokens: number): CudaRotary {
    return new CudaRotary(this.runtime, spec, maxTokens);
  }

  rotaryTable(table: RotaryTable, batch: StagedBatch): void {
    const { cos, sin, invFreq, half, spec } = table as CudaRotary;
    const { positions, numTokens } = batch as CudaStagedBatch;
    if (numTokens === 0) return;
    this.runtime
      .overRows("rotary", "rotary_table", half, numTokens)
      .long(cos)
      .long(sin)
      .long(positions)
      .long(invFreq)
      .int(half)
      .float(spec.scale)
      .end();
  }

  rotary(x: Tensor, table: RotaryTable, headDim: number, offset: number, batch: StagedBatch): void {
    if (batch.numTokens === 0) return;
    const { cos, sin, half, interleaved } = table as CudaRotary;
    const heads = x.cols / headDim;
    (x as CudaTensor).storage.version++;
    this.runtime
      .overRows("rotary", "rotary", heads * half, batch.numTokens)
      .long((x as CudaTensor).address)
      .long(cos)
      .long(sin)
      .long(x.stride)
      .int(heads)
      .int(headDim)
      .int(offset)
      .int(half)
      .int(interleaved)
      .int(0)
      .end();
  }

  rotaryAppend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: RotaryTable | null,
    pool: KvPool,
    layer: number,
    batch: StagedBatch,
  ): void {
    if (batch.numTokens === 0) return;
    (q as CudaTensor).storage.version++;
    this.runtime.queue.settle(); // of an append before this one
    const append = this.#append;
    append.q = q as CudaTensor;
    append.k = k as CudaTensor;
    append.v = v as CudaTensor;
    append.rotary = table as CudaRotary | null;
    append.pool = pool as CudaKvPool;
    append.layer = layer;
    append.batch = batch as CudaStagedBatch;
    this.runtime.queue.deferred = this.#launchAppend;
  }

  /** The launch of the append that was asked for last. */
  readonly #launchAppend = (): void => {
    if (this.#launchPlainAppend()) return;
    const { q, k, v, rotary, pool, layer, batch: staged } = this.#append as Append;
    const { spec, layout, address, shape } = pool;
    const numHeads = q.cols / spec.keyDim;
    const warps = numHeads + (spec.isLatent === true ? 1 : 2) * spec.numKvHeads;
    this.runtime.queue
      .begin(
        this.runtime.modules.functionOf("rotary", spec.dtype === "fp8" ? "rotary_append_fp8" : "rotary_append"),
        staged.numTokens,
        Math.ceil(warps / 4),
        1,
        128,
        0,
      )
      .long(q.address)
      .long(k.address)
      .long(spec.isLatent === true ? 0 : v.address)
      .long(rotary === null ? 0 : rotary.cos)
      .long(rotary === null ? 0 : rotary.sin)
      .long(address)
      .long(staged.slots[spec.group ?? 0]!)
      .long(q.stride)
      .long(k.stride)
      .long(v.stride)
      .long(layout.page)
      .long(layer * layout.layer)
      .long(layout.values)
      .int(numHeads)
      .int(spec.numKvHeads)
      .int(spec.keyDim)
      .int(spec.valueDim)
      .int(layout.keySlot)
      .int(layout.valueSlot)
      .int(spec.pageSize)
      .int(rotary === null ? 0 : rotary.half)
      .int(rotary === null ? 0 : rotary.interleaved)
      .int(KV_CODE[spec.dtype])
      .int(shape !== null || pool.isLatentTiled ? 1 : 0)
      .int(0)
      .end();
  };

  /** Keys and values that are not turned, eight numbers a thread; false: it did nothing. */
  #launchPlainAppend(): boolean {
    const { k, v, rotary, pool, layer, batch: staged } = this.#append as Append;
    const { spec, layout, address, shape } = pool;
    const is16 = spec.dtype === "f16" || spec.dtype === "bf16";
    if (rotary !== null || !is16 || shape === null || !hasQuads(k) || !hasQuads(v)) return false;
    const { queue, modules } = this.runtime;
    queue
      .begin(modules.functionOf("towers", "append_plain"), Math.ceil(staged.numTokens / 8), APPEND_BLOCKS, 1, 256, 0)
      .long(k.address)
      .long(v.address)
      .long(address)
      .long(staged.slots[spec.group ?? 0]!)
      .long(k.stride)
      .long(v.stride)
      .long(layout.page)
      .long(layer * layout.layer)
      .long(layout.values)
      .int(spec.numKvHeads)
      .int(spec.keyDim)
      .int(spec.valueDim)
      .int(spec.pageSize)
      .int(spec.dtype === "f16" ? KIND.f16 : KIND.bf16)
      .int(staged.numTokens)
      .end();
    return true;
  }

  attention(
    out: Tensor,
    q: Tensor,
    pool: KvPool,
    layer: number,
    batch: StagedBatch,
    planIndex: number,
    params: AttentionParams,
  ): void {
    const staged = batch as CudaStagedBatch;
    const plan = staged.plans[planIndex]!;
    if (staged.numTokens === 0 || plan.numDecodes + plan.numExtends === 0) return;
    const isTurning = this.#takeAppend(q, pool as CudaKvPool, layer, staged, plan);
    const launch: Launch = (source, kernel, [x, y, z], threads, shared = 0) => {
      const handle = this.runtime.modules.functionOf(source, kernel, shared);
      this.runtime.queue.begin(handle, x, y, z, threads, shared);
      this.#arguments(out as CudaTensor, q as CudaTensor, pool as CudaKvPool, layer, staged, plan, planIndex, params);
      if (kernel.startsWith("decode_turned")) this.#turnedArguments();
      this.runtime.queue.end();
    };
    (out as CudaTensor).storage.version++;
    const hasWgmma = this.runtime.isHopper && params.softcap === 0 && hasQuads(q);
    this.#launchItems(launch, pool as CudaKvPool, plan, isTurning, hasWgmma);
    if (plan.numTiles === 0) return;
    const { numKvHeads, valueDim } = pool.spec;
    const rows = Math.ceil(plan.stateRows / MERGE_ROWS);
    const grid = [bucket(plan.numTiles) * numKvHeads, rows, Math.ceil(valueDim / MERGE_DIMS)] as const;
    launch("attention-merge", "attention_merge", grid, 32 * MERGE_ROWS);
  }

  /** The kernels that take a plan's items; states of split ones are merged behind them. */
  #launchItems(launch: Launch, pool: CudaKvPool, plan: StagedPlan, isTurning: boolean, hasWgmma: boolean): void {
    const { spec, shape, isBulk, isLatentTiled } = pool;
    const { numDecodes, numExtends, maxRows } = plan;
    const { multiprocessors } = this.runtime.context.facts;
    const isFp8 = spec.dtype === "fp8";
    const sourceOf = (form: string): string => (isFp8 ? "attention-codes" : `attention-${form}`);
    if (isLatentTiled) {
      const kernel = `latent_${spec.dtype}_${spec.keyDim}_${spec.valueDim}`;
      const grid = [bucket(numDecodes + numExtends), Math.ceil(maxRows / LATENT_ROWS), 1] as const;
      launch("attention-latent", kernel, grid, 256, latentShared());
      return;
    }
    if (shape === null) {
      const kernel = isFp8 ? "attention_plain_fp8" : "attention_plain";
      launch(sourceOf("plain"), kernel, [bucket(numDecodes + numExtends) * spec.numKvHeads, 1, 1], 128);
      return;
    }
    const decodes = bucket(numDecodes) * spec.numKvHeads; // blocks, if each took one item for one kv head
    const extends_ = bucket(numExtends) * spec.numKvHeads;
    const name = `${spec.dtype}_${shape.dk}_${shape.dv}`;
    const isExact = spec.keyDim === shape.dk && spec.valueDim === shape.dv;
    if (numDecodes > 0) {
      const how = !isBulk ? "copy" : isTurning ? "turned" : isExact && shape.dk <= 128 ? "exact" : "bulk";
      const kernel = `decode_${how}_${name}`;
      // Blocks that stay keep their next item for themselves: beside long rows that are split, a block for each item was faster.
      const fitting = (isFp8 ? shape.codeBlocks : shape.bulkBlocks) * multiprocessors;
      const blocks = isBulk && plan.numTiles === 0 ? Math.min(decodes, fitting) : decodes;
      launch(sourceOf("decode"), kernel, [blocks, 1, 1], isBulk ? 160 : 128, decodeShared(shape, spec.dtype, isBulk));
    }
    if (numExtends === 0) return;
    const isHead = !isFp8 && isHeadOfTower(spec);
    if (hasWgmma && ((shape.hasWgmma && isExact) || isHead)) {
      const source = isFp8 ? "attention-wgmma-codes" : isHead ? "attention-wgmma-heads" : "attention-wgmma";
      const own = isHead ? { dk: spec.keyDim, dv: spec.valueDim } : shape;
      const kernel = `wgmma_${spec.dtype}_${own.dk}_${own.dv}`;
      launch(source, kernel, [Math.min(extends_, multiprocessors), 1, 1], 384, wgmmaShared(own, spec.dtype));
    } else {
      const grid = [extends_, Math.ceil(maxRows / EXTEND_ROWS), 1] as const;
      launch(sourceOf("extend"), `extend_${name}`, grid, 128, extendShared(shape, spec.dtype));
    }
  }

  #arguments(
    out: CudaTensor,
    q: CudaTensor,
    pool: CudaKvPool,
    layer: number,
    staged: CudaStagedBatch,
    plan: StagedPlan,
    planIndex: number,
    params: AttentionParams,
  ): void {
    const { spec, layout } = pool;
    this.runtime.queue
      .long(out.address)
      .long(q.address)
      .long(pool.address)
      .long(addressOf(params.sinks))
      .long(staged.step)
      .long(staged.positions)
      .long(staged.visibleEnd)
      .long(this.runtime.partials.values)
      .long(this.runtime.partials.scales)
      .long(this.runtime.counters);
    this.runtime
      .operandOut(out, staged.numTokens)
      .long(out.stride)
      .long(q.stride)
      .long(layout.page)
      .long(layer * layout.layer)
      .long(layout.values)
      .int(PLANS_AT + planIndex)
      .int(spec.numKvHeads)
      .int(spec.keyDim)
      .int(spec.valueDim)
      .int(layout.keySlot)
      .int(layout.valueSlot)
      .int(spec.pageSize)
      .int(Math.log2(spec.pageSize))
      .int(KV_CODE[spec.dtype])
      .int(plan.numDecodes > 0 && plan.numExtends > 0 ? 0 : 1)
      .float(params.scale)
      .float(params.softcap);
  }

  /** The rest of attention-turned.cuh's. */
  #turnedArguments(): void {
    const { k, v, rotary } = this.#append as Append;
    const { cos, sin } = rotary!;
    this.runtime.queue.long(k.address).long(v.address).long(cos).long(sin).long(k.stride).long(v.stride);
  }

  /**
   * Whether attention turns and appends the step's keys itself: rows of one token each over 16-bit pages, heads that are turned whole, in
   * halves. The launch that was deferred is not made then.
   */
  #takeAppend(q: Tensor, pool: CudaKvPool, layer: number, batch: CudaStagedBatch, plan: StagedPlan): boolean {
    const { queue } = this.runtime;
    const append = this.#append;
    const { spec, shape, isBulk } = pool;
    if (queue.deferred !== this.#launchAppend || append.q !== q || append.pool !== pool) return false;
    if (append.layer !== layer || append.batch !== batch || batch.numTokens !== batch.numRows) return false;
    if (plan.numExtends > 0 || !isBulk || shape === null || shape.dk > 128 || spec.dtype === "fp8") return false;
    const { rotary, k, v } = append as Append;
    if (rotary === null || rotary.interleaved === 1 || 2 * rotary.half !== spec.keyDim) return false;
    if (spec.keyDim !== shape.dk || spec.valueDim !== shape.dv || !hasPairs(q) || !hasPairs(k) || !hasPairs(v))
      return false;
    queue.deferred = null;
    return true;
  }
}
