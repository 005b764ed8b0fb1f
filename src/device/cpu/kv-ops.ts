// The page pool, rotary embedding and attention of the cpu device. Layout of a page: native/cpu/src/kv-pool.h.

import type { AttentionParams, KvPool, KvPoolSpec, RotarySpec, RotaryTable, StagedBatch, Tensor } from "../device.js";
import { KV_DTYPE_CODE } from "./codes.js";
import type { CpuContext, CpuTensor } from "./memory.js";
import { CpuRowOps } from "./row-ops.js";
import type { CpuStagedBatch } from "./staged-batch.js";

export class CpuKvPool implements KvPool {
  readonly spec: KvPoolSpec;
  readonly handle: number;
  readonly byteLength: number;

  constructor(spec: KvPoolSpec, handle: number, byteLength: number) {
    this.spec = spec;
    this.handle = handle;
    this.byteLength = byteLength;
  }
}

/** cos and sin of the staged tokens in native memory [maxTokens, half]. */
export class CpuRotary implements RotaryTable {
  readonly spec: RotarySpec;
  readonly half: number; // rotaryDim / 2
  readonly cos: number;
  readonly sin: number;
  readonly invFreq: number;
  readonly interleaved: number;
  readonly maxTokens: number;

  constructor(context: CpuContext, spec: RotarySpec, maxTokens: number) {
    this.spec = spec;
    this.maxTokens = maxTokens;
    this.half = spec.invFreq.length;
    this.cos = context.alloc(4 * maxTokens * this.half, "the rotary table");
    this.sin = context.alloc(4 * maxTokens * this.half, "the rotary table");
    this.invFreq = context.alloc(4 * this.half, "the rotary table");
    this.interleaved = spec.interleaved ? 1 : 0;
    context.floats(this.invFreq, this.half).set(spec.invFreq);
  }
}

export abstract class CpuKvOps extends CpuRowOps {
  readonly #pools: CpuKvPool[] = [];

  allocKvPool(spec: KvPoolSpec): CpuKvPool {
    const { native, handle } = this.context;
    const { numPages, pageSize, numLayers, numKvHeads, keyDim, valueDim } = spec;
    const latent = spec.isLatent === true ? 1 : 0;
    const dtype = KV_DTYPE_CODE[spec.dtype];
    const bytes = numPages * this.kvPageBytes(spec);
    const create = (out: BigUint64Array) =>
      native.pg_kv_pool_create(handle, numPages, pageSize, numLayers, numKvHeads, keyDim, valueDim, latent, dtype, out);
    const address = this.context.create("pg_kv_pool_create", create, bytes, `a KV pool of ${numPages} pages`);
    const pool = new CpuKvPool(spec, address, bytes);
    this.#pools.push(pool);
    return pool;
  }

  kvPageBytes(spec: Omit<KvPoolSpec, "numPages">): number {
    const { pageSize, numLayers, numKvHeads, keyDim, valueDim } = spec;
    const latent = spec.isLatent === true ? 1 : 0;
    const dtype = KV_DTYPE_CODE[spec.dtype];
    const bytes = this.context.native.pg_kv_page_bytes(
      pageSize,
      numLayers,
      numKvHeads,
      keyDim,
      valueDim,
      latent,
      dtype,
    );
    if (bytes < 0)
      throw new RangeError(`no page of ${pageSize} x ${numLayers} x ${numKvHeads} x ${keyDim}/${valueDim}`);
    return bytes;
  }

  copyPage(pool: KvPool, from: number, to: number): void {
    const { native, handle } = this.context;
    this.context.check(native.pg_copy_page(handle, (pool as CpuKvPool).handle, from, to), "pg_copy_page");
  }

  readPages(out: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const { native, handle } = this.context;
    this.#checkRoom(out, pool, pages, count);
    this.context.check(native.pg_read_pages(handle, out, (pool as CpuKvPool).handle, pages, count), "pg_read_pages");
  }

  writePages(pool: KvPool, pages: Int32Array, count: number, bytes: Uint8Array): void {
    const { native, handle } = this.context;
    this.#checkRoom(bytes, pool, pages, count);
    this.context.check(
      native.pg_write_pages(handle, (pool as CpuKvPool).handle, pages, count, bytes),
      "pg_write_pages",
    );
  }

  #checkRoom(bytes: Uint8Array, pool: KvPool, pages: Int32Array, count: number): void {
    const needed = count * this.kvPageBytes(pool.spec);
    if (bytes.length < needed || pages.length < count)
      throw new RangeError(`${count} pages of ${needed} bytes, room for ${pages.length} and ${bytes.length}`);
  }

  createRotary(spec: RotarySpec, maxTokens: number): CpuRotary {
    return new CpuRotary(this.context, spec, maxTokens);
  }

  rotaryTable(table: RotaryTable, batch: StagedBatch): void {
    const { native, handle } = this.context;
    const { cos, sin, invFreq, half, spec } = table as CpuRotary;
    this.context.check(
      native.pg_rotary_table(handle, cos, sin, (batch as CpuStagedBatch).handle, invFreq, half, spec.scale),
      "pg_rotary_table",
    );
  }

  writeRotary(table: RotaryTable, first: number, cos: Float32Array, sin: Float32Array, n: number): void {
    const { half, cos: toCos, sin: toSin, maxTokens } = table as CpuRotary;
    if (first < 0 || first + n > maxTokens || cos.length < n * half || sin.length < n * half)
      throw new RangeError(`rows ${first}..${first + n} of ${maxTokens} from ${cos.length} and ${sin.length} numbers`);
    this.context.floats(toCos + 4 * first * half, n * half).set(cos.subarray(0, n * half));
    this.context.floats(toSin + 4 * first * half, n * half).set(sin.subarray(0, n * half));
  }

  rotary(x: Tensor, table: RotaryTable, headDim: number, offset: number, batch: StagedBatch): void {
    const { native, handle } = this.context;
    const { address, stride, cols } = x as CpuTensor;
    const { cos, sin, half, interleaved } = table as CpuRotary;
    const heads = cols / headDim;
    const tokens = batch.numTokens;
    this.context.check(
      native.pg_rotary(handle, address, stride, tokens, heads, headDim, offset, cos, sin, half, interleaved),
      "pg_rotary",
    );
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
    const { native, handle } = this.context;
    const rotary = table as CpuRotary | null;
    this.context.check(
      native.pg_rotary_append(
        handle,
        (q as CpuTensor).address,
        q.stride,
        q.cols / pool.spec.keyDim,
        (k as CpuTensor).address,
        k.stride,
        (v as CpuTensor).address,
        v.stride,
        rotary === null ? 0 : rotary.cos,
        rotary === null ? 0 : rotary.sin,
        rotary === null ? 0 : rotary.half,
        rotary === null ? 0 : rotary.interleaved,
        (batch as CpuStagedBatch).handle,
        pool.spec.group ?? 0,
        (pool as CpuKvPool).handle,
        layer,
      ),
      "pg_rotary_append",
    );
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
    const { native, handle } = this.context;
    this.context.check(
      native.pg_attention(
        handle,
        (out as CpuTensor).address,
        out.stride,
        (q as CpuTensor).address,
        q.stride,
        (batch as CpuStagedBatch).handle,
        pool.spec.group ?? 0,
        planIndex,
        (pool as CpuKvPool).handle,
        layer,
        params.numHeads,
        params.scale,
        params.softcap,
        params.sinks === null ? 0 : (params.sinks as CpuTensor).address,
      ),
      "pg_attention",
    );
  }

  protected freePools(): void {
    for (const pool of this.#pools.splice(0)) this.context.native.pg_kv_pool_free(pool.handle);
  }
}
