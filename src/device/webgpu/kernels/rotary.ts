// Rotary embedding and what appends keys and values to their pages. cos and sin come from the host (rotary-tables.ts): WGSL promises its
// own only within [-pi, pi] and to 2^-11.

import type { KvDtype } from "../../device.js";
import { kernel } from "../kernel.js";

/** The rows of the batch's positions, from all positions' rows [position, half] of (cos, sin). */
export const GATHER_TABLE = kernel(
  "rotaryTable",
  "table:rw:vec2f all:r:vec2f step:r:i32",
  "half positions",
  `@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.half) { return; }
  $table[id.y * p.half + id.x] = $all[u32($step[p.positions + id.y]) * p.half + id.x];
}`,
);

const PAIR = `
fn firstOf(i: u32) -> u32 { return select(i, 2u * i, p.interleaved == 1u); }
fn apart() -> u32 { return select(p.half, 1u, p.interleaved == 1u); }
`;

export const ROTARY = kernel(
  "rotary",
  "x:rw:f32 table:r:vec2f",
  "pairs xAt xStride half interleaved headDim offset",
  `${PAIR}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.pairs) { return; }
  let i = id.x % p.half;
  let at = p.xAt + id.y * p.xStride + (id.x / p.half) * p.headDim + p.offset + firstOf(i);
  let cs = $table[id.y * p.half + i]; let a = $x[at]; let b = $x[at + apart()];
  $x[at] = fma(a, cs.x, -(b * cs.y)); $x[at + apart()] = fma(b, cs.x, a * cs.y);
}`,
);

const APPEND_PARAMS =
  "qPairs words qAt qStride kAt kStride vAt vStride half interleaved slots keyDim valueDim keyWords valueWords numKvHeads pageSize page layerAt valuesAt keyHead valueHead";

/** Where the word w of a vector goes, and number d of a key after its rotation or of a value. */
const VECTORS = `${PAIR}
fn slotAt(slot: u32, head: u32, isKey: bool) -> u32 {
  let inPage = slot % p.pageSize; let base = (slot / p.pageSize) * p.page + p.layerAt;
  return select(base + p.valuesAt + head * p.valueHead + inPage * p.valueWords, base + head * p.keyHead + inPage * p.keyWords, isKey);
}
fn numberOf(t: u32, head: u32, d: u32, isKey: bool) -> f32 {
  if (!isKey) { return select(0.0, $v[p.vAt + t * p.vStride + head * p.valueDim + min(d, p.valueDim - 1u)], d < p.valueDim); }
  let at = p.kAt + t * p.kStride + head * p.keyDim;
  if (d >= 2u * p.half) { return select(0.0, $k[at + min(d, p.keyDim - 1u)], d < p.keyDim); }
  let i = select(d % p.half, d / 2u, p.interleaved == 1u);
  let isSecond = select(d >= p.half, (d & 1u) == 1u, p.interleaved == 1u);
  let cs = $table[t * p.half + i]; let a = $k[at + firstOf(i)]; let b = $k[at + firstOf(i) + apart()];
  return select(fma(a, cs.x, -(b * cs.y)), fma(b, cs.x, a * cs.y), isSecond);
}
`;

const WORD: Readonly<Record<"f32" | "f16" | "bf16", string>> = {
  f32: "return bitcast<u32>(numberOf(t, head, w, isKey));",
  f16: "return pack2x16float(vec2f(quantizeToF16(numberOf(t, head, 2u * w, isKey)), quantizeToF16(numberOf(t, head, 2u * w + 1u, isKey))));",
  bf16: "return upperOf(numberOf(t, head, 2u * w, isKey)) | (upperOf(numberOf(t, head, 2u * w + 1u, isKey)) << 16u);",
};

/** One thread for each pair of q and each word of k and v. */
const byWords = (dtype: "f32" | "f16" | "bf16") =>
  kernel(
    `append-${dtype}`,
    "q:rw:f32 k:r:f32 v:r:f32 pool:rw:u32 table:r:vec2f step:r:i32",
    APPEND_PARAMS,
    `${VECTORS}
fn upperOf(x: f32) -> u32 { let b = bitcast<u32>(x); return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u; }
fn wordOf(t: u32, head: u32, w: u32, isKey: bool) -> u32 { ${WORD[dtype]} }
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let t = id.y;
  if (id.x < p.qPairs) {
    let i = id.x % p.half; let at = p.qAt + t * p.qStride + (id.x / p.half) * p.keyDim + firstOf(i);
    let cs = $table[t * p.half + i]; let a = $q[at]; let b = $q[at + apart()];
    $q[at] = fma(a, cs.x, -(b * cs.y)); $q[at + apart()] = fma(b, cs.x, a * cs.y);
    return;
  }
  let i = id.x - p.qPairs;
  if (i >= p.words) { return; }
  let numKeys = p.numKvHeads * p.keyWords; let isKey = i < numKeys;
  let j = select(i - numKeys, i, isKey); let width = select(p.valueWords, p.keyWords, isKey);
  let head = j / width; let w = j % width;
  $pool[slotAt(u32($step[p.slots + t]), head, isKey) + w] = wordOf(t, head, w, isKey);
}`,
  );

/** A factor and the code of x / factor in a byte. */
const CODE: Readonly<Record<"i8" | "fp8", { readonly factor: string; readonly code: string }>> = {
  i8: {
    factor: "factor = most / 127.0;",
    code: "if (factor == 0.0) { return 0u; } return u32(i32(round(x / factor))) & 255u;",
  },
  fp8: {
    // The least power of two that brings the largest number within 448, from 2^-100 to 2^7.
    factor: `var e = -100;
    if (most > 0.0) { e = clamp(i32(bitcast<u32>(most) >> 23u) - 127 - 8, -100, 7); if (most > ldexp(448.0, e)) { e = min(e + 1, 7); } }
    factor = ldexp(1.0, e);`,
    code: `let y = min(abs(x / factor), 448.0); let sign = select(0u, 128u, x < 0.0);
    if (y < 0.015625) { return sign | u32(round(y * 512.0)); }
    let b = bitcast<u32>(y);
    return sign | min(((b + 0x7ffffu + ((b >> 20u) & 1u)) >> 20u) - 960u, 126u);`,
  },
};

/** One thread for each vector: its factor as f32, then its codes, four in a word. */
const byVectors = (dtype: "i8" | "fp8") =>
  kernel(
    `append-${dtype}`,
    "k:r:f32 v:r:f32 pool:rw:u32 table:r:vec2f step:r:i32",
    APPEND_PARAMS,
    `${VECTORS}
fn codeOf(x: f32, factor: f32) -> u32 { ${CODE[dtype].code} }
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let t = id.y; if (id.x >= p.words) { return; }
  let isKey = id.x < p.numKvHeads; let head = select(id.x - p.numKvHeads, id.x, isKey);
  let dim = select(p.valueDim, p.keyDim, isKey);
  var most = 0.0;
  for (var d = 0u; d < dim; d++) { most = max(most, abs(numberOf(t, head, d, isKey))); }
  var factor = 0.0; ${CODE[dtype].factor}
  let at = slotAt(u32($step[p.slots + t]), head, isKey);
  $pool[at] = bitcast<u32>(factor);
  for (var d = 0u; d < dim; d += 4u) {
    var word = 0u;
    for (var i = 0u; i < min(4u, dim - d); i++) { word |= codeOf(numberOf(t, head, d + i, isKey), factor) << (8u * i); }
    $pool[at + 1u + d / 4u] = word;
  }
}`,
  );

export const APPEND = {
  f32: byWords("f32"),
  f16: byWords("f16"),
  bf16: byWords("bf16"),
  i8: byVectors("i8"),
  fp8: byVectors("fp8"),
} as const satisfies Record<KvDtype, unknown>;

/** Words from one place of a buffer to another. */
export const COPY_WORDS = kernel(
  "copyWords",
  "pool:rw:u32",
  "fromAt toAt count",
  `@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) g: vec3u) {
  for (var i = id.x; i < p.count; i += g.x * 256u) { $pool[p.toAt + i] = $pool[p.fromAt + i]; }
}`,
);
