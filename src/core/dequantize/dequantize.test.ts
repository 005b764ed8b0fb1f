// Every decoder against a second description of its format, written another way: where the bits of element i lie. And
// against digests of what an unrelated implementation (the gguf Python package) decodes from the same bytes.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { BLOCK_OF, type TensorDtype } from "../tensor.js";
import { dequantize, toFloat32 } from "./dequantize.js";
import { quantizeQ4, quantizeQ8 } from "./quantize.js";
import { bf16ToF32, F8_E4M3_VALUES, F8_E5M2_VALUES, f16ToF32, f32ToBf16, f32ToE4m3, f32ToF16 } from "./small-floats.js";

/** Repeatable bytes: xorshift32. */
function randomBytes(count: number, seed: number): Uint8Array {
  let s = seed;
  return Uint8Array.from({ length: count }, () => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return s & 255;
  });
}

/** Reads a block as one long little-endian number. */
class Bits {
  readonly block: bigint;
  constructor(bytes: Uint8Array) {
    this.block = bytes.reduceRight((value, byte) => (value << 8n) | BigInt(byte), 0n);
  }
  /** Unsigned field of n bits at byte `at` plus `bit`. */
  u(at: number, bit: number, n: number): number {
    return Number((this.block >> BigInt(at * 8 + bit)) & ((1n << BigInt(n)) - 1n));
  }
  f16(at: number): number {
    const exponent = this.u(at, 10, 5);
    const fraction = this.u(at, 0, 10) / 1024;
    const magnitude =
      exponent === 31
        ? fraction > 0
          ? NaN
          : Infinity
        : exponent > 0
          ? (1 + fraction) * 2 ** (exponent - 15)
          : fraction * 2 ** -14;
    return this.u(at, 15, 1) === 1 ? -magnitude : magnitude;
  }
}

const nibble = (b: Bits, at: number, i: number) => b.u(at + (i % 16), i < 16 ? 0 : 4, 4);
const levels = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const iq2Points = "0 2 5 8 10 17 20 32 34 40 42 65 68 80 88 97".split(" ").map(Number); // the first 16 of the 256
const sixBits = (b: Bits, at: number, kind: 0 | 1, g: number) =>
  g < 4 ? b.u(at + kind * 4 + g, 0, 6) : b.u(at + 8 + g - 4, kind * 4, 4) + 16 * b.u(at + kind * 4 + g - 4, 6, 2);

/** Value of element i of a block. */
const ELEMENT: Partial<Record<TensorDtype, (b: Bits, i: number) => number>> = {
  f16: (b) => b.f16(0),
  q8_0: (b, i) => b.f16(0) * (((b.u(2 + i, 0, 8) + 128) % 256) - 128),
  q4_0: (b, i) => b.f16(0) * (nibble(b, 2, i) - 8),
  q4_1: (b, i) => b.f16(0) * nibble(b, 4, i) + b.f16(2),
  q5_0: (b, i) => b.f16(0) * (nibble(b, 6, i) + 16 * b.u(2, i, 1) - 16),
  q5_1: (b, i) => b.f16(0) * (nibble(b, 8, i) + 16 * b.u(4, i, 1)) + b.f16(2),
  q2_k: (b, i) => {
    const g = Math.floor(i / 16);
    const q = b.u(16 + 32 * Math.floor(i / 128) + (i % 32), 2 * (Math.floor(i / 32) % 4), 2);
    return b.f16(80) * b.u(g, 0, 4) * q - b.f16(82) * b.u(g, 4, 4);
  },
  q3_k: (b, i) => {
    const g = Math.floor(i / 16);
    const scale = b.u(96 + (g % 8), g < 8 ? 0 : 4, 4) + 16 * b.u(104 + (g % 4), 2 * Math.floor(g / 4), 2);
    const low = b.u(32 + 32 * Math.floor(i / 128) + (i % 32), 2 * (Math.floor(i / 32) % 4), 2);
    return b.f16(108) * (scale - 32) * (low - (b.u(i % 32, Math.floor(i / 32), 1) === 1 ? 0 : 4));
  },
  q4_k: (b, i) => {
    const g = Math.floor(i / 32);
    const q = b.u(16 + 32 * Math.floor(i / 64) + (i % 32), i % 64 < 32 ? 0 : 4, 4);
    return b.f16(0) * sixBits(b, 4, 0, g) * q - b.f16(2) * sixBits(b, 4, 1, g);
  },
  q5_k: (b, i) => {
    const g = Math.floor(i / 32);
    const q = b.u(48 + 32 * Math.floor(i / 64) + (i % 32), i % 64 < 32 ? 0 : 4, 4) + 16 * b.u(16 + (i % 32), g, 1);
    return b.f16(0) * sixBits(b, 4, 0, g) * q - b.f16(2) * sixBits(b, 4, 1, g);
  },
  q6_k: (b, i) => {
    const half = Math.floor(i / 128);
    const low = b.u(64 * half + (i % 64), i % 128 < 64 ? 0 : 4, 4);
    const high = b.u(128 + 32 * half + (i % 32), 2 * (Math.floor(i / 32) % 4), 2);
    const scale = ((b.u(192 + Math.floor(i / 16), 0, 8) + 128) % 256) - 128;
    return b.f16(208) * scale * (low + 16 * high - 32);
  },
  iq4_nl: (b, i) => b.f16(0) * levels[nibble(b, 2, i)]!,
  iq4_xs: (b, i) => {
    const g = Math.floor(i / 32);
    const scale = b.u(4, 4 * g, 4) + 16 * b.u(2, 2 * g, 2) - 32;
    return b.f16(0) * scale * levels[nibble(b, 8 + 16 * g, i % 32)]!;
  },
  mxfp4: (b, i) => {
    const code = nibble(b, 1, i);
    const [exponent, fraction] = [(code >> 1) & 3, (code & 1) / 2];
    const magnitude = exponent === 0 ? fraction : (1 + fraction) * 2 ** (exponent - 1);
    return (code < 8 ? 1 : -1) * magnitude * 2 ** (b.u(0, 0, 8) - 127);
  },
  iq2_xxs: (b, i) => {
    const at = 2 + 8 * Math.floor(i / 32);
    const point = Math.floor((i % 32) / 8);
    const magnitude = [8, 25, 43][Math.floor(iq2Points[b.u(at + point, 0, 8)]! / 4 ** (i % 8)) % 4]!;
    let minuses = 0;
    for (let k = 0; k < 7; k++) minuses += b.u(at + 4, 7 * point + k, 1);
    const negative = i % 8 < 7 ? b.u(at + 4, 7 * point + (i % 8), 1) : minuses % 2;
    return b.f16(0) * (b.u(at + 4, 28, 4) + 0.5) * 0.25 * magnitude * (negative ? -1 : 1);
  },
};

for (const [dtype, element] of Object.entries(ELEMENT) as [TensorDtype, (b: Bits, i: number) => number][]) {
  test(`${dtype}: each element of random blocks equals the formula on its bits`, () => {
    const [elements, bytesPerBlock] = BLOCK_OF[dtype];
    const numBlocks = 40;
    const bytes = randomBytes(numBlocks * bytesPerBlock, 7);
    // The test spells out 16 of the 256 grid points of iq2_xxs; the digest below covers them all.
    if (dtype === "iq2_xxs")
      for (let i = 0; i < bytes.length; i++) if (i % 66 >= 2 && (i % 66) % 8 < 6) bytes[i]! &= 15;
    const out = new Float32Array(numBlocks * elements);
    dequantize(dtype, bytes, out, out.length);
    for (let block = 0; block < numBlocks; block++) {
      const bits = new Bits(bytes.subarray(block * bytesPerBlock, (block + 1) * bytesPerBlock));
      for (let i = 0; i < elements; i++) {
        assert.equal(out[block * elements + i], Math.fround(element(bits, i)), `block ${block} element ${i}`);
      }
    }
  });
}

// sha256 of the f32 values that gguf 0.19 (Python) decodes from randomBytes(64 blocks, seed 1); NaN and -0 made canonical.
const DIGESTS: Partial<Record<TensorDtype, string>> = {
  q8_0: "b6e630cc5626f0d56fe2b181c997bce0e177ca45e84c2a8aed496ef9ba891866",
  q4_0: "94a5343f1966c24c376928283f315d67285dc81c0cf9dc6d8d7381ad0176d0e3",
  q4_1: "060bc3d5675738717b61b8203c6420a13b18b89b0251009ede9eab547308ef25",
  q5_0: "7400602c0b089566d505e8ee29399e4cda9f4cd12a1a9291b5ab460cc3420184",
  q5_1: "ff6041750ab2d5d5b36639cf1b53ed46840cb0ea746989566b276564838ee381",
  q2_k: "f676c4878ec693e9066d1bfa7abad7d82ff3405db892e041dc334446e2eff23c",
  q3_k: "c473ce1082186c62a90a1d5792c5ee5474d80fda17a68f68efb63b980da1071b",
  q4_k: "407720963a4e73d8a3729cd8889f63f7475ffb47f2a64f2dbbfbf0c887407fa9",
  q5_k: "d6fac2bdae6a77894238e86ccf0fbba45f0dcd857158b5650ae4f3f2ced61dc3",
  q6_k: "52aa9685932aa3302c166057a26f28870a9be8375e5477a90cd32a920ddd628b",
  iq4_nl: "eb605fcc220aeea11ed427938a1b9c1b30adbdbb1a8899dbce2216b59f491d45",
  iq4_xs: "82dfe2c48d7d6522186b3cec2f6fb3000610962d66a61f55bfc423c05695d86b",
  iq2_xxs: "b87465a463221536fd4e95c074902b7a380bd808a137aa6f53e638d403c828d9",
  mxfp4: "13d783c188ebf3a3c4e028a9cc67009139e6482566f68429a2766a8a3d6c31f3",
};

// The same of what ggml's own decoders give.
Object.assign(DIGESTS, {
  iq1_s: "9284d671ecb1051084b69e4907b988f1164b5d94a364c5a10164e5405c47caa5",
  iq1_m: "866796a7710826deab766e9f24265e5d2d15956a4adbe90f86f9e6a757d08c37",
  iq2_xs: "8d17786ab64260cbebe0161983171cafbeb0e8b1885a2a173443cd14b1bf9e75",
  iq2_s: "065a2975b94caf2ca7e65744c8bb2a2bca6b9ea678ff2375bfb432f0b40501c8",
  iq3_xxs: "2ad02c4482adc1aa65bcff3357b53278c53b40aa08c138102f23f4544878e8c0",
  iq3_s: "00a66230bb6be2bc4725c2e63392b53261a248e1810cb7afe5a0ca22520a95ce",
  tq1_0: "813832add48fee39629d225f4decf5b1c87e64551bb0a0bed65967a86963bf1b",
  tq2_0: "7833543359f570ba16e27cae21963744e11db0535ca6d7e04f506a6919691f16",
  q1_0: "f411a61d1934d43c50e05ee2c1811e7260fe53fcc621481794ceac7e9dc5fc48",
  q2_0: "d6050a3b2691511efb40df35e3861137513f25c933418e0517900e6bf6bc6e42",
  nvfp4: "7b7fa699cdf2fc8b901e45be346c3fe37528c9eb28d16c7c33abe9e27ab09289",
} satisfies Partial<Record<TensorDtype, string>>);

for (const [dtype, digest] of Object.entries(DIGESTS) as [TensorDtype, string][]) {
  test(`${dtype}: the values another implementation decodes`, () => {
    const [elements, bytesPerBlock] = BLOCK_OF[dtype];
    const out = new Float32Array(64 * elements);
    dequantize(dtype, randomBytes(64 * bytesPerBlock, 1), out, out.length);
    for (let i = 0; i < out.length; i++) out[i] = Number.isNaN(out[i]!) ? NaN : out[i]! + 0;
    assert.equal(createHash("sha256").update(new Uint8Array(out.buffer)).digest("hex"), digest);
  });
}

test("f16: every code goes to f32 and back; rounding is to nearest, ties to even", () => {
  for (let code = 0; code < 65536; code++) {
    const value = f16ToF32(code);
    if (Number.isNaN(value)) assert.ok(Number.isNaN(f16ToF32(f32ToF16(value))));
    else assert.equal(f32ToF16(value), code);
  }
  assert.equal(f32ToF16(1 + 2 ** -11), 0x3c00); // halfway, down to even
  assert.equal(f32ToF16(1 + 3 * 2 ** -11), 0x3c02); // halfway, up to even
  assert.equal(f32ToF16(1 + 2 ** -11 + 2 ** -20), 0x3c01);
  assert.equal(f32ToF16(65519), 0x7bff);
  assert.equal(f32ToF16(65520), 0x7c00);
  assert.equal(f32ToF16(2 ** -25), 0); // half of the smallest, down to even
  assert.equal(f32ToF16(3 * 2 ** -25), 2);
  assert.equal(f32ToF16(-(2 ** -14) + 2 ** -26), 0x8400); // rounds up into the normals
});

test("bf16: every code goes to f32 and back", () => {
  for (let code = 0; code < 65536; code++) {
    const value = bf16ToF32(code);
    if (Number.isNaN(value)) assert.ok(Number.isNaN(bf16ToF32(f32ToBf16(value))));
    else assert.equal(f32ToBf16(value), code);
  }
  assert.equal(f32ToBf16(1 + 2 ** -8), 0x3f80);
  assert.equal(f32ToBf16(1 + 3 * 2 ** -8), 0x3f82);
});

test("f8: known values of both formats", () => {
  assert.deepEqual(
    [0, 1, 8, 0x38, 0x7e, 0x7f, 0xb9].map((code) => F8_E4M3_VALUES[code]),
    [0, 2 ** -9, 2 ** -6, 1, 448, NaN, -1.125],
  );
  assert.deepEqual(
    [0, 1, 4, 0x3c, 0x7b, 0x7c, 0x7d, 0xbd].map((code) => F8_E5M2_VALUES[code]),
    [0, 2 ** -16, 2 ** -14, 1, 57344, Infinity, NaN, -1.25],
  );
  const out = new Float32Array(4);
  dequantize("f8_e4m3", Uint8Array.of(0x38, 0x7e), out, 2);
  dequantize("f8_e5m2", Uint8Array.of(0x3c, 0x7b), out.subarray(2), 2);
  assert.deepEqual([...out], [1, 448, 1, 57344]);
  const block = new Uint8Array(68).fill(0xb9, 4);
  new DataView(block.buffer).setFloat32(0, 1 + 2 ** -7, true);
  const values = new Float32Array(64);
  dequantize("f8_e4m3_64", block, values, 64);
  assert.deepEqual([...values], new Array(64).fill(-1.1328125)); // -1.125 * (1 + 2^-7) to 8 bits
});

test("f8 e4m3: every code goes to f32 and back; rounding is to nearest, ties to even, and ends at 448", () => {
  for (let code = 0; code < 256; code++) {
    if ((code & 0x7f) !== 0x7f) assert.equal(f32ToE4m3(F8_E4M3_VALUES[code]!), code);
  }
  for (let code = 0; code < 0x7e; code++) {
    const [low, high] = [F8_E4M3_VALUES[code]!, F8_E4M3_VALUES[code + 1]!];
    const middle = (low + high) / 2;
    const little = (high - low) / 1024;
    const rounded = [middle - little, middle, middle + little].map(f32ToE4m3);
    assert.deepEqual(rounded, [code, code + (code & 1), code + 1], `${middle}`);
    assert.deepEqual([low + little, -middle - little].map(f32ToE4m3), [code, (code + 1) | 0x80], `${low}`);
  }
  assert.deepEqual([448, 449, 1e9, Infinity, NaN, -1e9].map(f32ToE4m3), [0x7e, 0x7e, 0x7e, 0x7e, 0x7e, 0xfe]);
  assert.deepEqual([65520, 65536, Infinity, -70000].map(f32ToF16), [0x7c00, 0x7c00, 0x7c00, 0xfc00]);
});

test("plain types: f32, bf16 and integers, from any alignment", () => {
  const out = new Float32Array(2);
  const at1 = (bytes: ArrayBuffer) => {
    const shifted = new Uint8Array(bytes.byteLength + 1);
    shifted.set(new Uint8Array(bytes), 1);
    return shifted.subarray(1);
  };
  dequantize("f32", at1(Float32Array.of(1.5, -2).buffer), out, 2);
  assert.deepEqual([...out], [1.5, -2]);
  dequantize("bf16", at1(Uint16Array.of(0x3f80, 0xc000).buffer), out, 2);
  assert.deepEqual([...out], [1, -2]);
  dequantize("i8", at1(Int8Array.of(-128, 127).buffer), out, 2);
  assert.deepEqual([...out], [-128, 127]);
  dequantize("u8", at1(Uint8Array.of(255, 1).buffer), out, 2);
  assert.deepEqual([...out], [255, 1]);
  dequantize("i32", at1(Int32Array.of(-70000, 5).buffer), out, 2);
  assert.deepEqual([...out], [-70000, 5]);
  dequantize("i64", at1(BigInt64Array.of(-3n, 2n ** 40n).buffer), out, 2);
  assert.deepEqual([...out], [-3, 2 ** 40]);
});

test("blocks have the sizes of their formats; each is decoded by itself, and nothing is written behind the last", () => {
  const sizes =
    "f32 1 4, f16 1 2, bf16 1 2, f8_e4m3 1 1, f8_e5m2 1 1, f8_e4m3_64 64 68, i8 1 1, u8 1 1, i32 1 4, i64 1 8, q8_0 32 34, " +
    "q4_0 32 18, q4_1 32 20, q5_0 32 22, q5_1 32 24, q2_k 256 84, q3_k 256 110, q4_k 256 144, q5_k 256 176, q6_k 256 210, " +
    "iq4_nl 32 18, iq4_xs 256 136, iq1_s 256 50, iq1_m 256 56, iq2_xxs 256 66, iq2_xs 256 74, iq2_s 256 82, " +
    "iq3_xxs 256 98, iq3_s 256 110, tq1_0 256 54, tq2_0 256 66, q1_0 128 18, q2_0 64 18, mxfp4 32 17, nvfp4 64 36";
  const found = Object.entries(BLOCK_OF).map(([dtype, [elements, bytes]]) => `${dtype} ${elements} ${bytes}`);
  assert.equal(found.join(", "), sizes);
  for (const [dtype, [elements, size]] of Object.entries(BLOCK_OF) as [TensorDtype, readonly [number, number]][]) {
    const bytes = randomBytes(5 * size, 31);
    const out = new Float32Array(3 * elements + 300).fill(777);
    dequantize(dtype, bytes, out, 3 * elements);
    const one = new Float32Array(elements);
    for (let block = 0; block < 3; block++) {
      dequantize(dtype, bytes.subarray(block * size, (block + 1) * size), one, elements);
      assert.deepEqual(out.subarray(block * elements, (block + 1) * elements), one, `${dtype} ${block}`);
    }
    assert.ok(
      out.subarray(3 * elements).every((value) => value === 777),
      dtype,
    );
    const short = bytes.subarray(0, 3 * size - 1);
    assert.throws(() => dequantize(dtype, short, out, 3 * elements), /do not fit/, dtype);
  }
});

test("sizes that do not fit are refused", () => {
  const out = new Float32Array(64);
  assert.throws(() => dequantize("q4_0", new Uint8Array(18), out, 16), /whole blocks of 32/);
  assert.throws(() => dequantize("q4_0", new Uint8Array(18), out, 64), /do not fit/);
  assert.throws(() => dequantize("f32", new Uint8Array(1024), out, 65), /do not fit/);
  assert.throws(() => quantizeQ8(new Float32Array(48), 1, 48), /whole blocks of 32/);
  assert.throws(() => quantizeQ4(new Float32Array(32), 2, 32), /fewer than/);
});

test("quantise and decode: within half a level, and stable when repeated", () => {
  const [rows, cols] = [5, 96];
  const values = Float32Array.from(randomBytes(rows * cols, 3), (byte, i) => (byte - 127) * 0.01 * (1 + (i >> 5)));
  values.fill(0, 0, 32);
  for (const [dtype, quantize, bound] of [
    ["q8_0", quantizeQ8, 0.51 / 127],
    ["q4_0", quantizeQ4, 1.01 / 8], // the side opposite to the largest value ends at +7: up to a whole level is cut
  ] as const) {
    const packed = quantize(values, rows, cols);
    const tensor = {
      name: "w",
      dtype,
      shape: [rows, cols],
      file: null,
      byteLength: packed.length,
      bytes: () => packed,
    };
    const decoded = toFloat32(tensor);
    for (let block = 0; block < values.length / 32; block++) {
      const max = Math.max(...values.subarray(block * 32, block * 32 + 32).map(Math.abs));
      for (let i = block * 32; i < block * 32 + 32; i++) {
        assert.ok(Math.abs(decoded[i]! - values[i]!) <= max * bound + max * 2 ** -10, `${dtype} element ${i}`);
      }
    }
    assert.deepEqual(quantize(decoded, rows, cols), packed);
  }
});

test("quantisers give the blocks of the reference quantiser", () => {
  const values = Float32Array.from(randomBytes(2048, 9), (byte, i) => Math.fround((byte - 127.3) * (0.37 + (i >> 6))));
  const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  assert.equal(digest(quantizeQ8(values, 32, 64)), "7616c2fdfdf713bbe67896134573ecaadf1c0406af7ffb48422a5e8ecb2509b1");
  assert.equal(digest(quantizeQ4(values, 32, 64)), "5372090df631e8041efdf0439d3737932c6f42bafcf4f8cb0f2d64ca9ce9dab4");
});
