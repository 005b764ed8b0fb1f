// Rows to 8 bits, for products with codes: of each 32 numbers their codes, their factor, and the sums of the codes of both halves.

import { kernel } from "../kernel.js";

const PACK = `
fn pack(a: vec4i) -> u32 { return (u32(a.x) & 255u) | ((u32(a.y) & 255u) << 8u) | ((u32(a.z) & 255u) << 16u) | (u32(a.w) << 24u); }
fn inverseOf(most: f32) -> f32 { return select(127.0 / most, 0.0, most == 0.0); }
fn factorOfRow(most: f32, first: i32, last: i32) -> vec2u { return vec2u(bitcast<u32>(most / 127.0), (u32(first) & 0xffffu) | (u32(last) << 16u)); }
`;

/** A thread for each unit: for adapters whose barriers are dear. */
export const ROUND_ROWS_SERIAL = kernel(
  "roundRows-serial",
  "codes:rw:vec4u m:rw:vec2u x:r:f32",
  "units xAt xStride",
  `${PACK}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let u = id.x; if (u >= p.units) { return; }
  let from0 = p.xAt + id.y * p.xStride + 32u * u; let to = id.y * p.units + u;
  var v: array<vec4f, 8>; var most = 0.0;
  for (var i = 0u; i < 8u; i++) {
    let at = from0 + 4u * i; v[i] = vec4f($x[at], $x[at + 1u], $x[at + 2u], $x[at + 3u]);
    let a = abs(v[i]); most = max(most, max(max(a.x, a.y), max(a.z, a.w)));
  }
  let inverse = inverseOf(most);
  var words: array<u32, 8>; var sums = array<i32, 2>(0, 0);
  for (var i = 0u; i < 8u; i++) {
    let code = vec4i(round(v[i] * inverse)); words[i] = pack(code); sums[i / 4u] += code.x + code.y + code.z + code.w;
  }
  $codes[2u * to] = vec4u(words[0], words[1], words[2], words[3]);
  $codes[2u * to + 1u] = vec4u(words[4], words[5], words[6], words[7]);
  $m[to] = factorOfRow(most, sums[0], sums[1]);
}`,
);

/**
 * The same at the end of a kernel that makes the rows. WGSL: roundFour(l, v, at, isThere), called by all threads; thread l has four numbers,
 * eight neighbours a unit, and `at` is where its word of codes goes. Operands: codes of u32, m of vec2u.
 */
export const ROUND_FOUR = (threads: number): string => `${PACK}
var<workgroup> tops: array<f32, ${threads}>;
var<workgroup> counts: array<i32, ${threads}>;
fn roundFour(l: u32, v: vec4f, at: u32, isThere: bool) {
  let a = abs(v); tops[l] = max(max(a.x, a.y), max(a.z, a.w));
  workgroupBarrier();
  let first = l / 8u * 8u; var most = 0.0;
  for (var i = 0u; i < 8u; i++) { most = max(most, tops[first + i]); }
  let code = vec4i(round(v * inverseOf(most))); counts[l] = code.x + code.y + code.z + code.w;
  workgroupBarrier();
  if (isThere) {
    $codes[at] = pack(code);
    if (l == first) {
      $m[at / 8u] = factorOfRow(most, counts[l] + counts[l + 1u] + counts[l + 2u] + counts[l + 3u], counts[l + 4u] + counts[l + 5u] + counts[l + 6u] + counts[l + 7u]);
    }
  }
}`;

export const ROUND_ROWS = kernel(
  "roundRows",
  "codes:rw:u32 m:rw:vec2u x:r:f32",
  "units xAt xStride",
  `${ROUND_FOUR(64)}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) l: u32) {
  let c = 4u * id.x; let cols = 32u * p.units; let at = p.xAt + id.y * p.xStride + min(c, cols - 4u);
  roundFour(l, vec4f($x[at], $x[at + 1u], $x[at + 2u], $x[at + 3u]), (id.y * cols + c) / 4u, c < cols);
}`,
);
/** Units of a workgroup of either. */
export const ROUNDED_UNITS = { serial: 64, parallel: 8 } as const;
