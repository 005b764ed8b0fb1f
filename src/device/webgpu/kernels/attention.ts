// Attention over pages: one workgroup for each item of the plan and kv head, which has up to `rows` packed query rows. Chunks of 64 keys begin
// at absolute positions. A chunk is summed from an empty state in one order (scores, maximum, exponentials, eight sums of eight keys, values
// key by key); its state (m, s, o) is folded into the running one, here or in the merge, by the same statements. So the bits of a row depend
// on its position alone. Scores are in units of log2.
//
// 128 threads in two halves. Scores: thread k of a half has key k, and the half's query rows. Values: thread k has every 64th word of a value.

import type { KvDtype } from "../../device.js";
import { type Kernel, kernel, MATHS } from "../kernel.js";
import { ROUND_FOUR } from "./rounding.js";

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

const each = (count: number, line: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => line(i)).join(" ");

export function attentionKernel({ dtype, keyDim, valueDim }: AttentionShape, rows: number): Kernel {
  const { perWord, header, unpack } = ELEMENT[dtype];
  const half = Math.max(1, rows / 2); // query rows of a half of the threads
  const keyWords = Math.ceil(keyDim / perWord);
  const valueWords = Math.ceil(valueDim / perWord);
  const pieces = Math.ceil(valueWords / 64); // words of a value that a thread has
  const hasFactor = header === 1;
  // Vectors that begin at 16 bytes are read 16 bytes at a time.
  const isWide = header === 0 && keyWords % 4 === 0 && valueWords % 4 === 0;
  const wordsRead = isWide ? 4 : 1;
  const numRead = wordsRead * perWord;
  const padded = keyWords * perWord;
  const q = numRead % 4 === 0 ? 4 : 1; // numbers of q in an element of workgroup memory
  const wordAt = (at: string): string => (isWide ? `$pool[(${at}) / 4u][(${at}) % 4u]` : `$pool[${at}]`);
  const keys = isWide ? ["raw.x", "raw.y", "raw.z", "raw.w"].flatMap(unpack) : unpack("raw");
  const query = (i: number): string => (q === 4 ? `q${Math.floor(i / 4)}.${"xyzw"[i % 4]}` : `q${i}`);
  const perRow = (line: (r: number) => string): string => each(half, line);
  const perNumber = (line: (r: number, i: number) => string): string =>
    perRow((r) => each(pieces * perWord, (i) => line(r, i)));
  const mine = (r: number): string => `min(side * ${half}u + ${r}u, ${rows - 1}u)`;
  return kernel(
    `attention-${dtype}-${keyDim}-${valueDim}-${rows}`,
    `out:rw:f32 states:rw:f32 q:r:f32 pool:r:${isWide ? "vec4u" : "u32"} step:r:i32 sinks:r:f32`,
    PARAMS,
    `${MATHS}${dtype === "fp8" ? E4M3 : ""}${FINISH}
var<workgroup> qs: array<${q === 4 ? "vec4f" : "f32"}, ${(rows * padded) / q}>;
var<workgroup> ps: array<vec4f, ${(rows * KEYS) / 4}>;
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
    qs[i${q === 4 ? " / 4u][i % 4u" : ""}] = value;
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
  ${perRow((r) => `var most${r} = ${LOWEST}; var sum${r} = 0.0;`)}
  ${perNumber((r, i) => `var o${r}_${i} = 0.0;`)}
  let lastChunk = select(kvStart, kvEnd, numRows > 0u);
  for (var chunk = kvStart; chunk < lastChunk; chunk += ${KEYS}) {
    let key = chunk + i32(lane); let near = u32(min(key, kvEnd - 1)); // lanes behind the last key read that one, and weigh it with 0
    let base = u32($step[table + near / p.pageSize]) * p.page + p.layerAt;
    workgroupBarrier();
    let at = base + kv * p.keyHead + near % p.pageSize * p.keySlot;
    if (side == 0u) { valueAt[lane] = base + p.valuesAt + kv * p.valueHead + near % p.pageSize * p.valueSlot; }
    ${perRow((r) => `var dot${r} = 0.0;`)}
    for (var w = 0u; w < ${keyWords / wordsRead}u; w++) {
      let raw = $pool[${isWide ? "at / 4u" : `at + ${header}u`} + w];
      ${keys.map((n, i) => `let k${i} = ${n};`).join(" ")}
      ${perRow(
        (
          r,
        ) => `{ let qAt = ${mine(r)} * ${padded / q}u + w * ${numRead / q}u; ${each(numRead / q, (i) => `let q${i} = qs[qAt + ${i}u];`)}
      ${keys.map((_, i) => `dot${r} = fma(k${i}, ${query(i)}, dot${r});`).join(" ")} }`,
      )}
    }
    ${hasFactor ? `let factor = bitcast<f32>(${wordAt("at")}); ${perRow((r) => `dot${r} = dot${r} * factor;`)}` : ""}
    ${perRow(
      (r) => `if (side * ${half}u + ${r}u < ${rows}u) {
      let mine = side * ${half}u + ${r}u; var score = ${LOWEST};
      if (key >= lows[mine] && key < ends[mine]) {
        score = dot${r} * p.scale;
        if (p.softcap > 0.0) { score = p.softcap * tanhOf(score / p.softcap); }
        score = score * 1.4426950408889634;
      }
      ps[mine * ${KEYS / 4}u + lane / 4u][lane % 4u] = score;
    }`,
    )}
    workgroupBarrier();
    let sr = l / 8u; let first = min(sr, ${rows - 1}u) * ${KEYS / 4}u + l % 8u * 2u; let a = ps[first]; let b = ps[first + 1u];
    if (sr < ${rows}u) { let most = max(a, b); parts[l] = max(max(most.x, most.y), max(most.z, most.w)); }
    workgroupBarrier();
    var top = ${LOWEST};
    if (sr < ${rows}u) { for (var i = 0u; i < 8u; i++) { top = max(top, parts[sr * 8u + i]); } }
    workgroupBarrier();
    if (sr < ${rows}u) {
      let ea = select(exp2(a - vec4f(top)), vec4f(0.0), a <= vec4f(-2.9e38)); let eb = select(exp2(b - vec4f(top)), vec4f(0.0), b <= vec4f(-2.9e38));
      ps[first] = ea; ps[first + 1u] = eb;
      parts[l] = ((((((ea.x + ea.y) + ea.z) + ea.w) + eb.x) + eb.y) + eb.z) + eb.w; if (l % 8u == 0u) { tops[sr] = top; }
    }
    workgroupBarrier();
    ${perNumber((r, i) => `var c${r}_${i} = 0.0;`)}
    let end = u32(min(kvEnd - chunk, ${KEYS}));
    ${each(
      pieces,
      (j) => `if (lane + ${64 * j}u < ${valueWords}u) {
      let w = lane + ${64 * j + header}u;
      for (var k = 0u; k < end; k += 4u) {
        ${each(4, (n) => `let v${n} = valueAt[k + ${n}u]; let raw${n} = ${wordAt(`v${n} + w`)};${hasFactor ? ` let f${n} = bitcast<f32>($pool[v${n}]);` : ""}`)}
        ${perRow((r) => `let e${r} = ps[${mine(r)} * ${KEYS / 4}u + k / 4u];`)}
        ${each(4, (n) =>
          unpack(`raw${n}`)
            .map((value, i) => {
              const c = (r: number): string => `c${r}_${j * perWord + i}`;
              return `{ let v = ${value}${hasFactor ? ` * f${n}` : ""}; ${perRow((r) => `${c(r)} = fma(e${r}.${"xyzw"[n]}, v, ${c(r)});`)} }`;
            })
            .join(" "),
        )}
      }
    }`,
    )}
    ${perRow(
      (r) => `{ let mine = ${mine(r)}; var s1 = 0.0; let m1 = tops[mine];
      for (var i = 0u; i < 8u; i++) { s1 = s1 + parts[mine * 8u + i]; }
      ${FACTORS(`most${r}`, `sum${r}`)}
      ${each(pieces * perWord, (i) => FOLD(`o${r}_${i}`, `c${r}_${i}`))} }`,
    )}
  }
  ${perRow(
    (r) => `if (side * ${half}u + ${r}u < numRows) {
    let mine = side * ${half}u + ${r}u; let packed = qStart + mine; let head = kv * p.group + packed % p.group;
    var at = p.outAt + (firstToken + packed / p.group) * p.outStride + head * ${valueDim}u; var factor = 1.0;
    if (partial >= 0) {
      at = ((u32(partial) * p.numKvHeads + kv) * p.qTile + mine) * ${valueDim + 2}u;
      if (lane == 0u) { $states[at] = most${r}; $states[at + 1u] = sum${r}; }
      at += 2u;
    } else { factor = finish(most${r}, sum${r}, head); }
    ${each(pieces * perWord, (i) => {
      const d = `(lane + ${64 * Math.floor(i / perWord)}u) * ${perWord}u + ${i % perWord}u`;
      return `if (${d} < ${valueDim}u) { if (partial >= 0) { $states[at + ${d}] = o${r}_${i}; } else { $out[at + ${d}] = o${r}_${i} * factor; } }`;
    })}
  }`,
  )}
}`,
  );
}

/** Heads whose merge may round their values: whole units, four numbers a thread. */
export const canRoundHeads = (valueDim: number): boolean => valueDim % 32 === 0 && valueDim <= 256;

/**
 * One workgroup for each merge entry, kv head and packed row: the states of a tile's chunks, folded from the first to the last. `rounds`: a
 * product with codes follows, the rows are rounded too.
 */
export function mergeKernel(valueDim: number, rounds = false): Kernel {
  const each = Math.ceil(valueDim / 64);
  return kernel(
    `merge-${valueDim}${rounds ? "-rounds" : ""}`,
    `out:rw:f32 states:r:f32 step:r:i32 sinks:r:f32${rounds ? " codes:rw:u32 m:rw:vec2u" : ""}`,
    "merges group qTile qoIndptr outAt outStride numKvHeads hasSinks sinksAt cols",
    `${FINISH}${rounds ? `${ROUND_FOUR(64)}\nvar<workgroup> made: array<vec4f, ${valueDim / 4}>;` : ""}
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let entry = p.merges + 4u * g.x; let kv = g.y;
  let row = u32($step[entry]); let first = u32($step[entry + 2u]);
  let packed = u32($step[entry + 1u]) + g.z;
  let firstToken = u32($step[p.qoIndptr + row]); let packedLen = (u32($step[p.qoIndptr + row + 1u]) - firstToken) * p.group;
  let count = select(0u, u32($step[entry + 3u]), packed < packedLen);
  var m = ${LOWEST}; var s = 0.0; var o: array<f32, ${each}>;
  for (var i = 0u; i < count; i++) {
    let at = (((first + i) * p.numKvHeads + kv) * p.qTile + g.z) * ${valueDim + 2}u;
    let m1 = $states[at]; let s1 = $states[at + 1u];
    ${FACTORS("m", "s")}
    for (var j = 0u; j < ${each}u; j++) { let d = l + 64u * j; if (d < ${valueDim}u) { let c = $states[at + 2u + d]; ${FOLD("o[j]", "c")} } }
  }
  let token = firstToken + packed / p.group; let head = kv * p.group + packed % p.group; let factor = finish(m, s, head);
  let to = p.outAt + token * p.outStride + head * ${valueDim}u;
  for (var j = 0u; j < ${each}u; j++) {
    let d = l + 64u * j;
    if (d < ${valueDim}u) {
      ${rounds ? "made[d / 4u][d % 4u] = o[j] * factor;" : ""}
      if (count > 0u) { $out[to + d] = o[j] * factor; }
    }
  }
  ${
    rounds
      ? `workgroupBarrier();
  roundFour(l, made[min(l, ${valueDim / 4 - 1}u)], (token * p.cols + head * ${valueDim}u) / 4u + l, count > 0u && l < ${valueDim / 4}u);`
      : ""
  }
}`,
  );
}
