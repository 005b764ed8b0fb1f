// Norms: one workgroup for each run of columns of a row. Sums: thread l takes columns l, l + 128, ... in their order, then one tree.

import { type Kernel, kernel, tree } from "../kernel.js";

const THREADS = 128;

/** `adds`: residual += x first, and the residual is what is normed. */
function norm(name: string, isCentred: boolean, adds: boolean): Kernel {
  const source = adds ? "residual" : "x";
  const mean = `var t = 0.0;
  for (var c = l; c < p.cols; c += ${THREADS}u) { t = t + $x[from0 + c]; }
  sums[l] = t; ${tree(THREADS, "sums")}
  mean = sums[0] / f32(p.cols);
  workgroupBarrier();`;
  return kernel(
    name,
    `out:rw:f32 ${adds ? "residual:rw:f32 " : ""}x:r:f32 weight:r:f32${isCentred ? " bias:r:f32" : ""}`,
    `cols outAt outStride ${adds ? "residualAt residualStride " : ""}xAt xStride weightAt weightGroup biasAt eps:f`,
    `var<workgroup> sums: array<f32, ${THREADS}>;
@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let from0 = p.${source}At + g.y * p.${source}Stride + g.x * p.cols;
  let to = p.outAt + g.y * p.outStride + g.x * p.cols;
  let w = p.weightAt + g.x * p.weightGroup;
  var mean = 0.0;
  ${adds ? `for (var c = l; c < p.cols; c += ${THREADS}u) { $residual[from0 + c] = $residual[from0 + c] + $x[p.xAt + g.y * p.xStride + c]; }` : ""}
  ${isCentred ? mean : ""}
  var s = 0.0;
  for (var c = l; c < p.cols; c += ${THREADS}u) { let d = $${source}[from0 + c] - mean; s = fma(d, d, s); }
  sums[l] = s; ${tree(THREADS, "sums")}
  let factor = 1.0 / sqrt(sums[0] / f32(p.cols) + p.eps);
  for (var c = l; c < p.cols; c += ${THREADS}u) {
    let normed = ($${source}[from0 + c] - mean) * factor;
    $out[to + c] = ${isCentred ? "fma(normed, $weight[w + c], $bias[p.biasAt + g.x * p.weightGroup + c])" : "normed * $weight[w + c]"};
  }
}`,
  );
}

export const RMS_NORM = norm("rmsNorm", false, false);
export const ADD_RMS_NORM = norm("addRmsNorm", false, true);
export const LAYER_NORM = norm("layerNorm", true, false);
