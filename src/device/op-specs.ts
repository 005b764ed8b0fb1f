// What ops are told beside their tensors: the shape and the kind of a layer.

import type { Activation } from "../core/activation.js";
import type { Tensor, Weight } from "./memory.js";

/** Rotary embedding of one kind: inverse frequencies [rotaryDim/2] and the factor on cos and sin (yarn's attention factor). */
export interface RotarySpec {
  readonly invFreq: Float32Array;
  readonly scale: number;
  /** true: pairs are (0,1),(2,3)... ; false: pairs are (i, i + rotaryDim/2), the Hugging Face layout. */
  readonly interleaved: boolean;
}

/** cos and sin of every token of the staged batch, filled once per step by `rotaryTable`. */
export interface RotaryTable {
  readonly spec: RotarySpec;
}

export interface AttentionParams {
  /** H of the query tensor; heads of one kv head are adjacent. */
  readonly numHeads: number;
  readonly scale: number;
  /** cap * tanh(score / cap) on the scaled score, before the mask; 0 is off. */
  readonly softcap: number;
  /** One learned logit per query head [1, H] that takes part in the softmax denominator and has no value; null: none. */
  readonly sinks: Tensor | null;
}

/** How a mixture of experts turns router logits into expert ids and weights. */
export interface RouterSpec {
  readonly numExperts: number;
  readonly topK: number;
  /** softmax over all, then top-k; softmax over the chosen k only; sigmoid scores. */
  readonly score: "softmax" | "softmax_topk" | "sigmoid";
  /** Divide the chosen weights by their sum. */
  readonly normalize: boolean;
  readonly scale: number;
  /** Added to the scores for the choice, not for the weights (deepseek); null: none. [1, E] */
  readonly bias: Tensor | null;
  /** Experts are chosen only from the best `topkGroup` of `numGroups` groups (deepseek); 1, 1 is off. */
  readonly numGroups: number;
  readonly topkGroup: number;
  /** A group is as good as the sum of this many of its best; 2 when left out. */
  readonly groupBest?: 1 | 2;
  /** Multiplies the weight of an expert once weights are made (gemma 4); left out: ones. [1, E] */
  readonly expertScale?: Tensor;
  /** The weights multiply what the experts read, not what they give (llama 4). */
  readonly scalesInput?: boolean;
}

/** The experts of one layer. gateUp has rows [gate; up]: 2 * inner outputs. */
export interface ExpertWeights {
  readonly gateUp: readonly Weight[]; // [E] of [2*inner, hidden]
  readonly down: readonly Weight[]; // [E] of [hidden, inner]
  readonly gateUpBias: Tensor | null; // [E, 2*inner]
  readonly downBias: Tensor | null; // [E, hidden]
  readonly inner: number;
  /** "silu": silu(gate) * up. "oss": gate clamped above by 7, up to [-7, 7]; (up + 1) * gate * sigmoid(1.702 * gate). */
  readonly activation: "silu" | "gelu_tanh" | "relu2" | "oss";
  /** false: gateUp is up alone [inner, hidden], and the activation is on it. */
  readonly isGated?: boolean;
}

/**
 * Linear attention with decay. Head h has a state S [keyDim, valueDim] and reads the key head h / (numHeads / numKeyHeads). Token by
 * token, g the decay and r the rate of the head:
 *   isDelta (gated delta rule)    u = r * (v - g * S^T k)
 *   otherwise (Mamba-2, SSD)      u = r * v
 *   S = g * S + k u^T;  out = S^T q + skip * v
 * The state takes numHeads * keyDim * valueDim numbers.
 */
export interface LinearAttentionSpec {
  readonly numHeads: number;
  readonly numKeyHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly isDelta: boolean;
  /** One number per head [1, numHeads]; null: none. */
  readonly skip: Tensor | null;
}

/** What an elementwise op makes of x, and of y in the same place of its second input. */
export type MapSpec =
  /** x + scale * y */
  | { readonly kind: "add"; readonly scale: number }
  /** x * factor */
  | { readonly kind: "scale"; readonly factor: number }
  /** x between two bounds, either of which may be infinite */
  | { readonly kind: "clamp"; readonly low: number; readonly high: number }
  /** x * y, where the second input has one column. */
  | { readonly kind: "scale_rows" }
  /** x * (1 + beta * ln(1 + floor((position + shift) / period))): queries that sharpen with the length of the context. */
  | ({ readonly kind: "scale_by_position" } & PositionScale)
  /** x * (alphaP * x + beta) above 0, alphaN * (e^min(x, eps) - 1 - x) + beta * x below. */
  | ({ readonly kind: "xielu" } & Xielu)
  /** cap * tanh(x / cap) */
  | { readonly kind: "softcap"; readonly cap: number }
  /** act(x) */
  | { readonly kind: "activation"; readonly activation: Activation }
  /** act(x) * y */
  | { readonly kind: "gate"; readonly activation: Activation };

export interface MapOp {
  readonly spec: MapSpec;
}

export interface PositionScale {
  readonly beta: number;
  readonly period: number;
  readonly shift: number;
}

export interface Xielu {
  readonly alphaP: number;
  readonly alphaN: number;
  readonly beta: number;
  readonly eps: number;
}

export interface StepLimits {
  readonly min: number;
  readonly max: number;
}

export interface MatmulOptions {
  readonly bias?: Tensor | null;
  /** out += scale * result instead of out = scale * result. */
  readonly accumulate?: boolean;
  readonly scale?: number;
}

/** For each head h: out[t, h*outHead + outOffset + i] = x[t, h*inHead + inOffset + i], i < width. inHead 0 repeats one piece. */
export interface CopyHeads {
  readonly numHeads: number;
  readonly width: number;
  readonly outHead: number;
  readonly outOffset: number;
  readonly inHead: number;
  readonly inOffset: number;
}
