// Mixtures of experts: choose for each token, a matvec for each pair (token, rank) with its expert's matrices, the gate between them, and the
// weighted sum by rank. The products have the order of kernels/matmul.ts.

import type { ExpertWeights, RouterSpec } from "../../op-specs.js";
import { type Kernel, kernel, MATHS, tree } from "../kernel.js";
import { activationOf } from "./elementwise.js";
import { type Encoding, isFloat } from "./encodings.js";
import { matvec, serialMatvec } from "./matvec.js";
import { blockProduct, floatProduct } from "./product.js";

/** Experts of a layer, at most: four for each thread of the router. */
export const MOST_EXPERTS = 512;
const THREADS = 128;
const EACH = MOST_EXPERTS / THREADS;
/** Less than any score, but more than an expert whose group is left out. */
const LEAST = "-1.0e38";
const LEFT_OUT = "-3.0e38";

/** One workgroup for each token. NaN and -infinity count as the least score; what a softmax makes of them is NaN. */
export function routeKernel(score: RouterSpec["score"]): Kernel {
  const softmax = `
  for (var j = 0u; j < ${EACH}u; j++) { let e = l + j * ${THREADS}u; if (e < p.numExperts) { isBad = isBad || isBadNumber(logit[j]); top = max(top, logit[j]); } }
  tops[l] = select(top, 3.4e38, isBad); ${tree(THREADS, "tops", (a, b) => `max(${a}, ${b})`)}
  top = workgroupUniformLoad(&tops[0]); var s = 0.0;
  for (var j = 0u; j < ${EACH}u; j++) { let e = l + j * ${THREADS}u; if (e < p.numExperts) { score[j] = expOf(logit[j] - top); s = s + score[j]; } }
  workgroupBarrier(); tops[l] = s; ${tree(THREADS, "tops")}
  let total = workgroupUniformLoad(&tops[0]); let isLost = top >= 3.4e38 || top <= -3.4e38;
  for (var j = 0u; j < ${EACH}u; j++) { score[j] = score[j] / total; if (isLost) { score[j] = bitcast<f32>(p.nan); } }`;
  const scores = {
    softmax,
    sigmoid: `for (var j = 0u; j < ${EACH}u; j++) { score[j] = sigmoidAt(logit[j]); }`,
    softmax_topk: `score = logit;`,
  }[score];
  return kernel(
    `route-${score}`,
    "ids:rw:u32 weights:rw:f32 logits:r:f32 bias:r:f32 factors:r:f32",
    "numExperts topK logitsAt logitsStride hasBias biasAt hasFactors factorsAt normalizes numGroups topkGroup groupBest scale:f nan",
    `${MATHS}
fn bitsOf(v: f32) -> u32 { return bitcast<u32>(v) & 0x7fffffffu; }
fn isNan(v: f32) -> bool { return bitsOf(v) > 0x7f800000u; }
fn isMinusInfinity(v: f32) -> bool { return bitcast<u32>(v) == 0xff800000u; }
/** What makes a softmax over it NaN: NaN and +infinity. */
fn isBadNumber(v: f32) -> bool { return isNan(v) || bitcast<u32>(v) == 0x7f800000u; }
fn expOf(v: f32) -> f32 { return exp(max(v, -104.0)); }
fn sigmoidAt(v: f32) -> f32 { if (isNan(v)) { return v; } return sigmoidOf(v); }
fn comparable(v: f32) -> f32 { if (isNan(v) || isMinusInfinity(v)) { return ${LEAST}; } return max(v, ${LEAST}); }
var<workgroup> tops: array<f32, ${THREADS}>;
var<workgroup> bests: array<vec2f, ${THREADS}>; // choice and expert
var<workgroup> choice: array<f32, ${MOST_EXPERTS}>;
var<workgroup> scores: array<f32, ${MOST_EXPERTS}>;
var<workgroup> groups: array<f32, ${THREADS}>;
@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  var logit: array<f32, ${EACH}>; var score: array<f32, ${EACH}>; var top = -3.4e38; var isBad = false;
  for (var j = 0u; j < ${EACH}u; j++) { let e = l + j * ${THREADS}u; if (e < p.numExperts) { logit[j] = $logits[p.logitsAt + g.x * p.logitsStride + e]; } }
  ${scores}
  for (var j = 0u; j < ${EACH}u; j++) {
    let e = l + j * ${THREADS}u;
    if (e < p.numExperts) { scores[e] = score[j]; var chosen = score[j]; if (p.hasBias == 1u) { chosen = chosen + $bias[p.biasAt + e]; } choice[e] = comparable(chosen); }
  }
  workgroupBarrier();
  if (p.numGroups > 1u) {
    let size = p.numExperts / p.numGroups; var value = 0.0;
    if (l < p.numGroups) {
      var first = ${LEFT_OUT}; var second = ${LEFT_OUT};
      for (var e = l * size; e < (l + 1u) * size; e++) { let v = choice[e]; if (v > first) { second = first; first = v; } else { second = max(second, v); } }
      value = first; if (p.groupBest == 2u && size > 1u) { value = first + second; }
      groups[l] = value;
    }
    workgroupBarrier();
    if (l < p.numGroups) {
      var rank = 0u;
      for (var other = 0u; other < p.numGroups; other++) { if (groups[other] > value || (groups[other] == value && other < l)) { rank++; } }
      if (rank >= p.topkGroup) { for (var e = l * size; e < (l + 1u) * size; e++) { choice[e] = ${LEFT_OUT}; } }
    }
    workgroupBarrier();
  }
  for (var k = 0u; k < p.topK; k++) {
    var best = vec2f(-3.4e38, ${MOST_EXPERTS}.0);
    for (var j = 0u; j < ${EACH}u; j++) { let e = l + j * ${THREADS}u; if (e < p.numExperts && choice[e] > best.x) { best = vec2f(choice[e], f32(e)); } }
    bests[l] = best;
    for (var d = ${THREADS / 2}u; d >= 1u; d = d / 2u) {
      workgroupBarrier();
      if (l < d) { let other = bests[l + d]; if (other.x > bests[l].x || (other.x == bests[l].x && other.y < bests[l].y)) { bests[l] = other; } }
    }
    let id = u32(workgroupUniformLoad(&bests[0]).y);
    if (l == 0u) { choice[id] = -3.4e38; $ids[g.x * p.topK + k] = id; }
    workgroupBarrier();
  }
  if (l != 0u) { return; }
  let to = g.x * p.topK; var whole = 0.0; var most = -3.4e38; var lost = false;
  ${
    score === "softmax_topk"
      ? `for (var k = 0u; k < p.topK; k++) { let v = scores[$ids[to + k]]; lost = lost || isBadNumber(v); most = max(most, v); }
  lost = lost || most <= -3.4e38;
  for (var k = 0u; k < p.topK; k++) { let v = expOf(scores[$ids[to + k]] - most); $weights[to + k] = v; whole = whole + v; }
  for (var k = 0u; k < p.topK; k++) { $weights[to + k] = select($weights[to + k] / whole, bitcast<f32>(p.nan), lost); }`
      : `for (var k = 0u; k < p.topK; k++) { $weights[to + k] = scores[$ids[to + k]]; }`
  }
  var factor = p.scale;
  if (p.normalizes == 1u) { whole = 0.0; for (var k = 0u; k < p.topK; k++) { whole = whole + $weights[to + k]; } factor = p.scale / (whole + 1.0e-20); }
  for (var k = 0u; k < p.topK; k++) { var own = factor; if (p.hasFactors == 1u) { own = own * $factors[p.factorsAt + $ids[to + k]]; } $weights[to + k] = $weights[to + k] * own; }
}`,
  );
}

/** x of each pair times its weight. */
export const SCALE_PAIRS = kernel(
  "scalePairs",
  "out:rw:f32 x:r:f32 weights:r:f32",
  "cols topK xAt xStride",
  `@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  $out[id.y * p.cols + id.x] = $x[p.xAt + id.y / p.topK * p.xStride + id.x] * $weights[id.y];
}`,
);

const GATE: Readonly<Record<ExpertWeights["activation"], string>> = {
  silu: activationOf("silu"),
  gelu_tanh: activationOf("gelu_tanh"),
  relu2: activationOf("relu2"),
  oss: "",
};

export function gateKernel(activation: ExpertWeights["activation"], isGated: boolean): Kernel {
  const up = isGated ? "$gateUp[from0 + p.cols]" : "1.0";
  const value =
    activation === "oss"
      ? `let gate = min(v, 7.0); let u = clamp(${up}, -7.0, 7.0); $out[o] = (u + 1.0) * gate * sigmoidOf(1.702 * gate);`
      : `$out[o] = (${GATE[activation]}) * ${up};`;
  return kernel(
    `expertGate-${activation}-${isGated}`,
    "out:rw:f32 gateUp:r:f32",
    "cols width",
    `${MATHS}
@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  let from0 = id.y * p.width + id.x; let o = id.y * p.cols + id.x; let v = $gateUp[from0];
  ${value}
}`,
  );
}

export const COMBINE = kernel(
  "combineExperts",
  "out:rw:f32 y:r:f32 weights:r:f32",
  "cols topK outAt outStride isWeighted",
  `@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  var sum = 0.0;
  for (var k = 0u; k < p.topK; k++) {
    let pair = id.y * p.topK + k; let weight = select(1.0, $weights[pair], p.isWeighted == 1u);
    sum = fma(weight, $y[pair * p.cols + id.x], sum);
  }
  $out[p.outAt + id.y * p.outStride + id.x] = sum;
}`,
);

/** A pair's product with its expert's matrix: rows [expert, rows] of the stack. Pairs of experts in another part of the stack are left alone. */
export function expertKernel(encoding: Encoding, isSerial: boolean): Kernel {
  const output = `
fn put(t: u32, row: u32, total: f32) {
  var sum = total;
  if (p.hasBias == 1u) { sum = sum + $bias[p.biasAt + $ids[t] * p.biasStride + row]; }
  $out[t * p.rows + row] = sum;
}`;
  const rule = {
    weightRow: "($ids[t0] - p.firstExpert) * p.rows + ROW",
    isMine: "$ids[t0] >= p.firstExpert && $ids[t0] < p.endExpert",
    xRow: "t0 / p.pairsPerRow",
  };
  const plain = isFloat(encoding) ? floatProduct(encoding, "f32", output) : blockProduct(encoding, output);
  const product = {
    ...plain,
    name: `experts-${encoding}`,
    operands: `${plain.operands} ids:r:u32`,
    params: `rows units factorsAt n hasBias biasAt biasStride firstExpert endExpert pairsPerRow ${isFloat(encoding) ? "xAt xStride cols" : "rowUnits"}`,
  };
  return isSerial ? serialMatvec(product, rule) : matvec(product, 1, undefined, rule);
}
