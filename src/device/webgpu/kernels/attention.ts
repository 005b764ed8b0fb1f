// Attention over pages: one workgroup for each item of the plan and kv head, which has up to `rows` packed query rows. Chunks of 64 keys begin
// at absolute positions. A chunk is summed from an empty state in one order (scores, maximum, exponentials, eight sums of eight keys, values
// key by key); its state (m, s, o) is folded into the running one, here or in the merge, by the same statements. So the bits of a row depend
// on its position alone. Scores are in units of log2.
//
// 128 threads in two halves. Scores: thread k of a half has key k, and the half's query rows. Values: thread k has every 64th word of a value.

import type { KvDtype } from "../../device.js";
import { type Kernel, kernel, MATHS } from "../kernel.js";

/** Keys of a chunk: the plan's kvChunk. */
export const KEYS = 64;
const LOWEST = "-3.0e38";

interface ElementCode {
  /** Numbers in a word. */
  readonly perWord: 1 | 2 | 4;
  /** Words before the numbers: a vector's factor. */
  readonly header: 0 | 1;
  /** WGSL of the numbers in word `v`, as a list. */
  readonly unpack: (v: string) => readonly string[];
}

const bytes = (v: string, of: (byte: string) => string): readonly string[] =>
  [0, 8, 16, 24].map((at) => of(`(${v} >> ${at}u)`));

export const ELEMENT: Readonly<Record<KvDtype, ElementCode>> = {
  f32: { perWord: 1, header: 0, unpack: (v) => [`bitcast<f32>(${v})`] },
  f16: { perWord: 2, header: 0, unpack: (v) => [`unpack2x16float(${v}).x`, `unpack2x16float(${v}).y`] },
  bf16: { perWord: 2, header: 0, unpack: (v) => [`bitcast<f32>(${v} << 16u)`, `bitcast<f32>(${v} & 0xffff0000u)`] },
  i8: { perWord: 4, header: 1, unpack: (v) => bytes(v, (b) => `f32(extractBits(bitcast<i32>(${b}), 0u, 8u))`) },
  fp8: { perWord: 4, header: 1, unpack: (v) => bytes(v, (b) => `e4m3(${b})`) },
};

const E4M3 = `fn e4m3(b: u32) -> f32 {
  let m = b & 127u;
  let value = select(bitcast<f32>((m << 20u) + (120u << 23u)), f32(m) * 0.001953125, m < 8u);
  return select(value, -value, (b & 128u) != 0u);
}`;

/** Words of a vector of `dim` numbers. */
export function vectorWords(dtype: KvDtype, dim: number): number {
  const { perWord, header } = ELEMENT[dtype];
  return header + Math.ceil(dim / perWord);
}

/** The most packed query rows of a tile whose queries and scores fit workgroup memory of 16 KiB. */
export function mostTileRows(keyDim: number): number {
  return keyDim <= 128 ? 16 : keyDim <= 256 ? 8 : keyDim <= 640 ? 4 : 1;
}

const FOLD = (o: string, c: string): string => `${o} = fma(${o}, f0, ${c} * f1);`;
/** Of running (m, s) and a chunk's (m1, s1): f0 and f1, and the new ones. An empty chunk changes nothing, an empty state nothing of the chunk. */
const FACTORS = (m: string, s: string): string => `
      var f0 = 1.0; var f1 = 0.0;
      if (s1 > 0.0) {
        if (${s} > 0.0) { let top = max(${m}, m1); f0 = exp2(${m} - top); f1 = exp2(m1 - top); ${m} = top; }
        else { f0 = 0.0; f1 = 1.0; ${m} = m1; }
        ${s} = fma(${s}, f0, s1 * f1);
      }`;
const FINISH = `
fn finish(m: f32, s: f32, head: u32) -> f32 {
  if (s == 0.0) { return 0.0; }
  if (p.hasSinks == 0u) { return 1.0 / s; }
  let sink = $sinks[p.sinksAt + head] * 1.4426950408889634; let top = max(m, sink); let mine = exp2(m - top);
  return mine / fma(s, mine, exp2(sink - top));
}`;

const PARAMS =
  "items group window attentionChunk mostAhead:i qTile positions visibleEnd qoIndptr kvIndptr kvIndices qAt qStride outAt outStride page layerAt valuesAt keyHead keySlot valueHead valueSlot pageSize numKvHeads scale:f softcap:f hasSinks sinksAt";

export interface AttentionShape {
  readonly dtype: KvDtype;
  readonly keyDim: number;
  readonly valueDim: number;
}

export function attentionKernel({ dtype, keyDim, valueDim }: AttentionShape, rows: number): Kernel {
  const { perWord, header, unpack } = ELEMENT[dtype];
  const half = Math.max(1, rows / 2); // query rows of a half of the threads
  const keyWords = Math.ceil(keyDim / perWord);
  const valueWords = Math.ceil(valueDim / perWord);
  const pieces = Math.ceil(valueWords / 64); // words of a value that a thread has
  const each = pieces * perWord;
  const hasFactor = header === 1;
  const numbers = unpack("word");
  const padded = keyWords * perWord;
  return kernel(
    `attention-${dtype}-${keyDim}-${valueDim}-${rows}`,
    "out:rw:f32 states:rw:f32 q:r:f32 pool:r:u32 step:r:i32 sinks:r:f32",
    PARAMS,
    `${MATHS}${dtype === "fp8" ? E4M3 : ""}${FINISH}
var<workgroup> qs: array<f32, ${rows * padded}>;
var<workgroup> ps: array<f32, ${rows * KEYS}>;
var<workgroup> parts: array<f32, ${rows * 8}>;
var<workgroup> tops: array<f32, ${rows}>;
var<workgroup> lows: array<i32, ${rows}>;
var<workgroup> ends: array<i32, ${rows}>;
var<workgroup> valueAt: array<u32, ${KEYS}>;
@compute @workgroup_size(128) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let item = p.items + 6u * g.x; let kv = g.y; let side = l / 64u; let lane = l % 64u;
  let row = u32($step[item]); let qStart = u32($step[item + 1u]); let kvStart = $step[item + 2u]; let kvEnd = $step[item + 3u];
  let partial = $step[item + 4u];
  let firstToken = u32($step[p.qoIndptr + row]); let packedLen = (u32($step[p.qoIndptr + row + 1u]) - firstToken) * p.group;
  let numRows = select(0u, min(${rows}u, packedLen - qStart), packedLen > qStart && $step[item + 5u] != 0);
  let table = p.kvIndices + u32($step[p.kvIndptr + row]);
  for (var i = l; i < ${rows * padded}u; i += 128u) {
    let r = i / ${padded}u; let d = i % ${padded}u; var value = 0.0;
    if (r < numRows && d < ${keyDim}u) {
      let packed = qStart + r; let token = firstToken + packed / p.group; let head = kv * p.group + packed % p.group;
      value = $q[p.qAt + token * p.qStride + head * ${keyDim}u + d];
    }
    qs[i] = value;
  }
  if (l < ${rows}u) {
    var low = 0; var end = 0;
    if (l < numRows) {
      let token = firstToken + (qStart + l) / p.group; let position = $step[p.positions + token];
      end = min($step[p.visibleEnd + token], position + p.mostAhead);
      if (p.window > 0u) { low = max(0, position - i32(p.window) + 1); }
      else if (p.attentionChunk > 0u) { low = position - position % i32(p.attentionChunk); }
      end = min(end, kvEnd);
    }
    lows[l] = low; ends[l] = end;
  }
  var o: array<f32, ${half * each}>; var m: array<f32, ${half}>; var s: array<f32, ${half}>;
  for (var r = 0u; r < ${half}u; r++) { m[r] = ${LOWEST}; s[r] = 0.0; }
  let lastChunk = select(kvStart, kvEnd, numRows > 0u);
  for (var chunk = kvStart; chunk < lastChunk; chunk += ${KEYS}) {
    let key = chunk + i32(lane); let isThere = key < kvEnd;
    workgroupBarrier();
    var dots = array<f32, ${half}>();
    if (isThere) {
      let slot = u32(key) % p.pageSize; let base = u32($step[table + u32(key) / p.pageSize]) * p.page + p.layerAt;
      let at = base + kv * p.keyHead + slot * p.keySlot;
      if (side == 0u) { valueAt[lane] = base + p.valuesAt + kv * p.valueHead + slot * p.valueSlot; }
      for (var w = 0u; w < ${keyWords}u; w++) {
        let word = $pool[at + ${header}u + w];
        ${numbers.map((n, i) => `let k${i} = ${n};`).join(" ")}
        for (var r = 0u; r < ${half}u; r++) {
          let qAt = min(side * ${half}u + r, ${rows - 1}u) * ${padded}u + w * ${perWord}u;
          ${numbers.map((_, i) => `dots[r] = fma(k${i}, qs[qAt + ${i}u], dots[r]);`).join(" ")}
        }
      }
      ${hasFactor ? `let factor = bitcast<f32>($pool[at]); for (var r = 0u; r < ${half}u; r++) { dots[r] = dots[r] * factor; }` : ""}
    }
    for (var r = 0u; r < ${half}u; r++) {
      let mine = side * ${half}u + r;
      if (mine < ${rows}u) {
        var score = ${LOWEST};
        if (isThere && key >= lows[mine] && key < ends[mine]) {
          score = dots[r] * p.scale;
          if (p.softcap > 0.0) { score = p.softcap * tanhOf(score / p.softcap); }
          score = score * 1.4426950408889634;
        }
        ps[mine * ${KEYS}u + lane] = score;
      }
    }
    workgroupBarrier();
    let sr = l / 8u; let first = sr * ${KEYS}u + (l % 8u) * 8u;
    if (sr < ${rows}u) { var most = ${LOWEST}; for (var i = 0u; i < 8u; i++) { most = max(most, ps[first + i]); } parts[l] = most; }
    workgroupBarrier();
    var top = ${LOWEST};
    if (sr < ${rows}u) { for (var i = 0u; i < 8u; i++) { top = max(top, parts[sr * 8u + i]); } }
    workgroupBarrier();
    if (sr < ${rows}u) {
      var sum = 0.0;
      for (var i = 0u; i < 8u; i++) {
        let score = ps[first + i]; let e = select(exp2(score - top), 0.0, score <= -2.9e38);
        ps[first + i] = e; sum = sum + e;
      }
      parts[l] = sum; if (l % 8u == 0u) { tops[sr] = top; }
    }
    workgroupBarrier();
    var c = array<f32, ${half * each}>();
    let end = u32(min(kvEnd - chunk, ${KEYS}));
    for (var j = 0u; j < ${pieces}u; j++) {
      let w = lane + 64u * j;
      if (w < ${valueWords}u) {
        for (var k = 0u; k < end; k++) {
          let word = $pool[valueAt[k] + ${header}u + w]; ${hasFactor ? "let factor = bitcast<f32>($pool[valueAt[k]]);" : ""}
          ${numbers.map((n, i) => `let v${i} = ${n}${hasFactor ? " * factor" : ""};`).join(" ")}
          for (var r = 0u; r < ${half}u; r++) {
            let e = ps[min(side * ${half}u + r, ${rows - 1}u) * ${KEYS}u + k];
            ${numbers.map((_, i) => `c[r * ${each}u + j * ${perWord}u + ${i}u] = fma(e, v${i}, c[r * ${each}u + j * ${perWord}u + ${i}u]);`).join(" ")}
          }
        }
      }
    }
    for (var r = 0u; r < ${half}u; r++) {
      let mine = min(side * ${half}u + r, ${rows - 1}u); var s1 = 0.0; let m1 = tops[mine];
      for (var i = 0u; i < 8u; i++) { s1 = s1 + parts[mine * 8u + i]; }
      ${FACTORS("m[r]", "s[r]")}
      for (var i = 0u; i < ${each}u; i++) { ${FOLD(`o[r * ${each}u + i]`, `c[r * ${each}u + i]`)} }
    }
  }
  for (var r = 0u; r < ${half}u; r++) {
    let mine = side * ${half}u + r;
    if (mine < numRows) {
      let packed = qStart + mine; let head = kv * p.group + packed % p.group;
      var at = p.outAt + (firstToken + packed / p.group) * p.outStride + head * ${valueDim}u; var factor = 1.0;
      if (partial >= 0) {
        at = ((u32(partial) * p.numKvHeads + kv) * p.qTile + mine) * ${valueDim + 2}u;
        if (lane == 0u) { $states[at] = m[r]; $states[at + 1u] = s[r]; }
        at += 2u;
      } else { factor = finish(m[r], s[r], head); }
      for (var i = 0u; i < ${each}u; i++) {
        let d = (lane + 64u * (i / ${perWord}u)) * ${perWord}u + i % ${perWord}u;
        if (d < ${valueDim}u) {
          if (partial >= 0) { $states[at + d] = o[r * ${each}u + i]; } else { $out[at + d] = o[r * ${each}u + i] * factor; }
        }
      }
    }
  }
}`,
  );
}

/** One workgroup for each merge entry, kv head and packed row: the states of a tile's chunks, folded from the first to the last. */
export function mergeKernel(valueDim: number): Kernel {
  const each = Math.ceil(valueDim / 64);
  return kernel(
    `merge-${valueDim}`,
    "out:rw:f32 states:r:f32 step:r:i32 sinks:r:f32",
    "merges group qTile qoIndptr outAt outStride numKvHeads hasSinks sinksAt",
    `${FINISH}
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let entry = p.merges + 4u * g.x; let kv = g.y;
  let row = u32($step[entry]); let first = u32($step[entry + 2u]); let count = u32($step[entry + 3u]);
  let packed = u32($step[entry + 1u]) + g.z;
  let firstToken = u32($step[p.qoIndptr + row]); let packedLen = (u32($step[p.qoIndptr + row + 1u]) - firstToken) * p.group;
  if (packed >= packedLen) { return; }
  var m = ${LOWEST}; var s = 0.0; var o: array<f32, ${each}>;
  for (var i = 0u; i < count; i++) {
    let at = (((first + i) * p.numKvHeads + kv) * p.qTile + g.z) * ${valueDim + 2}u;
    let m1 = $states[at]; let s1 = $states[at + 1u];
    ${FACTORS("m", "s")}
    for (var j = 0u; j < ${each}u; j++) { let d = l + 64u * j; if (d < ${valueDim}u) { let c = $states[at + 2u + d]; ${FOLD("o[j]", "c")} } }
  }
  if (count == 0u) { return; }
  let head = kv * p.group + packed % p.group; let factor = finish(m, s, head);
  let to = p.outAt + (firstToken + packed / p.group) * p.outStride + head * ${valueDim}u;
  for (var j = 0u; j < ${each}u; j++) { let d = l + 64u * j; if (d < ${valueDim}u) { $out[to + d] = o[j] * factor; } }
}`,
  );
}
