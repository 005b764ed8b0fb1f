// Recurrent layers. Each thread has one column of a row's state and takes the row's tokens one by one, so that the bits do not depend on how a
// sequence is cut into steps.

import type { Activation } from "../../../core/activation.js";
import { type Kernel, kernel, MATHS } from "../kernel.js";
import { activationOf } from "./elementwise.js";

/** Taps of a convolution, at most. */
export const MOST_TAPS = 8;
const COLUMNS = 64;

/** Grid: columns, rows of the batch. */
export function shortConvKernel(activation: Activation): Kernel {
  return kernel(
    `shortConv-${activation}`,
    "out:rw:f32 pool:rw:f32 x:r:f32 weight:r:f32 bias:r:f32 step:r:i32",
    "cols taps outAt outStride xAt xStride weightAt weightStride hasBias biasAt floats offset qoIndptr positions stateSlots stateLens",
    `${MATHS}
@compute @workgroup_size(${COLUMNS}) fn main(@builtin(global_invocation_id) id: vec3u) {
  let c = id.x; if (c >= p.cols) { return; }
  let first = u32($step[p.qoIndptr + id.y]); let end = u32($step[p.qoIndptr + id.y + 1u]);
  if (first == end) { return; }
  let stored = first + u32($step[p.stateLens + id.y]);
  let state = u32($step[p.stateSlots + id.y]) * p.floats + p.offset + c; let begins = $step[p.positions + first] == 0;
  var kept: array<f32, ${MOST_TAPS}>; var w: array<f32, ${MOST_TAPS}>;
  let last = p.taps - 1u;
  for (var j = 0u; j < p.taps; j++) { w[j] = $weight[p.weightAt + j * p.weightStride + c]; }
  for (var j = 0u; j < last; j++) { if (!begins) { kept[j] = $pool[state + j * p.cols]; } }
  var start = 0.0; if (p.hasBias == 1u) { start = $bias[p.biasAt + c]; }
  for (var t = first; t < end; t++) {
    let input = $x[p.xAt + t * p.xStride + c]; var v = start;
    for (var j = 0u; j < last; j++) { v = fma(w[j], kept[j], v); }
    v = fma(w[last], input, v);
    $out[p.outAt + t * p.outStride + c] = ${activationOf(activation)};
    for (var j = 0u; j + 1u < last; j++) { kept[j] = kept[j + 1u]; }
    if (last > 0u) { kept[last - 1u] = input; }
    if (t + 1u == stored) { for (var j = 0u; j < last; j++) { $pool[state + j * p.cols] = kept[j]; } }
  }
}`,
  );
}

export const DECAY_GATES = kernel(
  "decayGates",
  "decay:rw:f32 step:rw:f32 x:r:f32 bias:r:f32 rate:r:f32",
  "cols decayAt decayStride stepAt stepStride xAt xStride biasAt rateAt least:f most:f",
  `@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let h = id.x; if (h >= p.cols) { return; }
  let raised = $x[p.xAt + id.y * p.xStride + h] + $bias[p.biasAt + h];
  let e = exp(min(raised, 20.0));
  let small = e * fma(-e, fma(-e, fma(-e, 0.25, 0.33333334), 0.5), 1.0);
  let softplus = select(select(log(1.0 + e), small, e < 0.03), raised, raised > 20.0);
  let dt = clamp(softplus, p.least, p.most);
  $step[p.stepAt + id.y * p.stepStride + h] = dt;
  $decay[p.decayAt + id.y * p.decayStride + h] = exp($rate[p.rateAt + h] * dt);
}`,
);

/** Grid: blocks of value columns, heads, rows of the batch. A column of the state is in the thread's own memory meanwhile. */
export function linearAttentionKernel(keyDim: number, isDelta: boolean): Kernel {
  return kernel(
    `linearAttention-${keyDim}-${isDelta}`,
    "out:rw:f32 pool:rw:f32 q:r:f32 k:r:f32 v:r:f32 decay:r:f32 rate:r:f32 skips:r:f32 step:r:i32",
    "valueDim headsPerKey outAt outStride qAt qStride kAt kStride vAt vStride decayAt decayStride rateAt rateStride hasSkip skipAt floats offset qoIndptr positions stateSlots stateLens",
    `var<workgroup> ks: array<f32, ${keyDim}>; var<workgroup> qs: array<f32, ${keyDim}>;
@compute @workgroup_size(${COLUMNS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let c = g.x * ${COLUMNS}u + l; let h = g.y; let isMine = c < p.valueDim;
  let first = u32($step[p.qoIndptr + g.z]); let end = u32($step[p.qoIndptr + g.z + 1u]);
  if (first == end) { return; }
  let stored = first + u32($step[p.stateLens + g.z]);
  let state = u32($step[p.stateSlots + g.z]) * p.floats + p.offset + h * ${keyDim}u * p.valueDim + c;
  let begins = $step[p.positions + first] == 0;
  var s: array<f32, ${keyDim}>;
  if (isMine && !begins) { for (var i = 0u; i < ${keyDim}u; i++) { s[i] = $pool[state + i * p.valueDim]; } }
  var skip = 0.0; if (p.hasSkip == 1u) { skip = $skips[p.skipAt + h]; }
  let keyAt = h / p.headsPerKey * ${keyDim}u;
  for (var t = first; t < end; t++) {
    workgroupBarrier();
    for (var i = l; i < ${keyDim}u; i += ${COLUMNS}u) {
      ks[i] = $k[p.kAt + t * p.kStride + keyAt + i]; qs[i] = $q[p.qAt + t * p.qStride + keyAt + i];
    }
    workgroupBarrier();
    if (isMine) {
      let value = $v[p.vAt + t * p.vStride + h * p.valueDim + c];
      let gate = $decay[p.decayAt + t * p.decayStride + h]; let r = $rate[p.rateAt + t * p.rateStride + h];
      var known = 0.0;
      ${isDelta ? `for (var i = 0u; i < ${keyDim}u; i++) { known = fma(s[i], ks[i], known); }` : ""}
      let u = r * fma(-gate, known, value); var sum = 0.0;
      for (var i = 0u; i < ${keyDim}u; i++) { s[i] = fma(gate, s[i], ks[i] * u); sum = fma(s[i], qs[i], sum); }
      $out[p.outAt + t * p.outStride + h * p.valueDim + c] = fma(skip, value, sum);
      if (t + 1u == stored) { for (var i = 0u; i < ${keyDim}u; i++) { $pool[state + i * p.valueDim] = s[i]; } }
    }
  }
}`,
  );
}
