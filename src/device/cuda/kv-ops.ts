// The page pool, rotary embedding and attention of the cuda device (native/cuda/rotary.cu, attention-*.cu).

import { MAX_PARTIAL_ROWS } from "../../core/attention-plan.js";
import type { AttentionParams, KvPool, KvPoolSpec, RotarySpec, RotaryTable, StagedBatch, Tensor } from "../device.js";
import { type KvLayout, kvLayout } from "../kv-layout.js";
import { check } from "./abi.js";
import { KV_CODE } from "./codes.js";
import { addressOf, CudaRowOps } from "./row-ops.js";
import type { CudaRuntime } from "./runtime.js";
import { type CudaStagedBatch, GROUPS_AT, PLANS_AT, type StagedPlan } from "./staged-batch.js";
import type { CudaTensor } from "./tensor.js";

const UNIT = 128; // keys of a unit: attention.cuh
export const KV_CHUNK = UNIT;
const ELEMENT_BYTES = { f32: 4, f16: 2, bf16: 2, i8: 1 } as const;

/** Kernels on the tensor cores: the largest dims each takes, warps and ring slots of its decode form (attention-decode.cu). */
const SHAPES = [
  { dk: 64, dv: 64, warps: 4, slots: 6 },
  { dk: 128, dv: 128, warps: 4, slots: 4 },
  { dk: 192, dv: 128, warps: 2, slots: 4 },
  { dk: 256, dv: 256, warps: 2, slots: 4 },
] as const;
type Shape = (typeof SHAPES)[number];

export class CudaKvPool implements KvPool {
  readonly spec: KvPoolSpec;
  readonly address: number;
  readonly byteLength: number;
  readonly layout: KvLayout; // in elements; of i8 in bytes
  /** null: attention-plain.cu serves this pool. */
  readonly shape: Shape | null;
  partialO = 0; // [partials, K, qTile, Dv] f32
  partialMd = 0; // [partials, K, qTile] two f32

  constructor(spec: KvPoolSpec, address: number, byteLength: number) {
    this.spec = spec;
    this.address = address;
    this.byteLength = byteLength;
    this.layout = layoutOf(spec);
    this.shape = shapeOf(spec);
  }
}

/** An i8 vector is its f32 scale and its codes, together a multiple of 4 bytes. */
function layoutOf(spec: Omit<KvPoolSpec, "numPages">): KvLayout {
  if (spec.dtype !== "i8") return kvLayout(spec);
  const bytes = (dim: number): number => 4 + Math.ceil(dim / 4) * 4;
  return kvLayout({ ...spec, keyDim: bytes(spec.keyDim), valueDim: bytes(spec.valueDim) });
}

function shapeOf({ dtype, keyDim, valueDim, pageSize }: KvPoolSpec): Shape | null {
  if (!Number.isInteger(Math.log2(pageSize))) return null;
  if ((dtype !== "f16" && dtype !== "bf16") || keyDim % 8 !== 0 || valueDim % 8 !== 0) return null;
  return SHAPES.find(({ dk, dv }) => keyDim <= dk && valueDim <= dv) ?? null;
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
    return new CudaKvPool(spec, address, bytes);
  }

  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number {
    return layoutOf(spec).page * ELEMENT_BYTES[spec.dtype];
  }

  copyPage(pool: KvPool, from: number, to: number): void {
    const { context, queue } = this.runtime;
    const { address, spec } = pool as CudaKvPool;
    const bytes = this.kvPageBytes(spec);
    queue.flush();
    const status = context.driver.copyWithin(address + to * bytes, address + from * bytes, bytes, context.stream);
    check(context.driver, status, "copyWithin", from, to, bytes);
  }

  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const { address, spec } = pool as CudaKvPool;
    const bytes = this.kvPageBytes(spec);
    for (let i = 0; i < count; i++) {
      this.runtime.download(out.subarray(i * bytes, (i + 1) * bytes), address + pages[i]! * bytes);
    }
  }

  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void {
    const { address, spec } = pool as CudaKvPool;
    const size = this.kvPageBytes(spec);
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
    const { spec, layout, address } = pool as CudaKvPool;
    const rotary = table as CudaRotary | null;
    const numHeads = q.cols / spec.keyDim;
    const warps = numHeads + (spec.isLatent === true ? 1 : 2) * spec.numKvHeads;
    (q as CudaTensor).storage.version++;
    this.runtime.queue
      .begin(
        this.runtime.modules.functionOf("rotary", "rotary_append"),
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
    if (staged.numTokens === 0 || plan.numItems === 0) return;
    const { spec, shape } = pool as CudaKvPool;
    const { numKvHeads } = spec;
    this.#reservePartials(pool as CudaKvPool, plan);
    const launch = (source: string, kernel: string, x: number, z: number, threads: number, shared: number): void => {
      const handle = this.runtime.modules.functionOf(source, kernel, shared);
      this.runtime.queue.begin(handle, bucket(x), numKvHeads, z, threads, shared);
      this.#arguments(out as CudaTensor, q as CudaTensor, pool as CudaKvPool, layer, staged, plan, planIndex, params);
    };
    (out as CudaTensor).storage.version++;
    if (shape === null) launch("attention-plain", "attention_plain", plan.numItems, 1, 128, 0);
    else {
      const name = `${spec.dtype}_${shape.dk}_${shape.dv}`;
      if (plan.hasDecodes) {
        launch("attention-decode", `decode_${name}`, plan.numItems, 1, 32 * shape.warps, decodeShared(shape));
      }
      if (plan.hasExtends) {
        const blocks = Math.ceil(plan.qTile / 64);
        launch("attention-extend", `extend_${name}`, plan.numItems, blocks, 128, extendShared(shape));
      }
    }
    if (plan.numMerges > 0) {
      launch("attention-merge", "attention_merge", plan.numMerges, plan.hasExtends ? 4 : 1, 128, 0);
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
      .long(staged.qoIndptr)
      .long(staged.kvIndptr[plan.group]!)
      .long(pool.partialO)
      .long(pool.partialMd);
    this.runtime
      .operandOut(out, staged.numTokens)
      .long(out.stride)
      .long(q.stride)
      .long(layout.page)
      .long(layer * layout.layer)
      .long(layout.values)
      .int(PLANS_AT + planIndex)
      .int(GROUPS_AT + plan.group)
      .int(params.numHeads)
      .int(spec.numKvHeads)
      .int(spec.keyDim)
      .int(spec.valueDim)
      .int(layout.keySlot)
      .int(layout.valueSlot)
      .int(spec.pageSize)
      .int(Math.log2(spec.pageSize))
      .int(KV_CODE[spec.dtype])
      .int(0)
      .float(params.scale)
      .float(params.softcap)
      .end();
  }

  /** Room for the partial states of any plan, taken when a plan first has some. */
  #reservePartials(pool: CudaKvPool, plan: StagedPlan): void {
    if (plan.numPartials === 0 || pool.partialO !== 0) return;
    const states = MAX_PARTIAL_ROWS * pool.spec.numKvHeads;
    const { context } = this.runtime;
    pool.partialO = context.alloc(4 * states * pool.spec.valueDim, "partial attention states");
    pool.partialMd = context.alloc(8 * states, "partial attention states");
  }
}

/** The next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ...: grids of few sizes, so that few graphs serve growing contexts. */
function bucket(count: number): number {
  if (count <= 8) return count;
  const step = 2 ** (Math.floor(Math.log2(count - 1)) - 2);
  return Math.ceil(count / step) * step;
}

function decodeShared({ dk, dv, warps, slots }: Shape): number {
  return 16 * dk * 2 + warps * 16 * (dv * 4 + 8) + warps * slots * 16 * Math.max(dk, dv) * 2;
}

function extendShared({ dk, dv }: Shape): number {
  return 64 * dk * 2 + UNIT * (dk + dv) * 2;
}
