// Ops that treat every number alike, one thread for each: v is the number of x, u that of y in the same place, f0 to f3 the op's own numbers.

import type { Activation } from "../../../core/activation.js";
import type { MapSpec } from "../../op-specs.js";
import { type Kernel, kernel, MATHS } from "../kernel.js";
import { ROUND_FOUR } from "./rounding.js";

/** Columns of a workgroup. */
export const EACH = 128;

const ACTIVATION: Readonly<Record<Activation, string>> = {
  silu: "v * sigmoidOf(v)",
  gelu_tanh: "0.5 * v * (1.0 + tanhOf(0.7978845608028654 * (v + 0.044715 * v * v * v)))",
  gelu: "0.5 * v * (1.0 + erfOf(v * 0.7071067811865476))",
  relu: "max(v, 0.0)",
  relu2: "max(v, 0.0) * max(v, 0.0)",
  sigmoid: "sigmoidOf(v)",
  identity: "v",
};

/** WGSL of an activation of `v`. */
export function activationOf(activation: Activation): string {
  return ACTIVATION[activation];
}

/** WGSL of an op. Where y has one column, or is a position, u is the number of the row. */
export function ruleOf(spec: MapSpec): string {
  switch (spec.kind) {
    case "add":
      return "fma(p.f0, u, v)";
    case "scale":
      return "v * p.f0";
    case "clamp":
      return "clamp(v, p.f0, p.f1)";
    case "scale_rows":
      return "v * u";
    case "scale_by_position":
      return "v * (1.0 + p.f0 * log(1.0 + floor((u + p.f2) / p.f1)))";
    case "xielu":
      return "select(p.f1 * (exp(min(v, p.f3)) - 1.0 - v) + p.f2 * v, v * fma(p.f0, v, p.f2), v > 0.0)";
    case "softcap":
      return "p.f0 * tanhOf(v / p.f0)";
    case "activation":
      return ACTIVATION[spec.activation];
    case "gate":
      return `(${ACTIVATION[spec.activation]}) * u`;
  }
}

/** An op's own numbers, as f0, f1, ... */
export function numbersOf(spec: MapSpec): readonly number[] {
  switch (spec.kind) {
    case "add":
      return [spec.scale];
    case "scale":
      return [spec.factor];
    case "clamp":
      return [Math.max(spec.low, -3.4e38), Math.min(spec.high, 3.4e38)]; // WGSL may know no infinity
    case "scale_by_position":
      return [spec.beta, spec.period, spec.shift];
    case "xielu":
      return [spec.alphaP, spec.alphaN, spec.beta, spec.eps];
    case "softcap":
      return [spec.cap];
    default:
      return [];
  }
}

const SECOND = {
  scale_rows: "$y[p.yAt + r * p.yStride]",
  scale_by_position: "f32($step[p.positions + r])",
  other: "$y[p.yAt + r * p.yStride + c]",
} as const;

/** Columns of a workgroup that rounds its rows, four a thread. */
export const EACH_ROUNDED = 256;

const made = new Map<string, Kernel>();

/** Made once for each kind: programs are found by the kernel's identity. `rounds`: products with codes follow, the rows are rounded too. */
export function mapKernel(spec: MapSpec, rounds = false): Kernel {
  const { kind } = spec;
  const name = `${kind}${"activation" in spec ? `-${spec.activation}` : ""}${rounds ? "-rounds" : ""}`;
  let found = made.get(name);
  if (found === undefined) {
    const second = kind === "scale_rows" || kind === "scale_by_position" ? SECOND[kind] : SECOND.other;
    found = kernel(
      name,
      `out:rw:f32 x:r:f32 y:r:f32 step:r:i32${rounds ? " codes:rw:u32 m:rw:vec2u" : ""}`,
      "cols outAt outStride xAt xStride yAt yStride positions f0:f f1:f f2:f f3:f",
      `${MATHS}
fn valueOf(r: u32, c: u32) -> f32 {
  let v = $x[p.xAt + r * p.xStride + c]; let u = ${second};
  return ${ruleOf(spec)};
}
${
  rounds
    ? `${ROUND_FOUR(EACH_ROUNDED / 4)}
@compute @workgroup_size(${EACH_ROUNDED / 4}) fn main(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) l: u32) {
  let c = 4u * id.x; let r = id.y; var v = vec4f(0.0);
  if (c < p.cols) {
    v = vec4f(valueOf(r, c), valueOf(r, c + 1u), valueOf(r, c + 2u), valueOf(r, c + 3u));
    let o = p.outAt + r * p.outStride + c; $out[o] = v.x; $out[o + 1u] = v.y; $out[o + 2u] = v.z; $out[o + 3u] = v.w;
  }
  roundFour(l, v, (r * p.cols + c) / 4u, c < p.cols);
}`
    : `@compute @workgroup_size(${EACH}) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < p.cols) { $out[p.outAt + id.y * p.outStride + id.x] = valueOf(id.y, id.x); }
}`
}`,
    );
    made.set(name, found);
  }
  return found;
}

export const GATHER = kernel(
  "gatherLogitRows",
  "out:rw:f32 x:r:f32 step:r:i32",
  "cols outAt outStride xAt xStride rows",
  `@compute @workgroup_size(${EACH}) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  $out[p.outAt + id.y * p.outStride + id.x] = $x[p.xAt + u32($step[p.rows + id.y]) * p.xStride + id.x];
}`,
);

export const COPY_HEADS = kernel(
  "copyHeads",
  "out:rw:f32 x:r:f32",
  "cols outAt outStride xAt xStride width outHead outOffset inHead inOffset",
  `@compute @workgroup_size(${EACH}) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  let h = id.x / p.width; let i = id.x % p.width;
  $out[p.outAt + id.y * p.outStride + h * p.outHead + p.outOffset + i] = $x[p.xAt + id.y * p.xStride + h * p.inHead + p.inOffset + i];
}`,
);
