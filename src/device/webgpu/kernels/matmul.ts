// Products of rows with weights. One order of every sum, whatever kernel runs: a row of the weight is cut into 32 chains, chain c takes the
// units c, c + 32, ... (encodings.ts) one after the other with explicit fma, and the chains are added from the first to the last. The matvec
// gives each chain a thread; the tile walks chain by chain. So their bits are the same, and a row's never depend on its neighbours.
//
// Rows that meet a block encoding are rounded to 8 bits, a factor for each 32 of them; dots of a unit are then exact integers.

import { type Kernel, kernel } from "../kernel.js";
import {
  BLOCK_CODE,
  type BlockEncoding,
  type Encoding,
  type FloatEncoding,
  floatUnitAt,
  isFloat,
  numbersOf,
} from "./encodings.js";

const CHAINS = 32;
/** Outputs of a matvec's workgroup. */
export const VECTOR_ROWS = 8;
/** Outputs of a workgroup whose threads do not meet: barriers are dear on a processor. */
export const SERIAL_ROWS = 64;
/** Rows of x and outputs of a tile. */
export const TILE = 64;

/** Tokens that one launch of the matvec reads the weights for. */
export const VECTOR_TOKENS = [1, 2, 4, 8] as const;

const OUTPUT = `
fn put(t: u32, row: u32, total: f32) {
  let o = p.outAt + t * p.outStride + p.firstRow + row; var sum = total;
  if (p.hasBias == 1u) { sum = sum + $bias[p.biasAt + p.firstRow + row]; }
  let value = p.scale * sum;
  $out[o] = select(value, $out[o] + value, p.accumulates == 1u);
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

export const X1 = X4.f32;

const times = (count: number, line: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => line(i)).join("\n      ");

interface VectorRule {
  /** WGSL: the row of the weight that gives output `row`. */
  readonly weightRow: string;
  readonly isMine: string;
  /** The row of x that the first token reads. */
  readonly xRow: string;
}
const PLAIN: VectorRule = { weightRow: "row", isMine: "true", xRow: "t0" };

/** 256 threads: 8 outputs, 32 chains each. Serial: a thread has all chains of an output, one after the other, without a barrier. `code` has put(t, row, total); `unit` reads rows xr, xr + 1, ... of x and row wr of the weight. */
export function matvec(
  name: string,
  operands: string,
  params: string,
  code: string,
  tokens: number,
  unit: string,
  { weightRow, isMine, xRow }: VectorRule = PLAIN,
  isSerial = false,
): Kernel {
  if (isSerial)
    return kernel(
      `${name}-serial`,
      operands,
      params,
      `${code}
@compute @workgroup_size(${SERIAL_ROWS}) fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x; let t0 = id.y;
  if (row >= p.rows || !(${isMine})) { return; }
  let wr = ${weightRow}; let xr = ${xRow}; var total = 0.0;
  for (var c = 0u; c < min(p.units, ${CHAINS}u); c++) {
    var acc0 = 0.0;
    for (var u = c; u < p.units; u += ${CHAINS}u) {
      ${unit}
    }
    total = total + acc0;
  }
  put(t0, row, total);
}`,
    );
  return kernel(
    name,
    operands,
    params,
    `${code}
var<workgroup> sums: array<f32, ${tokens * VECTOR_ROWS * (CHAINS + 1)}>;
@compute @workgroup_size(256) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let lane = l & 31u; let local = l / 32u; let row = g.x * ${VECTOR_ROWS}u + local; let t0 = g.y * ${tokens}u;
  ${times(tokens, (t) => `var acc${t} = 0.0;`)}
  let isMine = ${isMine};
  if (row < p.rows && isMine) {
    let wr = ${weightRow}; let xr = ${xRow};
    for (var u = lane; u < p.units; u += ${CHAINS}u) {
      ${unit}
    }
  }
  ${times(tokens, (t) => `sums[(${t}u * ${VECTOR_ROWS}u + local) * ${CHAINS + 1}u + lane] = acc${t};`)}
  workgroupBarrier();
  let t = l / ${VECTOR_ROWS}u; let mine = g.x * ${VECTOR_ROWS}u + l % ${VECTOR_ROWS}u;
  if (t < ${tokens}u && t0 + t < p.n && mine < p.rows && isMine) {
    var total = 0.0;
    for (var i = 0u; i < ${CHAINS}u; i++) { total = total + sums[l * ${CHAINS + 1}u + i]; }
    put(t0 + t, mine, total);
  }
}`,
  );
}

export function floatUnit(encoding: FloatEncoding, tokens: number): string {
  const dot = (w: string, t: number, part: string): string =>
    ["x", "y", "z", "w"].map((c) => `acc${t} = fma(${w}.${c}, ${part}.${c}, acc${t});`).join(" ");
  return `${floatUnitAt(encoding, "wr * p.units + u")}
      ${times(tokens, (t) => `{ let a = x4(xr + ${t}u, 8u * u); let b = x4(xr + ${t}u, 8u * u + 4u); ${dot("w0", t, "a")} ${dot("w1", t, "b")} }`)}`;
}

function floatMatvec(encoding: FloatEncoding, x: "f32" | "vec4f", tokens: number, isSerial = false): Kernel {
  return matvec(
    `matvec-${encoding}-${x}-${tokens}`,
    `out:rw:f32 x:r:${x} w:r:vec4u bias:r:f32`,
    FLOAT_PARAMS,
    `${X4[x]}${OUTPUT}`,
    tokens,
    floatUnit(encoding, tokens),
    PLAIN,
    isSerial,
  );
}

const DOTS = (w0: string, w1: string, x0: string, x1: string): string => {
  const four = (a: string, b: string) =>
    ["x", "y", "z", "w"].map((c) => `dot4I8Packed(${a}.${c}, ${b}.${c})`).join(" + ");
  return `let i0 = ${four(w0, x0)}; let i1 = ${four(w1, x1)};`;
};
const X_FACTORS =
  "let sx = bitcast<f32>(m.x); let s0 = extractBits(bitcast<i32>(m.y), 0u, 16u); let s1 = extractBits(bitcast<i32>(m.y), 16u, 16u);";

export function blockUnit(encoding: BlockEncoding, tokens: number): string {
  const { add } = BLOCK_CODE[encoding];
  return `let w0 = codesOf(wr, u, 0u); let w1 = codesOf(wr, u, 1u); let f = factorsOf(wr, u);
      ${times(
        tokens,
        (t) => `{ let xa = (xr + ${t}u) * p.rowUnits + u; let m = $xm[xa]; ${X_FACTORS}
        ${DOTS("w0", "w1", "$x[2u * xa]", "$x[2u * xa + 1u]")} var acc = acc${t}; ${add} acc${t} = acc; }`,
      )}`;
}

function blockMatvec(encoding: BlockEncoding, tokens: number, isSerial = false): Kernel {
  return matvec(
    `matvec-${encoding}-${tokens}`,
    "out:rw:f32 x:r:vec4u xm:r:vec2u w:r:vec4u s:r:u32 bias:r:f32",
    BLOCK_PARAMS,
    `${BLOCK_CODE[encoding].code}${OUTPUT}`,
    tokens,
    blockUnit(encoding, tokens),
    PLAIN,
    isSerial,
  );
}

/** 256 threads: 64 outputs x 64 tokens, each thread 4 x 4. Four units of a chain, 32 columns, at a time. */
function floatTile(encoding: FloatEncoding, x: "f32" | "vec4f"): Kernel {
  return kernel(
    `tile-${encoding}-${x}`,
    `out:rw:f32 x:r:${x} w:r:vec4u bias:r:f32`,
    FLOAT_PARAMS,
    `${X4[x]}${OUTPUT}
var<workgroup> ws: array<vec4f, 512>; // [32 columns][64 outputs / 4]
var<workgroup> xs: array<vec4f, 512>; // [32 columns][64 tokens / 4]
@compute @workgroup_size(256) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let r = l % 16u; let t = l / 16u;
  let mine = l % 64u; let piece = l / 64u; let row = g.x * 64u + mine; let token = g.y * 64u + mine; // what the thread brings
  var totals: array<vec4f, 4>; var acc: array<vec4f, 4>;
  for (var c = 0u; c < min(p.units, ${CHAINS}u); c++) {
    for (var a = 0u; a < 4u; a++) { acc[a] = vec4f(0.0); }
    for (var u0 = c; u0 < p.units; u0 += ${4 * CHAINS}u) {
      let u = u0 + piece * ${CHAINS}u;
      var c4 = vec4f(0.0); var d4 = vec4f(0.0); var a4 = vec4f(0.0); var b4 = vec4f(0.0);
      if (u < p.units) {
        if (row < p.rows) { ${floatUnitAt(encoding, "row * p.units + u")} c4 = w0; d4 = w1; }
        if (token < p.n) { a4 = x4(token, 8u * u); b4 = x4(token, 8u * u + 4u); }
      }
      workgroupBarrier();
      for (var i = 0u; i < 4u; i++) {
        let at = (piece * 8u + i) * 16u + mine / 4u;
        ws[at][mine % 4u] = c4[i]; ws[at + 64u][mine % 4u] = d4[i];
        xs[at][mine % 4u] = a4[i]; xs[at + 64u][mine % 4u] = b4[i];
      }
      workgroupBarrier();
      for (var k = 0u; k < 32u; k++) {
        let wv = ws[k * 16u + r]; let xv = xs[k * 16u + t];
        acc[0] = fma(vec4f(wv.x), xv, acc[0]); acc[1] = fma(vec4f(wv.y), xv, acc[1]);
        acc[2] = fma(vec4f(wv.z), xv, acc[2]); acc[3] = fma(vec4f(wv.w), xv, acc[3]);
      }
    }
    for (var a = 0u; a < 4u; a++) { totals[a] = totals[a] + acc[a]; }
  }
  for (var a = 0u; a < 4u; a++) { for (var b = 0u; b < 4u; b++) {
    let o = g.x * 64u + r * 4u + a; let tt = g.y * 64u + t * 4u + b;
    if (o < p.rows && tt < p.n) { put(tt, o, totals[a][b]); }
  } }
}`,
  );
}

/** The same for codes, one unit at a time. */
function blockTile(encoding: BlockEncoding): Kernel {
  const { code, add } = BLOCK_CODE[encoding];
  return kernel(
    `tile-${encoding}`,
    "out:rw:f32 x:r:vec4u xm:r:vec2u w:r:vec4u s:r:u32 bias:r:f32",
    BLOCK_PARAMS,
    `${code}${OUTPUT}
var<workgroup> ws: array<vec4u, 128>; // [2][64 outputs]
var<workgroup> fs: array<vec2f, 64>;
var<workgroup> xs: array<vec4u, 128>; // [2][64 tokens]
var<workgroup> ms: array<vec2u, 64>;
@compute @workgroup_size(256) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let r = l % 16u; let t = l / 16u; let mine = l % 64u; let part = (l / 64u) % 2u;
  let row = g.x * 64u + mine; let token = g.y * 64u + mine;
  var totals: array<f32, 16>; var accs: array<f32, 16>;
  for (var c = 0u; c < min(p.units, ${CHAINS}u); c++) {
    for (var i = 0u; i < 16u; i++) { accs[i] = 0.0; }
    for (var u = c; u < p.units; u += ${CHAINS}u) {
      var codes = vec4u(0u); var f0 = vec2f(0.0); var m0 = vec2u(0u);
      if (l < 128u) {
        if (row < p.rows) { codes = codesOf(row, u, part); if (part == 0u) { f0 = factorsOf(row, u); } }
      } else if (token < p.n) { let xa = token * p.rowUnits + u; codes = $x[2u * xa + part]; m0 = $xm[xa]; }
      workgroupBarrier();
      if (l < 128u) { ws[part * 64u + mine] = codes; if (part == 0u) { fs[mine] = f0; } }
      else { xs[part * 64u + mine] = codes; if (part == 0u) { ms[mine] = m0; } }
      workgroupBarrier();
      var w0: array<vec4u, 4>; var w1: array<vec4u, 4>; var ff: array<vec2f, 4>;
      for (var a = 0u; a < 4u; a++) { w0[a] = ws[a * 16u + r]; w1[a] = ws[64u + a * 16u + r]; ff[a] = fs[a * 16u + r]; }
      for (var b = 0u; b < 4u; b++) {
        let x0 = xs[b * 16u + t]; let x1 = xs[64u + b * 16u + t]; let m = ms[b * 16u + t]; ${X_FACTORS}
        for (var a = 0u; a < 4u; a++) {
          let f = ff[a]; ${DOTS("w0[a]", "w1[a]", "x0", "x1")}
          var acc = accs[a * 4u + b]; ${add} accs[a * 4u + b] = acc;
        }
      }
    }
    for (var i = 0u; i < 16u; i++) { totals[i] = totals[i] + accs[i]; }
  }
  for (var a = 0u; a < 4u; a++) { for (var b = 0u; b < 4u; b++) {
    let o = g.x * 64u + a * 16u + r; let tt = g.y * 64u + b * 16u + t;
    if (o < p.rows && tt < p.n) { put(tt, o, totals[a * 4u + b]); }
  } }
}`,
  );
}

/** Rows to 8 bits: of each 32 numbers their codes, their factor, and the sums of the codes of both halves. */
export const ROUND_ROWS = kernel(
  "roundRows",
  "codes:rw:vec4u m:rw:vec2u x:r:f32",
  "units xAt xStride",
  `fn pack(a: vec4i) -> u32 { return (u32(a.x) & 255u) | ((u32(a.y) & 255u) << 8u) | ((u32(a.z) & 255u) << 16u) | (u32(a.w) << 24u); }
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let u = id.x; if (u >= p.units) { return; }
  let from0 = p.xAt + id.y * p.xStride + 32u * u; let to = id.y * p.units + u;
  var v: array<vec4f, 8>; var most = 0.0;
  for (var i = 0u; i < 8u; i++) {
    let at = from0 + 4u * i; v[i] = vec4f($x[at], $x[at + 1u], $x[at + 2u], $x[at + 3u]);
    let a = abs(v[i]); most = max(most, max(max(a.x, a.y), max(a.z, a.w)));
  }
  let inverse = select(127.0 / most, 0.0, most == 0.0);
  var words: array<u32, 8>; var sums = array<i32, 2>(0, 0);
  for (var i = 0u; i < 8u; i++) {
    let code = vec4i(round(v[i] * inverse)); words[i] = pack(code); sums[i / 4u] += code.x + code.y + code.z + code.w;
  }
  $codes[2u * to] = vec4u(words[0], words[1], words[2], words[3]);
  $codes[2u * to + 1u] = vec4u(words[4], words[5], words[6], words[7]);
  $m[to] = vec2u(bitcast<u32>(most / 127.0), (u32(sums[0]) & 0xffffu) | (u32(sums[1]) << 16u));
}`,
);

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
  readonly tile: Kernel;
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

function productKernels(encoding: Encoding, x: "f32" | "vec4f"): ProductKernels {
  return isFloat(encoding)
    ? {
        matvec: VECTOR_TOKENS.map((n) => floatMatvec(encoding, x, n)),
        tile: floatTile(encoding, x),
        serial: floatMatvec(encoding, x, 1, true),
      }
    : {
        matvec: VECTOR_TOKENS.map((n) => blockMatvec(encoding, n)),
        tile: blockTile(encoding),
        serial: blockMatvec(encoding, 1, true),
      };
}

const made = new Map<Encoding, EncodingKernels>();

/** Made once for each encoding: programs are found by the kernel's identity. */
export function kernelsOf(encoding: Encoding): EncodingKernels {
  let kernels = made.get(encoding);
  if (kernels === undefined) {
    const wide = productKernels(encoding, "vec4f");
    const narrow = isFloat(encoding) ? productKernels(encoding, "f32") : wide;
    kernels = { embed: lookup(encoding, false), addRows: lookup(encoding, true), wide, narrow };
    made.set(encoding, kernels);
  }
  return kernels;
}
