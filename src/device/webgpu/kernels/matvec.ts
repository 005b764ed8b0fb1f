// The products of few tokens, which read the weights once: a thread has one chain of each of its outputs (the order of sums: product.ts).

import type { Activation } from "../../../core/activation.js";
import { type Kernel, kernel, MATHS } from "../kernel.js";
import { ruleOf } from "./elementwise.js";
import { BLOCK_UNIT, type BlockEncoding } from "./encodings.js";
import { blockProduct, CHAINS, declare, type Product, SIDE, times } from "./product.js";
import { ROUND_FOUR } from "./rounding.js";

/** Outputs of a workgroup whose threads do not meet: barriers are dear on a processor. */
export const SERIAL_ROWS = 64;
/** Tokens that one launch of the matvec reads the weights for. */
export const VECTOR_TOKENS = [1, 2, 4, 8] as const;
/** Bytes of workgroup memory that a kernel may take on every adapter. */
const LEAST_WORKGROUP_BYTES = 16384;

/** How the threads of a matvec share its work: a thread has one chain of `rows` outputs, and asks for `ahead` units of each at a time. */
export interface VectorShape {
  readonly chains: number;
  readonly side: number;
  readonly threads: number;
  readonly rows: number;
  readonly ahead: number;
}

export const VECTOR_SHAPES: Readonly<Record<number, VectorShape>> = {
  1: { chains: CHAINS, side: SIDE, threads: 128, rows: 1, ahead: 4 },
  2: { chains: CHAINS, side: SIDE, threads: 128, rows: 2, ahead: 1 },
  4: { chains: CHAINS, side: SIDE, threads: 128, rows: 2, ahead: 1 },
  8: { chains: CHAINS, side: SIDE, threads: 128, rows: 2, ahead: 1 },
};
/** Outputs of a workgroup are one unit of the next product's rows. */
export const GATED_SHAPE: VectorShape = { chains: CHAINS, side: SIDE, threads: 256, rows: 2, ahead: 1 };
/** Outputs of a workgroup. */
export const heightOf = ({ chains, threads, rows }: VectorShape): number => (threads / chains) * rows;

interface VectorRule {
  /** WGSL: the row of the weight that gives output ROW. */
  readonly weightRow: string;
  readonly isMine: string;
  /** The row of x that the first token reads. */
  readonly xRow: string;
}
const PLAIN: VectorRule = { weightRow: "ROW", isMine: "true", xRow: "t0" };

/** A thread has all chains of an output, one after the other, without a barrier. */
export function serialMatvec(product: Product, { weightRow, isMine, xRow }: VectorRule = PLAIN): Kernel {
  return kernel(
    `${product.name}-serial`,
    product.operands,
    product.params,
    `${product.code}
@compute @workgroup_size(${SERIAL_ROWS}) fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x; let t0 = id.y;
  if (row >= p.rows || !(${isMine})) { return; }
  let wr = ${weightRow.replace("ROW", "row")}; let xr = ${xRow}; var total = 0.0;
  for (var g = 0u; g < ${CHAINS}u; g += ${SIDE}u) {
    var part = 0.0;
    for (var c = g; c < g + ${SIDE}u; c++) {
      var acc = 0.0;
      for (var u = c; u < p.units; u += ${CHAINS}u) {
        ${declare("w", product.weight("wr", "u"), product)}
        ${declare("x", product.x("xr", "u"), product)}
        ${product.prepare("x")}
        ${product.add("acc", "w", "x")}
      }
      part = part + acc;
    }
    total = total + part;
  }
  put(t0, row, total);
}`,
  );
}

/** Few tokens: neighbouring threads have the chains of an output, whose units are neighbours in memory. */
export function matvec(
  product: Product,
  tokens: number,
  { chains, side, threads, rows, ahead }: VectorShape = VECTOR_SHAPES[tokens]!,
  { weightRow, isMine, xRow }: VectorRule = PLAIN,
): Kernel {
  const slots = threads / chains;
  const outputs = slots * rows;
  const together = Math.min(tokens, Math.max(1, Math.floor(LEAST_WORKGROUP_BYTES / (4 * outputs * (chains + 1)))));
  const step = (units: number): string => `
      ${times(units, (k) => times(rows, (r) => declare(`w${k}_${r}`, product.weight(`r${r}`, `(u + ${k * chains}u)`), product)))}
      ${times(units, (k) =>
        times(
          tokens,
          (t) => `{ ${declare("x", product.x(`xr + ${t}u`, `(u + ${k * chains}u)`), product)} ${product.prepare("x")}
        ${times(rows, (r) => product.add(`acc${t}_${r}`, `w${k}_${r}`, "x"))} }`,
        ),
      )}`;
  return kernel(
    `${product.name}-${tokens}`,
    product.operands,
    product.params,
    `${product.code}
var<workgroup> sums: array<f32, ${together * outputs * (chains + 1)}>;
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let lane = l % ${chains}u; let slot = l / ${chains}u; let first = g.x * ${outputs}u; let t0 = g.y * ${tokens}u;
  ${times(tokens, (t) => times(rows, (r) => `var acc${t}_${r} = 0.0;`))}
  let isMine = ${isMine};
  if (isMine) {
    let xr = ${xRow};
    ${times(rows, (r) => `let r${r} = ${weightRow.replace("ROW", `min(first + ${r * slots}u + slot, p.rows - 1u)`)};`)}
    var u = lane;
    ${ahead > 1 ? `for (; u + ${(ahead - 1) * chains}u < p.units; u += ${ahead * chains}u) { ${step(ahead)} }` : ""}
    for (; u < p.units; u += ${chains}u) { ${step(1)} }
  }
  ${times(Math.ceil(tokens / together), (phase) => {
    const from = phase * together;
    const count = Math.min(together, tokens - from);
    return `${phase > 0 ? "workgroupBarrier();" : ""}
  ${times(count, (t) => times(rows, (r) => `sums[(${(t * rows + r) * slots}u + slot) * ${chains + 1}u + lane] = acc${from + t}_${r};`))}
  workgroupBarrier();
  for (var i = l; i < ${count * outputs}u; i += ${threads}u) {
    let t = t0 + ${from}u + i / ${outputs}u; let row = first + i % ${outputs}u;
    if (t < p.n && row < p.rows && isMine) {
      var total = 0.0;
      for (var s = 0u; s < ${chains}u; s += ${side}u) {
        var part = 0.0;
        for (var c = s; c < s + ${side}u; c++) { part = part + sums[i * ${chains + 1}u + c]; }
        total = total + part;
      }
      put(t, row, total);
    }
  }`;
  })}
}`,
  );
}

/**
 * act(gate) * up of few tokens, where gate and up are the halves of the weight's rows, and these rounded for the product that follows: the
 * outputs of a workgroup are one unit of them.
 */
export function gatedMatvec(encoding: BlockEncoding, activation: Activation, tokens: number): Kernel {
  const { chains, side, threads, rows } = GATED_SHAPE;
  const slots = threads / chains;
  const product = blockProduct(encoding, "");
  const together = Math.min(tokens, Math.floor(LEAST_WORKGROUP_BYTES / (4 * 2 * BLOCK_UNIT * (chains + 1))));
  const both = 2 * rows;
  return kernel(
    `gated-${encoding}-${activation}-${tokens}`,
    "out:rw:f32 codes:rw:u32 m:rw:vec2u x:r:vec4u xm:r:vec2u w:r:vec4u s:r:u32",
    "rows units factorsAt n outAt outStride rowUnits",
    `${MATHS}${product.code}${ROUND_FOUR(threads)}
var<workgroup> sums: array<f32, ${together * 2 * BLOCK_UNIT * (chains + 1)}>;
var<workgroup> made: array<vec4f, ${(tokens * BLOCK_UNIT) / 4}>;
fn chained(at: u32) -> f32 {
  var total = 0.0;
  for (var s = 0u; s < ${chains}u; s += ${side}u) {
    var part = 0.0;
    for (var c = s; c < s + ${side}u; c++) { part = part + sums[at * ${chains + 1}u + c]; }
    total = total + part;
  }
  return total;
}
fn gated(v: f32, u: f32) -> f32 { return ${ruleOf({ kind: "gate", activation })}; }
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let lane = l % ${chains}u; let slot = l / ${chains}u; let first = g.x * ${BLOCK_UNIT}u; let t0 = g.y * ${tokens}u;
  ${times(tokens, (t) => times(both, (r) => `var acc${t}_${r} = 0.0;`))}
  ${times(both, (r) => `let r${r} = first + ${(r % rows) * slots}u + slot${r < rows ? "" : " + p.rows"};`)}
  for (var u = lane; u < p.units; u += ${chains}u) {
    ${times(both, (r) => declare(`w${r}`, product.weight(`r${r}`, "u"), product))}
    ${times(tokens, (t) => `{ ${declare("x", product.x(`t0 + ${t}u`, "u"), product)} ${product.prepare("x")} ${times(both, (r) => product.add(`acc${t}_${r}`, `w${r}`, "x"))} }`)}
  }
  ${times(Math.ceil(tokens / together), (phase) => {
    const from = phase * together;
    const count = Math.min(together, tokens - from);
    return `${phase > 0 ? "workgroupBarrier();" : ""}
  ${times(count, (t) => times(both, (r) => `sums[(${(t * both + r) * slots}u + slot) * ${chains + 1}u + lane] = acc${from + t}_${r};`))}
  workgroupBarrier();
  for (var i = l; i < ${count * BLOCK_UNIT}u; i += ${threads}u) {
    let t = i / ${BLOCK_UNIT}u; let c = i % ${BLOCK_UNIT}u; let at = t * ${2 * BLOCK_UNIT}u + c;
    let value = gated(chained(at), chained(at + ${BLOCK_UNIT}u));
    made[(${from}u + t) * ${BLOCK_UNIT / 4}u + c / 4u][c % 4u] = value;
    if (t0 + ${from}u + t < p.n) { $out[p.outAt + (t0 + ${from}u + t) * p.outStride + first + c] = value; }
  }`;
  })}
  workgroupBarrier();
  let t = l / ${BLOCK_UNIT / 4}u; let isThere = t < ${tokens}u && t0 + t < p.n;
  roundFour(l, made[min(l, ${(tokens * BLOCK_UNIT) / 4 - 1}u)], ((t0 + t) * p.rows + first) / 4u + l % ${BLOCK_UNIT / 4}u, isThere);
}`,
  );
}
