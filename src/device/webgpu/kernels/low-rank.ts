// What an adapter adds to a product, for rows that a list names: its small matrices one after the other.

import { kernel, tree } from "../kernel.js";

const THREADS = 64;
const ROW = "u32($step[p.rows + g.y]) - p.base";

/** shrunk[i, k] = scale * a[k] . x[row i]. Grid: ranks, rows. */
export const SHRINK = kernel(
  "shrink",
  "shrunk:rw:f32 a:r:f32 x:r:f32 step:r:i32",
  "inputs rank xAt xStride rows base scale:f",
  `var<workgroup> sums: array<f32, ${THREADS}>;
@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let row = ${ROW}; var s = 0.0;
  for (var i = l; i < p.inputs; i += ${THREADS}u) { s = fma($a[g.x * p.inputs + i], $x[p.xAt + row * p.xStride + i], s); }
  sums[l] = s; ${tree(THREADS, "sums")}
  if (l == 0u) { $shrunk[g.y * p.rank + g.x] = p.scale * sums[0]; }
}`,
);

/** out[row i] += b shrunk[i]. Grid: blocks of columns, rows. */
export const EXPAND = kernel(
  "expand",
  "out:rw:f32 b:r:f32 shrunk:r:f32 step:r:i32",
  "cols rank outAt outStride rows base",
  `@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let c = g.x * ${THREADS}u + l; if (c >= p.cols) { return; }
  let row = ${ROW}; var s = 0.0;
  for (var k = 0u; k < p.rank; k++) { s = fma($b[c * p.rank + k], $shrunk[g.y * p.rank + k], s); }
  let o = p.outAt + row * p.outStride + c; $out[o] = $out[o] + s;
}`,
);
