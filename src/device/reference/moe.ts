// A mixture of experts, token by token: choose, run each chosen expert, sum by rank.

import { activate, gatedOss, sigmoid } from "../../core/activation.js";
import type { ExpertWeights, RouterSpec } from "../device.js";
import { matmul } from "./matmul.js";
import { ReferenceTensor, type ReferenceWeight } from "./tensor.js";

/** The chosen experts of one token, best first. */
export interface Route {
  readonly ids: number[];
  readonly weights: number[];
}

/**
 * Scores -> choice (bias and groups count for the choice alone) -> weights. Ties go to the lower expert id; in the choice NaN counts as
 * -infinity, so that the chosen are different experts whatever the logits are.
 */
export function route(logits: ArrayLike<number>, spec: RouterSpec): Route {
  const { numExperts: E } = spec;
  const scores = scoresOf(logits, spec);
  const bias = spec.bias as ReferenceTensor | null;
  const choice = scores.map((s, e) => comparable(bias === null ? s : s + bias.data[bias.offset + e]!));
  if (spec.numGroups > 1) keepBestGroups(choice, spec);
  const ids = Array.from({ length: E }, (_, e) => e)
    .sort((a, b) => choice[b]! - choice[a]! || a - b)
    .slice(0, spec.topK);
  let weights = ids.map((e) => scores[e]!);
  if (spec.score === "softmax_topk") weights = softmax(weights);
  if (spec.normalize) {
    const sum = weights.reduce((a, b) => a + b, 0) + 1e-20; // all sigmoid scores may vanish
    weights = weights.map((w) => w / sum);
  }
  const own = spec.expertScale as ReferenceTensor | undefined;
  const scaleOf = (e: number): number => (own === undefined ? spec.scale : spec.scale * own.data[own.offset + e]!);
  return { ids, weights: weights.map((w, k) => w * scaleOf(ids[k]!)) };
}

/** NaN and -infinity count as less than any other score, but more than an expert whose group is left out. */
const LEAST = -1e300;
function comparable(value: number): number {
  return value > LEAST ? value : LEAST;
}

function scoresOf(logits: ArrayLike<number>, spec: RouterSpec): number[] {
  const values = Array.from(logits).slice(0, spec.numExperts);
  if (spec.score === "softmax") return softmax(values);
  if (spec.score === "sigmoid") return values.map(sigmoid);
  return values; // softmax over the chosen only, once they are chosen
}

function softmax(values: readonly number[]): number[] {
  const max = Math.max(...values);
  const exps = values.map((v) => Math.exp(v - max));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((e) => e / sum);
}

/** A group is as good as its best or the sum of its two best; the experts of the groups left out cannot be chosen. */
function keepBestGroups(choice: number[], spec: RouterSpec): void {
  const size = spec.numExperts / spec.numGroups;
  const groups = Array.from({ length: spec.numGroups }, (_, g) => {
    const best = choice.slice(g * size, (g + 1) * size).sort((a, b) => b - a);
    return { g, score: best[0]! + (spec.groupBest === 1 ? 0 : (best[1] ?? 0)) };
  });
  groups.sort((a, b) => b.score - a.score || a.g - b.g);
  for (const { g } of groups.slice(spec.topkGroup)) choice.fill(Number.NEGATIVE_INFINITY, g * size, (g + 1) * size);
}

/** Scratch of one expert's run on one token; made once per device, grown when a model is wider. */
export class ExpertScratch {
  gateUp = new ReferenceTensor(new Float32Array(0), 0, 1, 0, 0);
  inner = this.gateUp;
  out = this.gateUp;

  ensure(inner: number, hidden: number): void {
    if (this.inner.cols !== inner) {
      this.gateUp = new ReferenceTensor(new Float32Array(2 * inner), 0, 1, 2 * inner, 2 * inner);
      this.inner = new ReferenceTensor(new Float32Array(inner), 0, 1, inner, inner);
    }
    if (this.out.cols !== hidden) this.out = new ReferenceTensor(new Float32Array(hidden), 0, 1, hidden, hidden);
  }
}

export function mixtureOfExperts(
  out: ReferenceTensor,
  x: ReferenceTensor,
  routerLogits: ReferenceTensor,
  router: RouterSpec,
  experts: ExpertWeights,
  n: number,
  scratch: ExpertScratch,
): void {
  scratch.ensure(experts.inner, out.cols);
  const sums = new Float64Array(out.cols);
  for (let r = 0; r < n; r++) {
    const token = new ReferenceTensor(x.data, x.offset + r * x.stride, 1, x.cols, x.stride);
    const { ids, weights } = route(routerLogits.row(r), router);
    sums.fill(0);
    for (let rank = 0; rank < ids.length; rank++) {
      const weight = weights[rank]!;
      runExpert(scratch, router.scalesInput === true ? scaled(token, weight) : token, experts, ids[rank]!);
      const factor = router.scalesInput === true ? 1 : weight;
      for (let c = 0; c < out.cols; c++) sums[c]! += factor * scratch.out.data[c]!;
    }
    out.data.set(sums, out.offset + r * out.stride);
  }
}

function runExpert(scratch: ExpertScratch, x: ReferenceTensor, experts: ExpertWeights, e: number): void {
  const { gateUp, inner, out } = scratch;
  const { inner: width, activation } = experts;
  linear(gateUp, x, experts.gateUp[e] as ReferenceWeight, biasRow(experts.gateUpBias, e));
  for (let c = 0; c < width; c++) {
    const gate = gateUp.data[c]!;
    const up = experts.isGated === false ? 1 : gateUp.data[width + c]!;
    inner.data[c] = activation === "oss" ? gatedOss(gate, up) : activate(activation, gate) * up;
  }
  linear(out, inner, experts.down[e] as ReferenceWeight, biasRow(experts.downBias, e));
}

/** A row times a factor, in f32. */
function scaled(x: ReferenceTensor, factor: number): ReferenceTensor {
  const values = x.row(0).map((value) => value * factor);
  return new ReferenceTensor(values, 0, 1, x.cols, x.cols);
}

function linear(out: ReferenceTensor, x: ReferenceTensor, w: ReferenceWeight, bias: ReferenceTensor | null): void {
  matmul(out, x, w.data, w.rows, w.cols, 1, bias, 1, false);
}

function biasRow(bias: ExpertWeights["downBias"], e: number): ReferenceTensor | null {
  if (bias === null) return null;
  const { data, offset, cols, stride } = bias as ReferenceTensor;
  return new ReferenceTensor(data, offset + e * stride, 1, cols, stride);
}
