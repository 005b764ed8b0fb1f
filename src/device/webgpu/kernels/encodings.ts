// How weights lie on the device and how WGSL reads them. A row is cut into units: 8 numbers of a float encoding, 32 of a block encoding. A
// block encoding gives the codes of a unit as eight words of four signed bytes, and two factors.
//
//   f32, f16, bf16   [row][unit] numbers in 16-byte words, rows padded to whole units with zeros
//   q4_0, q8_0       [row][unit] codes, then [row][unit] factors as f16; rows of factors are whole words
//   q4_k             [row][block of 256] as in GGUF: 144 bytes
//   q6_k             [row][block of 256] 224 bytes: those of GGUF in its order, the factor as f32 in the last word

export type FloatEncoding = "f32" | "f16" | "bf16";
export type BlockEncoding = "q4_0" | "q8_0" | "q4_k" | "q6_k";
export type Encoding = FloatEncoding | BlockEncoding;

export const FLOAT_UNIT = 8;
export const BLOCK_UNIT = 32;

export function isFloat(encoding: Encoding): encoding is FloatEncoding {
  return encoding === "f32" || encoding === "f16" || encoding === "bf16";
}

/** 16-byte words of a float unit. */
const UNIT_WORDS: Readonly<Record<FloatEncoding, number>> = { f32: 2, f16: 1, bf16: 1 };

/** Bytes of a row. */
export function rowBytes(encoding: Encoding, cols: number): number {
  if (isFloat(encoding)) return Math.ceil(cols / FLOAT_UNIT) * 16 * UNIT_WORDS[encoding];
  const units = cols / BLOCK_UNIT;
  switch (encoding) {
    case "q4_0":
      return 16 * units + 4 * Math.ceil(units / 2);
    case "q8_0":
      return 32 * units + 4 * Math.ceil(units / 2);
    case "q4_k":
      return (units / 8) * 144;
    case "q6_k":
      return (units / 8) * 224;
  }
}

const UNPACK: Readonly<Record<FloatEncoding, readonly [string, string]>> = {
  f32: ["bitcast<vec4f>($w[AT * 2u])", "bitcast<vec4f>($w[AT * 2u + 1u])"],
  f16: [
    "vec4f(unpack2x16float($w[AT].x), unpack2x16float($w[AT].y))",
    "vec4f(unpack2x16float($w[AT].z), unpack2x16float($w[AT].w))",
  ],
  bf16: [
    "bitcast<vec4f>(vec4u($w[AT].x << 16u, $w[AT].x & 0xffff0000u, $w[AT].y << 16u, $w[AT].y & 0xffff0000u))",
    "bitcast<vec4f>(vec4u($w[AT].z << 16u, $w[AT].z & 0xffff0000u, $w[AT].w << 16u, $w[AT].w & 0xffff0000u))",
  ],
};

/** WGSL: the first and the last four of the 8 numbers of unit `at` of the matrix. Operand: w of vec4u. */
export function floatUnitAt(encoding: FloatEncoding, at: string): readonly [string, string, string] {
  const [first, last] = UNPACK[encoding];
  return [first.replaceAll("AT", `(${at})`), last.replaceAll("AT", `(${at})`), ""];
}

const HALF_FACTOR = `fn factorOf(row: u32, u: u32) -> f32 {
  let pair = $s[p.factorsAt + row * ((p.units + 1u) / 2u) + u / 2u];
  return unpack2x16float(pair >> (16u * (u & 1u))).x;
}`;

interface BlockCode {
  /** fn codesOf(row, u, part) -> vec4u: 16 codes, part 0 or 1; fn factorsOf(row, u) -> vec2f. Operands: w of vec4u, s of u32 (the same). */
  readonly code: string;
  /** Statement: adds to `acc` what a unit gives, of dots i0 and i1 (i32), factors f and those of x: sx (f32), s0, s1 (i32, sums of x's codes). */
  readonly add: string;
  /** For those that meet many rows of x, and are made ready once. fn signedOf(codes) -> vec4u: with what `add` subtracts taken off. */
  readonly signed: string;
  /** Statement: the same as `add`, of dots of such codes; sum (f32) is s0 + s1. */
  readonly addSigned: string;
}

const SAME = "fn signedOf(codes: vec4u) -> vec4u { return codes; }";

export const BLOCK_CODE: Readonly<Record<BlockEncoding, BlockCode>> = {
  q4_0: {
    code: `${HALF_FACTOR}
fn codesOf(row: u32, u: u32, part: u32) -> vec4u { return ($w[row * p.units + u] >> vec4u(4u * part)) & vec4u(0x0f0f0f0fu); }
fn factorsOf(row: u32, u: u32) -> vec2f { return vec2f(factorOf(row, u), 0.0); }`,
    add: "acc = fma(f.x * sx, f32(i0 + i1 - 8 * (s0 + s1)), acc);",
    signed:
      "fn signedOf(codes: vec4u) -> vec4u { let v = codes ^ vec4u(0x08080808u); return v | ((v & vec4u(0x08080808u)) * vec4u(30u)); }",
    addSigned: "acc = fma(f.x * sx, f32(i0 + i1), acc);",
  },
  q8_0: {
    code: `${HALF_FACTOR}
fn codesOf(row: u32, u: u32, part: u32) -> vec4u { return $w[(row * p.units + u) * 2u + part]; }
fn factorsOf(row: u32, u: u32) -> vec2f { return vec2f(factorOf(row, u), 0.0); }`,
    add: "acc = fma(f.x * sx, f32(i0 + i1), acc);",
    signed: SAME,
    addSigned: "acc = fma(f.x * sx, f32(i0 + i1), acc);",
  },
  q4_k: {
    // Header: d and dmin as f16, then 6-bit factors and minima of the eight units in 12 bytes.
    code: `
fn codesOf(row: u32, u: u32, part: u32) -> vec4u {
  let at = (row * (p.units / 8u) + u / 8u) * 9u + 1u + (u % 8u) / 2u * 2u + part;
  return ($w[at] >> vec4u(4u * (u & 1u))) & vec4u(0x0f0f0f0fu);
}
fn byteOf(word: u32, i: u32) -> u32 { return (word >> (8u * i)) & 255u; }
fn factorsOf(row: u32, u: u32) -> vec2f {
  let h = $w[(row * (p.units / 8u) + u / 8u) * 9u]; let d = unpack2x16float(h.x);
  let j = u % 8u; let i = j % 4u;
  let a = byteOf(h.y, i); let b = byteOf(h.z, i); let c = byteOf(h.w, i);
  let sc = select((c & 15u) | ((a >> 6u) << 4u), a & 63u, j < 4u);
  let m = select((c >> 4u) | ((b >> 6u) << 4u), b & 63u, j < 4u);
  return vec2f(d.x * f32(sc), d.y * f32(m));
}`,
    add: "acc = fma(f.x * sx, f32(i0 + i1), acc); acc = fma(-(f.y * sx), f32(s0 + s1), acc);",
    signed: SAME,
    addSigned: "acc = fma(f.x * sx, f32(i0 + i1), acc); acc = fma(-(f.y * sx), sum, acc);",
  },
  q6_k: {
    // 128 bytes of low nibbles, 64 of upper pairs, 16 factors.
    code: `
fn codesOf(row: u32, u: u32, part: u32) -> vec4u {
  let at = (row * (p.units / 8u) + u / 8u) * 14u; let j = u % 8u; let half = j / 4u; let k = j % 4u;
  let low = ($w[at + half * 4u + (k & 1u) * 2u + part] >> vec4u(4u * (k / 2u))) & vec4u(0x0f0f0f0fu);
  let high = ($w[at + 8u + half * 2u + part] >> vec4u(2u * k)) & vec4u(0x03030303u);
  return low | (high << vec4u(4u));
}
fn factorsOf(row: u32, u: u32) -> vec2f {
  let at = (row * (p.units / 8u) + u / 8u) * 14u; let d = bitcast<f32>($w[at + 13u].x);
  let j = u % 8u; let word = $w[at + 12u][j / 2u] >> (16u * (j & 1u));
  return d * vec2f(f32(extractBits(bitcast<i32>(word), 0u, 8u)), f32(extractBits(bitcast<i32>(word), 8u, 8u)));
}`,
    add: "acc = fma(f.x * sx, f32(i0 - 32 * s0), acc); acc = fma(f.y * sx, f32(i1 - 32 * s1), acc);",
    signed:
      "fn signedOf(codes: vec4u) -> vec4u { let v = codes ^ vec4u(0x20202020u); return v | ((v & vec4u(0x20202020u)) * vec4u(6u)); }",
    addSigned: "acc = fma(f.x * sx, f32(i0), acc); acc = fma(f.y * sx, f32(i1), acc);",
  },
};

/** WGSL: numberAt(row, c), one number of the matrix; fields of p: units, factorsAt. */
export function numbersOf(encoding: Encoding): string {
  if (isFloat(encoding)) {
    const [first, last] = floatUnitAt(encoding, "row * p.units + c / 8u");
    return `fn numberAt(row: u32, c: u32) -> f32 { return select(${first}, ${last}, (c & 4u) != 0u)[c % 4u]; }`;
  }
  const value: Readonly<Record<BlockEncoding, string>> = {
    q4_0: "f.x * f32(code - 8)",
    q8_0: "f.x * f32(code)",
    q4_k: "fma(f.x, f32(code), -f.y)",
    q6_k: "select(f.x, f.y, part == 1u) * f32(code - 32)",
  };
  return `${BLOCK_CODE[encoding].code}
fn numberAt(row: u32, c: u32) -> f32 {
  let u = c / 32u; let part = (c % 32u) / 16u; let f = factorsOf(row, u);
  let codes = codesOf(row, u, part); let i = c % 16u;
  let code = extractBits(bitcast<i32>(codes[i / 4u]), 8u * (i % 4u), 8u);
  return ${value[encoding]};
}`;
}
