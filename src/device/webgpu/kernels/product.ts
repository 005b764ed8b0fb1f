// Products of rows with weights. One order of every sum, whatever kernel runs: a row of the weight is cut into 16 chains, chain c takes the
// units c, c + 16, ... (encodings.ts) one after the other with explicit fma; the first eight chains are added from the first to the last, the
// others too, and then these two sums. The matvec gives each chain a thread; the tile has eight groups of threads, which take the first eight
// chains and then the others. So their bits are the same, and a row's never depend on its neighbours.
//
// Rows that meet a block encoding are rounded to 8 bits, a factor for each 32 of them; dots of a unit are then exact integers.

import { BLOCK_CODE, type BlockEncoding, type FloatEncoding, floatUnitAt } from "./encodings.js";

export const CHAINS = 16;
/** Chains that a tile sums at the same time. */
export const SIDE = 8;

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

export const times = (count: number, line: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => line(i)).join("\n");

/** How a unit is read and added: two vectors of the weight and two of x, with factors where they are codes. */
interface UnitForm {
  /** Types of a unit's factors, of the weight and of x; null: there are none. */
  readonly factors: { readonly weight: string; readonly x: string } | null;
  /** WGSL expressions: the vectors and the factors of unit u of a row of the weight, and of x. */
  readonly weight: (row: string, u: string) => readonly [string, string, string];
  readonly x: (row: string, u: string) => readonly [string, string, string];
  /** WGSL statements that x alone gives, once for all outputs, and that add to `acc`; names end in what is given. */
  readonly prepare: (x: string) => string;
  readonly add: (acc: string, w: string, x: string) => string;
}

/** What a product reads and adds. */
export interface Product extends UnitForm {
  readonly name: string;
  readonly operands: string;
  readonly params: string;
  /** WGSL: put(t, row, total), and functions that the following use. */
  readonly code: string;
  /** Type of the vectors. */
  readonly vector: "vec4f" | "vec4u";
  /** Where what is read is kept for many outputs: it is made ready once. */
  readonly tile: UnitForm;
}

/** WGSL: a unit's vectors and factors as a<name>, b<name>, f<name>. */
export function declare(name: string, [a, b, f]: readonly [string, string, string], { factors }: UnitForm): string {
  return `let a${name} = ${a}; let b${name} = ${b};${factors === null ? "" : ` let f${name} = ${f};`}`;
}

/** Products with numbers: units of 8. `x`: how it is bound. */
export function floatProduct(encoding: FloatEncoding, x: "f32" | "vec4f", output = OUTPUT, more = ""): Product {
  const form: UnitForm = {
    factors: null,
    weight: (row, u) => floatUnitAt(encoding, `${row} * p.units + ${u}`),
    x: (row, u) => [`x4(${row}, 8u * ${u})`, `x4(${row}, 8u * ${u} + 4u)`, ""],
    prepare: () => "",
    add: (acc, w, x_) =>
      ["a", "b"]
        .map((v) => ["x", "y", "z", "w"].map((c) => `${acc} = fma(${v}${w}.${c}, ${v}${x_}.${c}, ${acc});`).join(" "))
        .join(" "),
  };
  return {
    ...form,
    name: `${encoding}-${x}`,
    operands: `out:rw:f32 x:r:${x} w:r:vec4u bias:r:f32`,
    params: FLOAT_PARAMS,
    code: `${X4[x]}${output}${more}`,
    vector: "vec4f",
    tile: form,
  };
}

/** WGSL: the factor of a unit of x, and the sum of its codes. */
const READY = `
fn readyOf(m: vec2u) -> vec2f {
  let sums = bitcast<i32>(m.y); return vec2f(bitcast<f32>(m.x), f32(extractBits(sums, 0u, 16u) + extractBits(sums, 16u, 16u)));
}
`;

/** Products with codes: units of 32. */
export function blockProduct(encoding: BlockEncoding, output = OUTPUT): Product {
  const { code, add, signed, addSigned } = BLOCK_CODE[encoding];
  const dots = (v: string, w: string, x: string): string =>
    ["x", "y", "z", "w"].map((c) => `dot4I8Packed(${v}${w}.${c}, ${v}${x}.${c})`).join(" + ");
  const adds =
    (statement: string) =>
    (acc: string, w: string, x: string): string =>
      `{ let i0 = ${dots("a", w, x)}; let i1 = ${dots("b", w, x)}; let f = f${w}; ${statement.replaceAll("acc", acc)} }`;
  const codes = (row: string, u: string, part: number): string => `codesOf(${row}, ${u}, ${part}u)`;
  const xAt = (row: string, u: string): string => `((${row}) * p.rowUnits + ${u})`;
  return {
    name: encoding,
    operands: "out:rw:f32 x:r:vec4u xm:r:vec2u w:r:vec4u s:r:u32 bias:r:f32",
    params: BLOCK_PARAMS,
    code: `${code}${signed}${READY}${output}`,
    vector: "vec4u",
    factors: { weight: "vec2f", x: "vec2u" },
    weight: (row, u) => [codes(row, u, 0), codes(row, u, 1), `factorsOf(${row}, ${u})`],
    x: (row, u) => [`$x[2u * ${xAt(row, u)}]`, `$x[2u * ${xAt(row, u)} + 1u]`, `$xm[${xAt(row, u)}]`],
    prepare: (x) =>
      `let sx = bitcast<f32>(f${x}.x); let s0 = extractBits(bitcast<i32>(f${x}.y), 0u, 16u); let s1 = extractBits(bitcast<i32>(f${x}.y), 16u, 16u);`,
    add: adds(add),
    tile: {
      factors: { weight: "vec2f", x: "vec2f" },
      weight: (row, u) => [`signedOf(${codes(row, u, 0)})`, `signedOf(${codes(row, u, 1)})`, `factorsOf(${row}, ${u})`],
      x: (row, u) => [`$x[2u * ${xAt(row, u)}]`, `$x[2u * ${xAt(row, u)} + 1u]`, `readyOf($xm[${xAt(row, u)}])`],
      prepare: (x) => `let sx = f${x}.x; let sum = f${x}.y;`,
      add: adds(addSigned),
    },
  };
}
