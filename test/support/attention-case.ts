// Ragged attention problems with known numbers. Q, K and V of a token depend on (seed, sequence, position) alone, so the same
// sequence can be laid out in different batches, chunks and pages; every slot that no token owns is NaN, so a stray read shows.

import type { AttentionPlan } from "../../src/core/attention-plan.js";
import { Batch } from "../../src/core/batch.js";
import type { KvPoolSpec } from "../../src/device/device.js";
import { keyOffset, kvLayout, valueOffset } from "../../src/device/kv-layout.js";
import { AttentionScratch, type HostAttentionParams, runAttention } from "../../src/device/reference/attention.js";

export interface CaseShape {
  readonly seed: number;
  readonly numKvHeads: number; // K
  readonly groupSize: number; // G
  readonly keyDim: number; // D
  readonly valueDim: number; // Dv
  readonly pageSize: number; // P
}

/** Tokens [start, start + queryLen) of sequence `sequence` are new. */
export interface CaseRow {
  readonly sequence: number;
  readonly start: number;
  readonly queryLen: number;
  /** Tokens at positions [from, to) see all keys before `to`: an encoder's sequence, an image in a prompt. */
  readonly together?: readonly [from: number, to: number];
}

export interface Masking {
  readonly window?: number;
  readonly attentionChunk?: number;
  /** As VisibleRule has it; left out: as far ahead as the window reaches back. */
  readonly mostAhead?: number;
  readonly softcap?: number;
  readonly sinks?: Float32Array | null; // [H]
}

const LAYERS = 2;
const LAYER = 1;

/** A number in [-1, 1) from a mix of four integers. */
export function noise(seed: number, a: number, b: number, c: number): number {
  let h = (seed ^ 0x9e3779b9) | 0;
  h = Math.imul(h ^ a, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13) ^ b, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 16) ^ c, 0x27d4eb2f);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  return Math.fround(((h ^ (h >>> 16)) | 0) / 0x80000000);
}

export class AttentionCase {
  readonly shape: CaseShape;
  readonly rows: readonly CaseRow[];
  readonly batch: Batch;
  readonly spec: KvPoolSpec;
  readonly pool: Float32Array;
  readonly q: Float32Array; // [T, H*D]
  readonly numHeads: number;

  constructor(shape: CaseShape, rows: readonly CaseRow[]) {
    this.shape = shape;
    this.rows = rows;
    const { pageSize, numKvHeads, groupSize, keyDim, valueDim, seed } = shape;
    this.numHeads = numKvHeads * groupSize;
    const numTokens = rows.reduce((n, row) => n + row.queryLen, 0);
    const pagesOf = rows.map((row) => Math.ceil((row.start + row.queryLen) / pageSize));
    const numPages = 1 + pagesOf.reduce((a, b) => a + b, 0);
    this.spec = { numPages, pageSize, numLayers: LAYERS, numKvHeads, keyDim, valueDim, dtype: "f32" };
    this.batch = new Batch(pageSize, Math.max(1, numTokens));
    const layout = kvLayout(this.spec);
    this.pool = new Float32Array(numPages * layout.page).fill(NaN);
    this.q = new Float32Array(numTokens * this.numHeads * keyDim);

    // Pages in an order that is neither sorted nor the same for every row; page 0 stays the null page.
    const free = Array.from({ length: numPages - 1 }, (_, i) => i + 1);
    free.sort((a, b) => noise(seed, a, 1, 7) - noise(seed, b, 1, 7));
    let t = 0;
    for (const [r, row] of rows.entries()) {
      const contextLen = row.start + row.queryLen;
      const pages = Int32Array.from(free.splice(0, pagesOf[r]));
      this.batch.addRow(new Int32Array(contextLen), row.start, row.queryLen, pages, Infinity);
      if (row.together !== undefined) this.batch.setVisibleEnd(row.together[1], ...row.together);
      for (let pos = 0; pos < contextLen; pos++) {
        for (let head = 0; head < numKvHeads; head++) {
          const page = pages[Math.floor(pos / pageSize)]!;
          const k = keyOffset(layout, page, LAYER, head, pos % pageSize);
          const v = valueOffset(layout, page, LAYER, head, pos % pageSize);
          for (let i = 0; i < keyDim; i++) this.pool[k + i] = this.key(row.sequence, pos, head, i);
          for (let i = 0; i < valueDim; i++) this.pool[v + i] = this.value(row.sequence, pos, head, i);
        }
      }
      for (let pos = row.start; pos < contextLen; pos++, t++) {
        for (let head = 0; head < this.numHeads; head++) {
          for (let i = 0; i < keyDim; i++) {
            this.q[(t * this.numHeads + head) * keyDim + i] = this.query(row.sequence, pos, head, i);
          }
        }
      }
    }
  }

  query(sequence: number, pos: number, head: number, i: number): number {
    return 2 * noise(this.shape.seed + 1, sequence, pos, head * 1000 + i);
  }
  key(sequence: number, pos: number, head: number, i: number): number {
    return 2 * noise(this.shape.seed + 2, sequence, pos, head * 1000 + i);
  }
  value(sequence: number, pos: number, head: number, i: number): number {
    return noise(this.shape.seed + 3, sequence, pos, head * 1000 + i);
  }

  params(masking: Masking = {}): HostAttentionParams {
    const { sinks = null } = masking;
    return {
      numHeads: this.numHeads,
      scale: 1 / Math.sqrt(this.shape.keyDim),
      softcap: masking.softcap ?? 0,
      sinks: sinks === null ? null : { data: sinks, offset: 0, stride: sinks.length },
    };
  }

  /** The reference run: out [T, H, Dv] and lse [T, H]. */
  run(
    plan: AttentionPlan,
    masking: Masking = {},
    scratch = new AttentionScratch(this.spec),
  ): { out: Float32Array; lse: Float32Array } {
    const { numTokens } = this.batch;
    const width = this.numHeads * this.shape.valueDim;
    const out = new Float32Array(numTokens * width).fill(NaN);
    const lse = new Float32Array(numTokens * this.numHeads).fill(NaN);
    runAttention(
      { data: out, offset: 0, stride: width },
      { data: this.q, offset: 0, stride: this.numHeads * this.shape.keyDim },
      { data: this.pool, spec: this.spec },
      LAYER,
      this.batch,
      plan,
      this.params(masking),
      scratch,
      lse,
    );
    return { out, lse };
  }

  /** The textbook softmax in f64, straight from the generators: no pages, no tiles, natural exponentials. */
  naive(masking: Masking = {}): { out: Float64Array; lse: Float64Array } {
    const { keyDim, valueDim, groupSize } = this.shape;
    const { window = 0, attentionChunk = 0, softcap = 0, sinks = null } = masking;
    const { mostAhead = window > 0 ? window : Infinity } = masking;
    const { numHeads } = this;
    const out = new Float64Array(this.batch.numTokens * numHeads * valueDim);
    const lse = new Float64Array(this.batch.numTokens * numHeads);
    let t = 0;
    for (const row of this.rows) {
      for (let pos = row.start; pos < row.start + row.queryLen; pos++, t++) {
        for (let head = 0; head < numHeads; head++) {
          const kvHead = Math.floor(head / groupSize);
          const chunkStart = attentionChunk > 0 ? Math.floor(pos / attentionChunk) * attentionChunk : 0;
          const first = window > 0 ? Math.max(0, pos - window + 1) : chunkStart;
          const [from, to] = row.together ?? [0, 0];
          const end = pos >= from && pos < to ? Math.min(to, pos + mostAhead) : pos + 1;
          const scores: number[] = [];
          for (let key = first; key < end; key++) {
            let dot = 0;
            for (let i = 0; i < keyDim; i++) {
              dot += this.query(row.sequence, pos, head, i) * this.key(row.sequence, key, kvHead, i);
            }
            const score = dot / Math.sqrt(keyDim);
            scores.push(softcap > 0 ? softcap * Math.tanh(score / softcap) : score);
          }
          const max = Math.max(...scores, sinks?.[head] ?? -Infinity);
          let keys = 0;
          for (const score of scores) keys += Math.exp(score - max);
          const denominator = keys + (sinks === null ? 0 : Math.exp(sinks[head]! - max));
          lse[t * numHeads + head] = (max + Math.log(keys)) * Math.LOG2E;
          for (let i = 0; i < valueDim; i++) {
            let o = 0;
            for (const [k, score] of scores.entries()) {
              o += (Math.exp(score - max) / denominator) * this.value(row.sequence, first + k, kvHead, i);
            }
            out[(t * numHeads + head) * valueDim + i] = o;
          }
        }
      }
    }
    return { out, lse };
  }
}

/** The largest |a - b|; Infinity when one is not a number and the other is. */
export function maxDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let worst = a.length === b.length ? 0 : Infinity;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs(a[i]! - b[i]!);
    if (!(difference <= worst)) worst = Number.isNaN(difference) ? Infinity : difference;
  }
  return worst;
}
