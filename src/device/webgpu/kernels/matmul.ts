// Products of rows with weights. One order of every sum, whatever kernel runs: a row of the weight is cut into 16 chains, chain c takes the
// units c, c + 16, ... (encodings.ts) one after the other with explicit fma; chains c and c + 8 are added, and these eight sums from the first
// to the last. The matvec gives each chain a thread; the tile has eight groups of threads, each two chains. So their bits are the same, and a
// row's never depend on its neighbours.
//
// Rows that meet a block encoding are rounded to 8 bits, a factor for each 32 of them; dots of a unit are then exact integers.

import type { Activation } from "../../../core/activation.js";
import { type Kernel, kernel, MATHS } from "../kernel.js";
import { ruleOf } from "./elementwise.js";
import {
  BLOCK_CODE,
  BLOCK_UNIT,
  type BlockEncoding,
  type Encoding,
  type FloatEncoding,
  floatUnitAt,
  isFloat,
  numbersOf,
} from "./encodings.js";
import { ROUND_FOUR } from "./rounding.js";

const CHAINS = 16;
/** Chains that a tile sums at the same time. */
const SIDE = 8;
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

/** How the threads of a tile share its work: `side` chains at the same time, and a thread has one of them of `rows` x `tokens` outputs. */
export interface TileShape {
  readonly chains: number;
  readonly side: number;
  readonly rows: number;
  readonly tokens: number;
  /** Threads along outputs and along tokens. */
  readonly across: number;
  readonly down: number;
  readonly prefetch: boolean;
}

export const VECTOR_SHAPES: Readonly<Record<number, VectorShape>> = {
  1: { chains: CHAINS, side: SIDE, threads: 128, rows: 1, ahead: 4 },
  2: { chains: CHAINS, side: SIDE, threads: 128, rows: 2, ahead: 1 },
  4: { chains: CHAINS, side: SIDE, threads: 128, rows: 2, ahead: 1 },
  8: { chains: CHAINS, side: SIDE, threads: 128, rows: 2, ahead: 1 },
};
/** Outputs of a workgroup are one unit of the next product's rows. */
export const GATED_SHAPE: VectorShape = { chains: CHAINS, side: SIDE, threads: 256, rows: 2, ahead: 1 };
/** The smaller one takes 8 KiB of workgroup memory, and compiles in moments on adapters in software. */
export const TILE_SHAPES = {
  large: { chains: CHAINS, side: SIDE, rows: 4, tokens: 8, across: 8, down: 4, prefetch: false },
  small: { chains: CHAINS, side: SIDE, rows: 2, tokens: 2, across: 8, down: 4, prefetch: false },
} as const satisfies Record<string, TileShape>;
export type TileSize = keyof typeof TILE_SHAPES;

/** Outputs of a workgroup. */
export const heightOf = ({ chains, threads, rows }: VectorShape): number => (threads / chains) * rows;

const OUTPUT = `
fn put(t: u32, row: u32, total: f32) {
  let o = p.outAt + t * p.outStride + p.firstRow + row; var sum = total;
  if (p.hasBias == 1u) { sum = sum + $bias[p.biasAt + p.firstRow + row]; }
  var value = p.scale * sum;
  if (p.accumulates == 1u) { value = $out[o] + value; }
  $out[o] = value;
}`;
const COMMON = "rows firstRow units factorsAt n outAt outStride hasBias biasAt accumulates scale:f";
const FLOAT_PARAMS = `${COMMON} xAt xStride cols`;
const BLOCK_PARAMS = `${COMMON} rowUnits`;

/** x at column c as vec4, by 16-byte loads where its rows allow them. */
const X4 = {
  vec4f: "fn x4(t: u32, c: u32) -> vec4f { return $x[(p.xAt + t * p.xStride + c) / 4u]; }",
  f32: `fn x1(at: u32, c: u32) -> f32 { return select(0.0, $x[at + min(c, p.cols - 1u)], c < p.cols); }
fn x4(t: u32, c: u32) -> vec4f { let at = p.xAt + t * p.xStride; return vec4f(x1(at, c), x1(at, c + 1u), x1(at, c + 2u), x1(at, c + 3u)); }`,
} as const;

const times = (count: number, line: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => line(i)).join("\n");

/** What a product reads and adds: a unit is two vectors of the weight and two of x, with factors where they are codes. */
export interface Product {
  readonly name: string;
  readonly operands: string;
  readonly params: string;
  /** WGSL: put(t, row, total), and functions that the following use. */
  readonly code: string;
  /** Type of the vectors. */
  readonly vector: "vec4f" | "vec4u";
  /** Types of a unit's factors, of the weight and of x; null: there are none. */
  readonly factors: { readonly weight: string; readonly x: string } | null;
  /** WGSL expressions: the vectors and the factors of unit u of a row of the weight, and of x. */
  readonly weight: (row: string, u: string) => readonly [string, string, string];
  readonly x: (row: string, u: string) => readonly [string, string, string];
  /** WGSL statements that x alone gives, once for all outputs, and that add to `acc`; names end in what is given. */
  readonly prepare: (x: string) => string;
  readonly add: (acc: string, w: string, x: string) => string;
}

interface VectorRule {
  /** WGSL: the row of the weight that gives output ROW. */
  readonly weightRow: string;
  readonly isMine: string;
  /** The row of x that the first token reads. */
  readonly xRow: string;
}
const PLAIN: VectorRule = { weightRow: "ROW", isMine: "true", xRow: "t0" };

/** WGSL: a unit's vectors and factors as a<name>, b<name>, f<name>. */
function declare(name: string, [a, b, f]: readonly [string, string, string], { factors }: Product): string {
  return `let a${name} = ${a}; let b${name} = ${b};${factors === null ? "" : ` let f${name} = ${f};`}`;
}

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
  for (var g = 0u; g < ${SIDE}u; g++) {
    var part = 0.0;
    for (var c = g; c < ${CHAINS}u; c += ${SIDE}u) {
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
      for (var s = 0u; s < ${side}u; s++) {
        var part = 0.0;
        for (var c = s; c < ${chains}u; c += ${side}u) { part = part + sums[i * ${chains + 1}u + c]; }
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
  for (var s = 0u; s < ${side}u; s++) {
    var part = 0.0;
    for (var c = s; c < ${chains}u; c += ${side}u) { part = part + sums[at * ${chains + 1}u + c]; }
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

/** Outputs and tokens of a workgroup. */
export const tileSize = ({ rows, tokens, across, down }: TileShape): { height: number; depth: number } => ({
  height: rows * across,
  depth: tokens * down,
});

/** Many tokens: groups of threads have the same outputs, each its own chains; at the end their sums are added. */
export function tile(product: Product, shape: TileShape): Kernel {
  const { chains, side, rows, tokens, across, down, prefetch } = shape;
  const { height, depth } = tileSize(shape);
  const { vector, factors } = product;
  const each = across * down;
  const threads = each * side;
  const hasTotals = chains > side;
  const [wPitch, xPitch] = [height + 1, depth + 1];
  const pieces = (count: number, what: (i: number) => string): string =>
    times(Math.ceil((count * side) / threads), what);
  const inPlace = (i: number, count: number, code: string): string =>
    (i + 1) * threads <= count * side ? code : `if (l < ${count * side - i * threads}u) { ${code} }`;
  const zero = `${vector}(0)`;
  const fetched = (name: string, type: string): string =>
    `var a${name}: ${vector}; var b${name}: ${vector};${factors === null ? "" : ` var f${name}: ${type};`}`;
  const bring = (name: string, isThere: string, [a, b, f]: readonly [string, string, string], type: string): string =>
    `a${name} = ${zero}; b${name} = ${zero};${factors === null ? "" : ` f${name} = ${type}(0);`}
      if (${isThere}) { a${name} = ${a}; b${name} = ${b};${factors === null ? "" : ` f${name} = ${f};`} }`;
  const fetch = `
    { let u = u0 + l % ${side}u;
      ${pieces(height, (i) => {
        const row = `(g.x * ${height}u + (l + ${i * threads}u) / ${side}u)`;
        return bring(`w${i}`, `u < p.units && ${row} < p.rows`, product.weight(row, "u"), factors?.weight ?? "");
      })}
      ${pieces(depth, (i) => {
        const token = `(g.y * ${depth}u + (l + ${i * threads}u) / ${side}u)`;
        return bring(`x${i}`, `u < p.units && ${token} < p.n`, product.x(token, "u"), factors?.x ?? "");
      })} }`;
  const put = (kind: "w" | "x", count: number, pitch: number): string =>
    pieces(count, (i) =>
      inPlace(
        i,
        count,
        `let at${kind}${i} = (l % ${side}u) * ${pitch}u + (l + ${i * threads}u) / ${side}u;
    ${kind}s[at${kind}${i}] = a${kind}${i}; ${kind}s[at${kind}${i} + ${side * pitch}u] = b${kind}${i};${factors === null ? "" : ` f${kind}s[at${kind}${i}] = f${kind}${i};`}`,
      ),
    );
  const shared = (kind: "w" | "x", at: string, pitch: number): readonly [string, string, string] => [
    `${kind}s[${at}]`,
    `${kind}s[${at} + ${side * pitch}u]`,
    `f${kind}s[${at}]`,
  ];
  const quads = Math.ceil(tokens / 4);
  return kernel(
    `tile-${product.name}`,
    product.operands,
    product.params,
    `${product.code}
var<workgroup> ws: array<${vector}, ${Math.max(2 * side * wPitch, threads * quads)}>; // [2][chain][output]
var<workgroup> xs: array<${vector}, ${2 * side * xPitch}>; // [2][chain][token]
${factors === null ? "" : `var<workgroup> fws: array<${factors.weight}, ${side * wPitch}>; var<workgroup> fxs: array<${factors.x}, ${side * xPitch}>;`}
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let chain = l / ${each}u; let r = l % ${across}u; let t = l % ${each}u / ${across}u;
  ${times(tokens, (b) => times(rows, (a) => `var acc${a}_${b} = 0.0;${hasTotals ? ` var sum${a}_${b} = 0.0;` : ""}`))}
  ${pieces(height, (i) => fetched(`w${i}`, factors?.weight ?? ""))}
  ${pieces(depth, (i) => fetched(`x${i}`, factors?.x ?? ""))}
  ${hasTotals ? `for (var begin = 0u; begin < ${chains}u; begin += ${side}u) {` : ""}
  var u0 = ${hasTotals ? "begin" : "0u"};
  ${prefetch ? fetch : ""}
  while (u0 < p.units) {
    ${prefetch ? "" : fetch}
    workgroupBarrier();
    ${put("w", height, wPitch)}
    ${put("x", depth, xPitch)}
    workgroupBarrier();
    u0 += ${chains}u;
    ${prefetch ? fetch : ""}
    ${times(rows, (a) => declare(`c${a}`, shared("w", `chain * ${wPitch}u + ${a * across}u + r`, wPitch), product))}
    ${times(
      tokens,
      (
        b,
      ) => `{ ${declare("x", shared("x", `chain * ${xPitch}u + ${b * down}u + t`, xPitch), product)} ${product.prepare("x")}
      ${times(rows, (a) => product.add(`acc${a}_${b}`, `c${a}`, "x"))} }`,
    )}
  }
  ${hasTotals ? `${times(tokens, (b) => times(rows, (a) => `sum${a}_${b} = sum${a}_${b} + acc${a}_${b}; acc${a}_${b} = 0.0;`))} }` : ""}
  ${times(rows, (a) => {
    const four = (q: number): string =>
      [0, 1, 2, 3]
        .map((i) => (4 * q + i < tokens ? `${hasTotals ? "sum" : "acc"}${a}_${4 * q + i}` : "0.0"))
        .join(", ");
    const kept = (value: string): string =>
      vector === "vec4u" ? `bitcast<vec4u>(vec4f(${value}))` : `vec4f(${value})`;
    return `workgroupBarrier();
  ${times(quads, (q) => `ws[l * ${quads}u + ${q}u] = ${kept(four(q))};`)}
  workgroupBarrier();
  for (var i = l; i < ${each * tokens}u; i += ${threads}u) {
    let q = i % ${each}u; let b = i / ${each}u; var total = 0.0;
    for (var c = 0u; c < ${side}u; c++) { total = total + ${vector === "vec4u" ? "bitcast<f32>" : ""}(ws[(c * ${each}u + q) * ${quads}u + b / 4u][b % 4u]); }
    let row = g.x * ${height}u + ${a * across}u + q % ${across}u; let token = g.y * ${depth}u + b * ${down}u + q / ${across}u;
    if (row < p.rows && token < p.n) { put(token, row, total); }
  }`;
  })}
}`,
  );
}

/** Products with numbers: units of 8. `x`: how it is bound. */
export function floatProduct(encoding: FloatEncoding, x: "f32" | "vec4f", output = OUTPUT, more = ""): Product {
  return {
    name: `${encoding}-${x}`,
    operands: `out:rw:f32 x:r:${x} w:r:vec4u bias:r:f32`,
    params: FLOAT_PARAMS,
    code: `${X4[x]}${output}${more}`,
    vector: "vec4f",
    factors: null,
    weight: (row, u) => floatUnitAt(encoding, `${row} * p.units + ${u}`),
    x: (row, u) => [`x4(${row}, 8u * ${u})`, `x4(${row}, 8u * ${u} + 4u)`, ""],
    prepare: () => "",
    add: (acc, w, x_) =>
      ["a", "b"]
        .map((v) => ["x", "y", "z", "w"].map((c) => `${acc} = fma(${v}${w}.${c}, ${v}${x_}.${c}, ${acc});`).join(" "))
        .join(" "),
  };
}

/** Products with codes: units of 32. */
export function blockProduct(encoding: BlockEncoding, output = OUTPUT): Product {
  const { code, add } = BLOCK_CODE[encoding];
  const dots = (v: string, w: string, x: string): string =>
    ["x", "y", "z", "w"].map((c) => `dot4I8Packed(${v}${w}.${c}, ${v}${x}.${c})`).join(" + ");
  return {
    name: encoding,
    operands: "out:rw:f32 x:r:vec4u xm:r:vec2u w:r:vec4u s:r:u32 bias:r:f32",
    params: BLOCK_PARAMS,
    code: `${code}${output}`,
    vector: "vec4u",
    factors: { weight: "vec2f", x: "vec2u" },
    weight: (row, u) => [`codesOf(${row}, ${u}, 0u)`, `codesOf(${row}, ${u}, 1u)`, `factorsOf(${row}, ${u})`],
    x: (row, u) => {
      const at = `((${row}) * p.rowUnits + ${u})`;
      return [`$x[2u * ${at}]`, `$x[2u * ${at} + 1u]`, `$xm[${at}]`];
    },
    prepare: (x) =>
      `let sx = bitcast<f32>(f${x}.x); let s0 = extractBits(bitcast<i32>(f${x}.y), 0u, 16u); let s1 = extractBits(bitcast<i32>(f${x}.y), 16u, 16u);`,
    add: (acc, w, x) =>
      `{ let i0 = ${dots("a", w, x)}; let i1 = ${dots("b", w, x)}; let f = f${w}; ${add.replaceAll("acc", acc)} }`,
  };
}

/** out[t] = scale * row inputIds[t], or out[t] += row index[t]: of the part of the table that begins at firstRow. */
const lookup = (encoding: Encoding, adds: boolean): Kernel =>
  kernel(
    `${adds ? "addRows" : "embed"}-${encoding}`,
    `out:rw:f32 w:r:vec4u ${isFloat(encoding) ? "" : "s:r:u32 "}step:r:i32 previous:r:i32`,
    "cols outAt outStride units factorsAt rows firstRow indices scale:f",
    `${numbersOf(encoding)}
@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  var index = $step[p.indices + id.y];
  if (index < 0) { index = $previous[u32(-(index + 1))]; }
  let row = u32(index) - p.firstRow;
  if (index < 0 || u32(index) < p.firstRow || row >= p.rows) { return; }
  let o = p.outAt + id.y * p.outStride + id.x;
  ${adds ? "$out[o] = $out[o] + numberAt(row, id.x);" : "$out[o] = p.scale * numberAt(row, id.x);"}
}`,
  );

export interface ProductKernels {
  /** By VECTOR_TOKENS. */
  readonly matvec: readonly Kernel[];
  readonly tile: Readonly<Record<TileSize, Kernel>>;
  /** For adapters that are a processor. */
  readonly serial: Kernel;
}

export interface EncodingKernels {
  readonly embed: Kernel;
  readonly addRows: Kernel;
  /** Of x that can be read 16 bytes at a time, or of codes. */
  readonly wide: ProductKernels;
  /** Of any x; the same for block encodings. */
  readonly narrow: ProductKernels;
}

function productKernels(product: Product): ProductKernels {
  return {
    matvec: VECTOR_TOKENS.map((n) => matvec(product, n)),
    tile: { large: tile(product, TILE_SHAPES.large), small: tile(product, TILE_SHAPES.small) },
    serial: serialMatvec(product),
  };
}

const made = new Map<Encoding, EncodingKernels>();
const madeGated = new Map<string, readonly Kernel[]>();

/** By VECTOR_TOKENS. */
export function gatedKernelsOf(encoding: BlockEncoding, activation: Activation): readonly Kernel[] {
  const name = `${encoding} ${activation}`;
  const kernels = madeGated.get(name) ?? VECTOR_TOKENS.map((n) => gatedMatvec(encoding, activation, n));
  madeGated.set(name, kernels);
  return kernels;
}

/** Made once for each encoding: programs are found by the kernel's identity. */
export function kernelsOf(encoding: Encoding): EncodingKernels {
  let kernels = made.get(encoding);
  if (kernels === undefined) {
    const wide = productKernels(isFloat(encoding) ? floatProduct(encoding, "vec4f") : blockProduct(encoding));
    const narrow = isFloat(encoding) ? productKernels(floatProduct(encoding, "f32")) : wide;
    kernels = { embed: lookup(encoding, false), addRows: lookup(encoding, true), wide, narrow };
    made.set(encoding, kernels);
  }
  return kernels;
}
