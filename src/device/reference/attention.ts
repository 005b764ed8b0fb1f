// The run of attention on the reference device: plain, obvious, the oracle of every kernel. It walks the plan's work items,
// reads K and V through the page table, and keeps one online-softmax state per (packed query row, kv head).
//
// A row's result depends on its position and plan.kvChunk alone (see core/attention-plan.ts): each chunk starts from an empty
// state, key tiles inside it ascend from the chunk's start, masked keys are never touched, and chunk states fold left to right.

import { type AttentionPlan, visibleEnd, visibleStart } from "../../core/attention-plan.js";
import type { Batch } from "../../core/batch.js";
import type { AttentionParams, KvPoolSpec } from "../device.js";
import { type KvLayout, keyOffset, kvLayout, valueOffset } from "../kv-layout.js";
import { exp2, SoftmaxStates } from "./softmax-state.js";
import { addWeighted, dots } from "./tile-sums.js";

/** Rows of f32 in host memory: row i starts at offset + i * stride. */
export interface HostRows {
  readonly data: Float32Array;
  readonly offset: number;
  readonly stride: number;
}

/** The pool in host memory. Narrower KV types are rounded when written and held as f32. */
export interface HostPool {
  readonly data: Float32Array;
  readonly spec: KvPoolSpec;
}

export interface HostAttentionParams extends Omit<AttentionParams, "sinks"> {
  readonly sinks: HostRows | null; // [1, H]
}

/** Keys whose scores are computed before their values are added. A constant: the order of summation rests on it. */
const KEY_TILE = 64;

/**
 * Memory of the run and the call under way. Made once per pool shape; grown only when a plan has more partials than any before
 * it. One call at a time.
 */
export class AttentionScratch {
  readonly layout: KvLayout;
  readonly chunk: SoftmaxStates; // [1] the chunk being summed
  readonly total: SoftmaxStates; // [1] the fold of the chunks so far
  readonly scores = new Float64Array(KEY_TILE);
  readonly at = new Uint32Array(KEY_TILE); // where the tile's keys begin, then its values
  readonly sum: Float64Array; // [Dv] o of the chunk being summed, before it is rounded
  partials: SoftmaxStates; // [numPartials, K, qTile]

  q!: HostRows;
  pool!: HostPool;
  layer = 0;
  batch!: Batch;
  plan!: AttentionPlan;
  params!: HostAttentionParams;

  constructor(spec: KvPoolSpec) {
    this.layout = kvLayout(spec);
    this.chunk = new SoftmaxStates(1, spec.valueDim);
    this.total = new SoftmaxStates(1, spec.valueDim);
    this.sum = new Float64Array(spec.valueDim);
    this.partials = new SoftmaxStates(0, spec.valueDim);
  }

  /** Makes room for `rows` partial states; their content is lost. */
  ensurePartials(rows: number): void {
    if (rows <= this.partials.rows) return;
    this.partials = new SoftmaxStates(Math.max(rows, 2 * this.partials.rows), this.partials.dim);
  }
}

/**
 * out [T, H*Dv] = attention of q [T, H*D] over the batch's pages of `layer`. `lse` [T, H], where given, receives the base-2
 * log-sum-exp over the keys (sinks not counted, so that states can be merged later). A row that sees no key gives zeros and -inf.
 */
export function runAttention(
  out: HostRows,
  q: HostRows,
  pool: HostPool,
  layer: number,
  batch: Batch,
  plan: AttentionPlan,
  params: HostAttentionParams,
  scratch: AttentionScratch,
  lse: Float32Array | null = null,
): void {
  const { numKvHeads } = pool.spec;
  const { groupSize, qTile } = plan;
  scratch.ensurePartials(plan.numPartials * numKvHeads * qTile);
  scratch.q = q;
  scratch.pool = pool;
  scratch.layer = layer;
  scratch.batch = batch;
  scratch.plan = plan;
  scratch.params = params;

  for (let item = 0; item < plan.numItems; item++) {
    if (plan.itemQLen[item] === 0) continue;
    const row = plan.itemRow[item]!;
    const qStart = plan.itemQStart[item]!;
    const qEnd = qStart + plan.itemQLen[item]!;
    const partial = plan.itemPartial[item]!;
    for (let kvHead = 0; kvHead < numKvHeads; kvHead++) {
      for (let packed = qStart; packed < qEnd; packed++) {
        const token = batch.qoIndptr[row]! + Math.floor(packed / groupSize);
        const head = kvHead * groupSize + (packed % groupSize);
        foldItem(scratch, item, row, token, head, kvHead);
        if (partial < 0) {
          writeOutput(out, lse, params, scratch.total, token, head);
        } else {
          const state = (partial * numKvHeads + kvHead) * qTile + (packed - qStart);
          scratch.partials.clear(state);
          scratch.partials.merge(state, scratch.total, 0);
        }
      }
    }
  }

  for (let i = 0; i < plan.numMerges; i++) {
    if (plan.mergeCount[i] === 0) continue;
    const row = plan.mergeRow[i]!;
    const qStart = plan.mergeQStart[i]!;
    const qEnd = Math.min(qStart + qTile, batch.queryLen(row) * groupSize);
    for (let kvHead = 0; kvHead < numKvHeads; kvHead++) {
      for (let packed = qStart; packed < qEnd; packed++) {
        scratch.total.clear(0);
        for (let part = 0; part < plan.mergeCount[i]!; part++) {
          const state = ((plan.mergePartial[i]! + part) * numKvHeads + kvHead) * qTile + (packed - qStart);
          scratch.total.merge(0, scratch.partials, state);
        }
        const token = batch.qoIndptr[row]! + Math.floor(packed / groupSize);
        writeOutput(out, lse, params, scratch.total, token, kvHead * groupSize + (packed % groupSize));
      }
    }
  }
}

/** total = the states of the item's chunks for one query row, folded in ascending order. */
function foldItem(
  scratch: AttentionScratch,
  item: number,
  row: number,
  token: number,
  head: number,
  kvHead: number,
): void {
  const { plan, batch } = scratch;
  const { kvChunk } = plan;
  const position = batch.positions[token]!;
  const kvEnd = Math.min(plan.itemKvEnd[item]!, visibleEnd(plan, position, batch.visibleEnd[token]!));
  const firstKey = visibleStart(plan, position);
  scratch.total.clear(0);
  for (let chunkStart = plan.itemKvStart[item]!; chunkStart < kvEnd; chunkStart += kvChunk) {
    const chunkEnd = Math.min(chunkStart + kvChunk, kvEnd);
    if (firstKey >= chunkEnd) continue;
    sumChunk(scratch, row, token, head, kvHead, chunkStart, chunkEnd, firstKey);
    scratch.total.merge(0, scratch.chunk, 0);
  }
}

/** chunk = the state of keys [max(chunkStart, firstKey), chunkEnd) for one query row. */
function sumChunk(
  scratch: AttentionScratch,
  row: number,
  token: number,
  head: number,
  kvHead: number,
  chunkStart: number,
  chunkEnd: number,
  firstKey: number,
): void {
  const { q, layer, layout, scores, sum, at } = scratch;
  const { kvIndptr, kvIndices } = scratch.batch.groups[scratch.plan.group]!;
  const { data } = scratch.pool;
  const { pageSize, keyDim, valueDim } = scratch.pool.spec;
  const { scale, softcap } = scratch.params;
  const firstPage = kvIndptr[row]!;
  const qAt = q.offset + token * q.stride + head * keyDim;
  let m = -Infinity;
  let d = 0;
  sum.fill(0);

  for (let tile = chunkStart; tile < chunkEnd; tile += KEY_TILE) {
    const from = Math.max(tile, firstKey);
    const to = Math.min(tile + KEY_TILE, chunkEnd);
    let tileMax = m;
    for (let key = from; key < to; key++) {
      const page = kvIndices[firstPage + Math.floor(key / pageSize)]!;
      at[key - tile] = keyOffset(layout, page, layer, kvHead, key % pageSize);
    }
    dots(scores, q.data, qAt, data, at, from - tile, to - tile, keyDim);
    for (let i = from - tile; i < to - tile; i++) {
      const scaled = scores[i]! * scale;
      const score = (softcap > 0 ? softcap * Math.tanh(scaled / softcap) : scaled) * Math.LOG2E;
      scores[i] = score;
      if (score > tileMax) tileMax = score;
    }
    // m is rounded before it is used, so that the stored f32 m is the very one that o and d refer to.
    const newMax = Math.fround(tileMax);
    if (newMax !== m && d > 0) {
      const rescale = exp2(m - newMax);
      d *= rescale;
      for (let i = 0; i < valueDim; i++) sum[i] = sum[i]! * rescale;
    }
    m = newMax;
    for (let key = from; key < to; key++) {
      const page = kvIndices[firstPage + Math.floor(key / pageSize)]!;
      at[key - tile] = valueOffset(layout, page, layer, kvHead, key % pageSize);
      const p = exp2(scores[key - tile]! - m);
      d += p;
      scores[key - tile] = p;
    }
    addWeighted(sum, scores, data, at, from - tile, to - tile);
  }
  scratch.chunk.o.set(sum);
  scratch.chunk.m[0] = m;
  scratch.chunk.d[0] = d;
}

/** out[token, head] = o / d, with the head's sink in the denominator where there is one. */
function writeOutput(
  out: HostRows,
  lse: Float32Array | null,
  params: HostAttentionParams,
  state: SoftmaxStates,
  token: number,
  head: number,
): void {
  const { dim } = state;
  const { sinks, numHeads } = params;
  const at = out.offset + token * out.stride + head * dim;
  if (lse !== null) lse[token * numHeads + head] = state.lse(0);
  if (state.isEmpty(0)) {
    out.data.fill(0, at, at + dim);
    return;
  }
  let factor = 1 / state.d[0]!;
  if (sinks !== null) {
    const sink = sinks.data[sinks.offset + head]! * Math.LOG2E;
    const m = Math.max(state.m[0]!, sink);
    const mine = exp2(state.m[0]! - m);
    factor = mine / (state.d[0]! * mine + exp2(sink - m));
  }
  for (let i = 0; i < dim; i++) out.data[at + i] = state.o[i]! * factor;
}
