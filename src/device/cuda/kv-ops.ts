// The page pool, rotary embedding and attention of the cuda device (native/cuda/rotary.cu, attention-*.cu).

import { workersPerHead } from "../../attention/kv-chunk.js";
import type { PlannerOptions, PlanShape } from "../../attention/planner.js";
import { bucket } from "../../core/math.js";
import type {
  AttentionParams,
  KvDtype,
  KvPool,
  KvPoolSpec,
  RotarySpec,
  RotaryTable,
  StagedBatch,
  Tensor,
} from "../device.js";
import { type KvLayout, kvLayout } from "../kv-layout.js";
import { check } from "./abi.js";
import { KV_CODE } from "./codes.js";
import type { GpuFacts } from "./context.js";
import { addressOf, CudaRowOps } from "./row-ops.js";
import type { CudaRuntime } from "./runtime.js";
import { type CudaStagedBatch, PLANS_AT } from "./staged-batch.js";
import { type StagedPlan, UNIT } from "./staged-plan.js";
import type { CudaTensor } from "./tensor.js";

const ELEMENT_BYTES = { f32: 4, f16: 2, bf16: 2, i8: 1, fp8: 1 } as const;

/**
 * Kernels on the tensor cores: the largest dims each takes, ring slots of its decode form with bulk copies, how many blocks of it fit a
 * multiprocessor, of fp8 pages too, ring slots without bulk copies, and whether the extend kernel on wgmma takes exactly these dims (attention-decode.cuh,
 * attention-prompts.cuh).
 */
const SHAPES = [
  { dk: 64, dv: 64, bulkSlots: 4, bulkBlocks: 3, codeBlocks: 4, copySlots: 3, hasWgmma: true },
  { dk: 128, dv: 128, bulkSlots: 3, bulkBlocks: 2, codeBlocks: 3, copySlots: 2, hasWgmma: true },
  { dk: 192, dv: 128, bulkSlots: 4, bulkBlocks: 1, codeBlocks: 1, copySlots: 2, hasWgmma: false },
  { dk: 256, dv: 256, bulkSlots: 3, bulkBlocks: 1, codeBlocks: 1, copySlots: 2, hasWgmma: false },
] as const;
type Shape = (typeof SHAPES)[number];

/**
 * What plans are cut for: two decode blocks on each multiprocessor (of fp8 pages as many as fit), one of the extend kernel, each item once for
 * each kv head. Costs
 * are those of reading K and V: a tile of 128 rows takes a unit about as long. Tall tiles are not split: their states are as large as the
 * keys, and merging them took longer than what it saved.
 */
export function plannerLimits({ multiprocessors }: GpuFacts, { numKvHeads = 1, headDim, kvDtype }: PlanShape) {
  const blocks = kvDtype === "fp8" ? (SHAPES.find(({ dk }) => headDim <= dk)?.codeBlocks ?? 2) : 2;
  return {
    numWorkers: workersPerHead(blocks * multiprocessors, numKvHeads),
    tallWorkers: workersPerHead(multiprocessors, numKvHeads),
    kvChunk: UNIT,
    pairCost: 0,
    maxPartialRows: 65536,
    slack: { decode: 0.15, tall: Infinity },
  } satisfies Partial<PlannerOptions>;
}

export class CudaKvPool implements KvPool {
  readonly spec: KvPoolSpec;
  readonly address: number;
  readonly byteLength: number;
  readonly layout: KvLayout; // in elements; of i8 and fp8 in bytes
  /** null: attention-plain.cuh serves this pool. */
  readonly shape: Shape | null;
  /** Pages of decodes come by bulk copies, from sm_90 on where shared memory has room for the ring. */
  readonly isBulk: boolean;
  // Partial states of split tiles, for `stateRows` rows and each kv head; and how many blocks of a tile have written theirs.
  stateRows = 0;
  partialO = 0; // [stateRows, K, Dv] f32
  partialMd = 0; // [stateRows, K] two f32
  arrivals = 0; // [tile, K] i32

  constructor(spec: KvPoolSpec, address: number, byteLength: number, facts: GpuFacts) {
    this.spec = spec;
    this.address = address;
    this.byteLength = byteLength;
    this.layout = layoutOf(spec, facts);
    this.shape = shapeOf(spec, facts);
    this.isBulk = this.shape !== null && hasBulk(this.shape, spec.dtype, facts);
  }
}

/**
 * An i8 vector is its f32 scale and its codes, together a multiple of 4 bytes; so is one of fp8 where attention-plain.cuh reads it. For the
 * tensor-core kernels it has a factor of 16 bits, with its neighbours' behind the codes of 8 slots (kv-fp8.cuh).
 */
function layoutOf(spec: PageSpec, facts: GpuFacts): KvLayout {
  if (spec.dtype !== "i8" && spec.dtype !== "fp8") return kvLayout(spec);
  const isTiled = shapeOf(spec, facts) !== null;
  const bytes = (dim: number): number => (isTiled ? dim + 2 : 4 + Math.ceil(dim / 4) * 4);
  return kvLayout({ ...spec, keyDim: bytes(spec.keyDim), valueDim: bytes(spec.valueDim) });
}

type PageSpec = Omit<KvPoolSpec, "numPages">;

/** Pages of the tensor-core kernels hold their heads in core matrices of 8 slots x 8 dims (attention-mma.cuh). */
function shapeOf({ dtype, keyDim, valueDim, pageSize, isLatent }: PageSpec, facts: GpuFacts): Shape | null {
  if (dtype === "f32" || dtype === "i8" || isLatent === true) return null;
  if (pageSize < 8 || !Number.isInteger(Math.log2(pageSize)) || keyDim % 16 !== 0 || valueDim % 16 !== 0) return null;
  const shape = SHAPES.find(({ dk, dv }) => keyDim <= dk && valueDim <= dv);
  if (shape === undefined) return null;
  const bytes = Math.max(decodeShared(shape, dtype, hasBulk(shape, dtype, facts)), extendShared(shape, dtype));
  return bytes <= facts.sharedBytes ? shape : null;
}

function hasBulk(shape: Shape, dtype: KvDtype, { canOverlap, sharedBytes }: GpuFacts): boolean {
  return canOverlap && decodeShared(shape, dtype, true) <= sharedBytes;
}

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

export abstract class CudaKvOps extends CudaRowOps {
  allocKvPool(spec: KvPoolSpec): CudaKvPool {
    const bytes = spec.numPages * this.kvPageBytes(spec);
    const address = this.runtime.context.alloc(bytes, `a KV pool of ${spec.numPages} pages`);
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
    const staged = batch as CudaStagedBatch;
    if (staged.numTokens === 0) return;
    const { spec, layout, address, shape } = pool as CudaKvPool;
    const rotary = table as CudaRotary | null;
    const numHeads = q.cols / spec.keyDim;
    const warps = numHeads + (spec.isLatent === true ? 1 : 2) * spec.numKvHeads;
    (q as CudaTensor).storage.version++;
    this.runtime.queue
      .begin(
        this.runtime.modules.functionOf("rotary", spec.dtype === "fp8" ? "rotary_append_fp8" : "rotary_append"),
        Math.ceil(warps / 4),
        staged.numTokens,
        1,
        128,
        0,
      )
      .long((q as CudaTensor).address)
      .long((k as CudaTensor).address)
      .long(spec.isLatent === true ? 0 : (v as CudaTensor).address)
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
      .int(shape === null ? 0 : 1)
      .int(0)
      .end();
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
    const { numDecodes, numExtends } = plan;
    if (staged.numTokens === 0 || numDecodes + numExtends === 0) return;
    const { spec, shape, isBulk } = pool as CudaKvPool;
    this.#reservePartials(pool as CudaKvPool, plan);
    const { multiprocessors } = this.runtime.context.facts;
    const decodes = bucket(numDecodes) * spec.numKvHeads; // blocks, if each took one item for one kv head
    const extends_ = bucket(numExtends) * spec.numKvHeads;
    const launch = (source: string, kernel: string, x: number, y: number, threads: number, shared: number): void => {
      const handle = this.runtime.modules.functionOf(source, kernel, shared);
      this.runtime.queue.begin(handle, x, y, 1, threads, shared);
      this.#arguments(out as CudaTensor, q as CudaTensor, pool as CudaKvPool, layer, staged, plan, planIndex, params);
    };
    (out as CudaTensor).storage.version++;
    const isFp8 = spec.dtype === "fp8";
    const sourceOf = (form: string): string => (isFp8 ? "attention-codes" : `attention-${form}`);
    if (shape === null) {
      const kernel = isFp8 ? "attention_plain_fp8" : "attention_plain";
      launch(sourceOf("plain"), kernel, bucket(numDecodes + numExtends) * spec.numKvHeads, 1, 128, 0);
      return;
    }
    const name = `${spec.dtype}_${shape.dk}_${shape.dv}`;
    const isExact = spec.keyDim === shape.dk && spec.valueDim === shape.dv;
    if (numDecodes > 0) {
      const how = !isBulk ? "copy" : isExact && shape.dk <= 128 ? "exact" : "bulk";
      const kernel = `decode_${how}_${name}`;
      // Blocks that stay keep their next item for themselves: beside long rows that are split, a block for each item was faster.
      const fitting = (isFp8 ? shape.codeBlocks : shape.bulkBlocks) * multiprocessors;
      const blocks = isBulk && plan.numTiles === 0 ? Math.min(decodes, fitting) : decodes;
      launch(sourceOf("decode"), kernel, blocks, 1, isBulk ? 160 : 128, decodeShared(shape, spec.dtype, isBulk));
    }
    if (numExtends === 0) return;
    if (this.runtime.isHopper && shape.hasWgmma && isExact && params.softcap === 0) {
      const source = isFp8 ? "attention-wgmma-codes" : "attention-wgmma";
      launch(source, `wgmma_${name}`, Math.min(extends_, multiprocessors), 1, 384, wgmmaShared(shape, spec.dtype));
    } else {
      const tiles = Math.ceil(plan.maxRows / 64);
      launch(sourceOf("extend"), `extend_${name}`, extends_, tiles, 128, extendShared(shape, spec.dtype));
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
      .long(pool.partialO)
      .long(pool.partialMd)
      .long(pool.arrivals)
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
      .float(params.softcap)
      .end();
  }

  /** Room for the plan's partial states; grows by doubling. */
  #reservePartials(pool: CudaKvPool, { numPartials, stateRows }: StagedPlan): void {
    const rows = numPartials * stateRows;
    if (rows <= pool.stateRows) return;
    const { context, queue } = this.runtime;
    queue.flush();
    context.synchronize();
    for (const block of [pool.partialO, pool.partialMd, pool.arrivals]) if (block !== 0) context.free(block);
    pool.stateRows = Math.max(rows, 2 * pool.stateRows, 4096);
    const states = pool.stateRows * pool.spec.numKvHeads;
    pool.partialO = context.alloc(4 * states * pool.spec.valueDim, "partial attention states");
    pool.partialMd = context.alloc(8 * states, "partial attention states");
    pool.arrivals = context.alloc(4 * states, "partial attention states");
    check(context.driver, context.driver.fill(pool.arrivals, 0, 4 * states, context.stream), "fill", pool.arrivals);
  }
}

/** Of attention-decode.cuh: the ring, q, the probabilities' fragments, sums and maxima. */
function decodeShared({ dk, dv, bulkSlots, copySlots }: Shape, dtype: KvDtype, isBulk: boolean): number {
  const dim = Math.max(dk, dv);
  const ring = (isBulk ? bulkSlots : copySlots) * UNIT * (dtype === "fp8" ? dim + 2 : 2 * dim);
  return ring + 16 * dk * 2 + (UNIT / 16) * 512 + 4 * 32 * 8 + 4 * 16 * 4;
}

/** Of attention-prompts.cuh: three slots of keys (of fp8 two), two of values, queries of two items; for fp8 three slots of 64 keys' codes. */
function wgmmaShared({ dk, dv }: Shape, dtype: KvDtype): number {
  const queries = 2 * 128 * dk * 2;
  if (dtype === "fp8") return UNIT * (2 * dk + 2 * dv) * 2 + queries + 3 * 64 * (dk + 2);
  return UNIT * (3 * dk + 2 * dv) * 2 + queries;
}

/** Of attention-extend.cuh: queries, keys and values; of fp8 their codes, and one tile for both. */
function extendShared({ dk, dv }: Shape, dtype: KvDtype): number {
  const pages = dtype === "fp8" ? Math.max(dk, dv) * 2 + (dk + 2) + (dv + 2) : (dk + dv) * 2;
  return 64 * dk * 2 + UNIT * pages;
}
