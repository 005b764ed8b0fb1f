// Matmul and embed of the native device against a plain f64 computation, for every encoding, with odd sizes, and their bitwise
// invariance. Tolerances are relative to sum(|x| * |w|) of the output at hand, which bounds what rounding can do:
//   float weights    2^-23 * (cols + 8): one rounding per addition
//   integer weights  the same against int8-rounded activations, which the oracle rounds by its own code
//   bf16 on tiles    the same against activations rounded to bf16
//   codes of four bits and more on tiles   the same against weights rounded to bytes over a span, and activations to bytes, of q8_0 to 16 bits

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../../core/batch.js";
import { dequantize } from "../../core/dequantize/dequantize.js";
import { f16ToF32, f32ToF16 } from "../../core/dequantize/small-floats.js";
import { BLOCK_OF, bytesOf, type HostTensor, type TensorDtype } from "../../core/tensor.js";
import { CpuDevice, type CpuDeviceOptions } from "./cpu-device.js";
import { ensureLibrary } from "./library.js";
import { type CpuTensor, hasTiles, ISA_NAMES } from "./memory.js";

await ensureLibrary();

const FLOATS: TensorDtype[] = ["f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"];
const BLOCKS: TensorDtype[] = [
  ...(["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4"] as const),
  ...(["q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs"] as const),
  ...(["iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "tq1_0", "tq2_0", "q1_0", "q2_0"] as const),
];
/** Where a block keeps its f16 factors. */
const HALVES: Partial<Record<TensorDtype, number[]>> = {
  ...{ q8_0: [0], q4_0: [0], q4_1: [0, 2], q5_0: [0], q5_1: [0, 2], iq4_nl: [0], iq4_xs: [0] },
  ...{ iq2_xxs: [0], iq2_xs: [0], iq2_s: [0], iq3_xxs: [0], iq3_s: [0], iq1_s: [0] },
  ...{ tq1_0: [52], tq2_0: [64], q1_0: [0], q2_0: [0] },
  ...{ q2_k: [80, 82], q3_k: [108], q4_k: [0, 2], q5_k: [0, 2], q6_k: [208] },
};
const ISAS = ISA_NAMES.slice(1).filter(isSupported);

function isSupported(isa: string): boolean {
  try {
    new CpuDevice({ threads: 1, isa }).close();
    return true;
  } catch {
    return false;
  }
}

function generator(seed: number): () => number {
  let s = seed;
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) | 0;
    return (s >>> 8) / 2 ** 24;
  };
}

/** A checkpoint tensor with random values of its dtype, none of them NaN or infinite. */
function randomTensor(dtype: TensorDtype, rows: number, cols: number, seed: number): HostTensor {
  const random = generator(seed);
  const bytes = new Uint8Array(bytesOf(dtype, rows * cols)).map(() => random() * 256);
  const view = new DataView(bytes.buffer);
  const [, blockBytes] = BLOCK_OF[dtype];
  for (let at = 0; at < bytes.length; at += blockBytes) {
    const value = random() * 2 - 1;
    if (dtype === "f32") view.setFloat32(at, value, true);
    else if (dtype === "f16") view.setUint16(at, f32ToF16(value), true);
    else if (dtype === "bf16") view.setUint16(at, 0x3f00 + Math.floor(random() * 256) + (value < 0 ? 0x8000 : 0), true);
    else if (dtype === "f8_e4m3" || dtype === "f8_e5m2")
      bytes[at]! &= 0xbf; // magnitudes up to 2
    else if (dtype === "mxfp4") bytes[at] = 120 + Math.floor(random() * 6);
    for (const offset of HALVES[dtype] ?? []) view.setUint16(at + offset, f32ToF16(value * 0.1), true);
  }
  return { name: dtype, dtype, shape: [rows, cols], file: null, byteLength: bytes.length, bytes: () => bytes };
}

function randomFloats(count: number, seed: number): Float32Array {
  const random = generator(seed);
  return Float32Array.from({ length: count }, () => (random() + random() + random()) * 2 - 3);
}

function halvesToEven(value: number): number {
  const nearest = Math.round(value);
  return Math.abs(value % 1) === 0.5 && nearest % 2 !== 0 ? nearest - 1 : nearest;
}

/** Activations as integer weights meet them: blocks of so many columns rounded with one scale to integers of up to `most`. */
function roundRows(x: Float32Array, n: number, cols: number, columns: number, most = 127): Float64Array {
  const out = new Float64Array(x.length);
  for (let i = 0; i < n; i++) {
    for (let from = 0; from < cols; from += columns) {
      const block = x.subarray(i * cols + from, i * cols + Math.min(from + columns, cols));
      const max = block.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const scale = Math.fround(max * Math.fround(1 / most));
      const inverse = Math.fround(most / max);
      block.forEach((value, k) => {
        out[i * cols + from + k] = halvesToEven(Math.fround(value * inverse)) * scale;
      });
    }
  }
  return out;
}

/** Activations as tiles meet them: to the nearest bf16, ties to even. */
function roundToBf16(x: Float32Array): Float64Array {
  const bits = new Uint32Array(x.buffer, x.byteOffset, x.length);
  return Float64Array.from(new Float32Array(bits.map((b) => (b + 0x7fff + ((b >>> 16) & 1)) & 0xffff0000).buffer));
}

function weightsOf(tensor: HostTensor): Float32Array {
  const out = new Float32Array(tensor.shape[0]! * tensor.shape[1]!);
  dequantize(tensor.dtype, tensor.bytes(), out, out.length);
  return out;
}

/** Columns over which tiles have weights as bytes with one unit. */
const SPAN = 256;

/** What 32 columns are made of, or 16 of them: weight = factor * multiplier * value + minimum. */
interface Factors {
  readonly factor: number;
  /** Undefined: the block has a factor of its own, the multiplier is made of it. */
  readonly multiplier?: number;
  readonly minimum?: number;
}

/** The bytes of a dtype: multiplier * value >> shift, the multiplier of the span's largest factor being `most` where they are made. `middle`:
 * what is taken off a code where minimums make up for it. */
interface ByteRule {
  readonly shift: number;
  readonly most?: number;
  readonly middle?: number;
  readonly largestByte?: number;
  factors(bytes: DataView, block: number, half: number): Factors;
}

const half = (view: DataView, at: number) => f16ToF32(view.getUint16(at, true));
const kScales = (blockBytes: number) => (view: DataView, block: number) => {
  const at = Math.floor(block / 8) * blockBytes;
  const g = block % 8;
  const byte = (i: number) => view.getUint8(at + 4 + i);
  const scale = g < 4 ? byte(g) & 63 : (byte(g + 4) & 15) | ((byte(g - 4) >> 6) << 4);
  const minimum = g < 4 ? byte(g + 4) & 63 : (byte(g + 4) >> 4) | ((byte(g) >> 6) << 4);
  return { factor: half(view, at), multiplier: scale, minimum: -half(view, at + 2) * minimum };
};
const RULES: Partial<Record<TensorDtype, ByteRule>> = {
  q8_0: { shift: 8, most: 254, factors: (view, b) => ({ factor: half(view, b * 34) }) },
  q4_0: { shift: 2, most: 63, factors: (view, b) => ({ factor: half(view, b * 18) }) },
  q4_1: {
    ...{ shift: 2, most: 63, middle: 8 },
    factors: (view, b) => ({ factor: half(view, b * 20), minimum: half(view, b * 20 + 2) }),
  },
  q5_0: { shift: 4, most: 127, factors: (view, b) => ({ factor: half(view, b * 22) }) },
  q5_1: {
    ...{ shift: 4, most: 127, middle: 16 },
    factors: (view, b) => ({ factor: half(view, b * 24), minimum: half(view, b * 24 + 2) }),
  },
  q4_k: { shift: 2, factors: kScales(144) },
  q5_k: { shift: 3, factors: kScales(176) },
  q6_k: {
    ...{ shift: 5, largestByte: 127 },
    factors: (view, b, h) => {
      const at = Math.floor(b / 8) * 210;
      return { factor: half(view, at + 208), multiplier: view.getInt8(at + 192 + (b % 8) * 2 + h) };
    },
  },
  iq4_nl: { shift: 7, most: 127, factors: (view, b) => ({ factor: half(view, b * 18) }) },
  iq4_xs: {
    shift: 5,
    factors: (view, b) => {
      const at = Math.floor(b / 8) * 136;
      const g = b % 8;
      const low = (view.getUint8(at + 4 + (g >> 1)) >> (4 * (g % 2))) & 15;
      const high = (view.getUint16(at + 2, true) >> (2 * g)) & 3;
      return { factor: half(view, at), multiplier: (low | (high << 4)) - 32 };
    },
  },
  mxfp4: { shift: 4, most: 128, factors: (view, b) => ({ factor: 2 ** (view.getUint8(b * 17) - 128) }) },
};

/** Weights as tiles meet them, rounded to bytes over a span, and minimums to 16 bits where they are made: see native/cpu/src/amx/span-factors.h. */
function inBytes(
  w: Float32Array,
  tensor: HostTensor,
  { shift, most, middle = 0, largestByte = 255, factors }: ByteRule,
): Float32Array {
  const bytes = tensor.bytes();
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const cols = tensor.shape[1]!;
  const of = (at: number) => factors(view, Math.floor(at / 32), Math.floor(at / 16) % 2);
  const raised = (at: number) => Math.fround(Math.fround(of(at).factor * middle) + (of(at).minimum ?? 0));
  return w.map((weight, at) => {
    const first = at - ((at % cols) % SPAN);
    const blocks = Array.from({ length: Math.min(SPAN, cols - (first % cols)) / 32 }, (_, b) => first + 32 * b);
    const { factor, multiplier, minimum = 0 } = of(at);
    const step = factor * (multiplier ?? 1);
    const value = step === 0 ? 0 : Math.round((weight - minimum) / step) - middle;
    const toByte = (by: number) => Math.min(largestByte, Math.floor((value * by) / 2 ** shift + 0.5));
    if (most === undefined) return toByte(multiplier!) * 2 ** shift * factor + minimum;
    const largest = Math.max(...blocks.map((block) => Math.abs(of(block).factor)));
    const made = largest === 0 ? 0 : halvesToEven(Math.fround(factor * Math.fround(most / largest)));
    const product = toByte(made) * ((largest * 2 ** shift) / most);
    if (middle === 0) return product;
    const largestMinimum = Math.max(...blocks.map((block) => Math.abs(raised(block))));
    return (
      product + halvesToEven(Math.fround(raised(at) * Math.fround(32767 / largestMinimum))) * (largestMinimum / 32767)
    );
  });
}

/** Runs x [n, cols] through the device. */
function run(
  options: CpuDeviceOptions,
  parts: HostTensor[],
  x: Float32Array,
  n: number,
  isMatrix = false,
): Float32Array {
  const device = new CpuDevice(options);
  const weight = device.loadWeight(parts, { isMatrix });
  const out = device.allocTensor(n, weight.rows);
  device.matmul(out, device.loadTensor(x, n, weight.cols), weight, n);
  const result = new Float32Array(n * weight.rows);
  device.read(result, out, 0, n);
  device.close();
  return result;
}

function assertClose(
  got: Float32Array,
  x: ArrayLike<number>,
  w: Float32Array,
  n: number,
  cols: number,
  what = "",
): void {
  const rows = w.length / cols;
  const tolerance = 2 ** -23 * (cols + 8);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < rows; j++) {
      let sum = 0;
      let size = 0;
      for (let k = 0; k < cols; k++) {
        const product = x[i * cols + k]! * w[j * cols + k]!;
        sum += product;
        size += Math.abs(product);
      }
      const error = Math.abs(got[i * rows + j]! - sum);
      if (!(error <= tolerance * size)) assert.fail(`${what} [${i}, ${j}] is ${got[i * rows + j]}, expected ${sum}`);
    }
  }
}

const TILE_EDGES = [...Array.from({ length: 18 }, (_, i) => i + 1), 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65];

for (const isa of ISAS) {
  test(`${isa}: float weights, odd sizes`, () => {
    for (const dtype of FLOATS) {
      for (const [rows, cols, n] of [
        ...[1, 17, 31, 32, 33, 64, 65].map((r) => [r, 77, 5]),
        [45, 1, 3],
        [40, 130, 65],
      ]) {
        const tensor = randomTensor(dtype, rows!, cols!, rows! + 1);
        const x = randomFloats(n! * cols!, cols! + n!);
        const isOnTiles = hasTiles(isa) && dtype !== "f32" && dtype !== "f16";
        const met = isOnTiles ? roundToBf16(x) : x;
        assertClose(run({ isa, threads: 2 }, [tensor], x, n!), met, weightsOf(tensor), n!, cols!);
      }
    }
  });

  test(`${isa}: integer weights, odd sizes`, () => {
    for (const dtype of BLOCKS) {
      const [block] = BLOCK_OF[dtype];
      for (const [rows, blocks, n] of [
        [1, 1, 1],
        [17, 3, 13],
        [65, 2, 2],
        [33, 1, 26],
        [33, Math.ceil(352 / block), 26], // more than a span of tiles, and not a whole number of them
      ]) {
        const cols = block * blocks!;
        const tensor = randomTensor(dtype, rows!, cols, rows! + 2);
        const x = randomFloats(n! * cols, cols + n!);
        const span = hasTiles(isa) ? RULES[dtype] : undefined;
        const what = `${dtype}, ${rows} x ${cols}, ${n} rows`;
        const most = isa === "amx" && dtype === "q8_0" ? 127 * 256 : 127;
        const rounded = roundRows(x, n!, cols, span === undefined ? 32 : SPAN, most);
        // Minimums are added apart and may cancel: they count in the size of what is summed.
        const whole = weightsOf(tensor);
        const w = span === undefined ? whole : inBytes(whole, tensor, span);
        assertClose(run({ isa, threads: 2 }, [tensor], x, n!), rounded, w, n!, cols, what);
      }
    }
  });

  test(`${isa}: a row's bits do not depend on the rows beside it, nor on the threads`, () => {
    for (const dtype of [...FLOATS.slice(0, 3), ...BLOCKS]) {
      const cols = dtype === "bf16" ? 97 : 256;
      const tensor = randomTensor(dtype, 81, cols, 7);
      const one = randomFloats(cols, 8);
      const expected = run({ isa, threads: 1 }, [tensor], one, 1);
      // Every tile height, and one row more and less than whole tiles of up to 64.
      for (const [n, threads] of [...TILE_EDGES.map((n) => [n, 1]), [65, 2], [7, 3], [1, 3]]) {
        const x = randomFloats(n! * cols, n!);
        for (const at of [0, n! >> 1, n! - 1]) x.set(one, at * cols);
        const got = run({ isa, threads: threads! }, [tensor], x, n!);
        for (const at of [0, n! >> 1, n! - 1]) {
          assert.deepEqual(got.subarray(at * 81, at * 81 + 81), expected, `${dtype}: row ${at} of ${n}`);
        }
      }
    }
  });

  test(`${isa}: a weight that is only multiplied gives the same bits`, () => {
    for (const dtype of ["q8_0", "q4_0", "bf16", "q4_k"] as const) {
      for (const cols of dtype === "q4_k" ? [512] : [32, 64, 224, 256, 320, 544, 2080]) {
        const tensor = randomTensor(dtype, 75, cols, cols);
        for (const n of [1, 2, 3, 4, 7, 16, 17, 31, 33, 70]) {
          const x = randomFloats(n * cols, n);
          assert.deepEqual(
            run({ isa, threads: 2 }, [tensor], x, n, true),
            run({ isa, threads: 1 }, [tensor], x, n),
            `${dtype} ${cols} ${n}`,
          );
        }
      }
    }
  });

  test(`${isa}: a gated product gives the bits of the product and the gate one after the other`, () => {
    const both = (dtype: TensorDtype, inner: number) => [7, 8].map((seed) => randomTensor(dtype, inner, 256, seed));
    const weights: [string, HostTensor[], boolean][] = [
      ...[...FLOATS, ...BLOCKS].map((dtype): [string, HostTensor[], boolean] => [dtype, both(dtype, 75), true]),
      ["many panels", both("q4_0", 1100), true],
      ["one matrix of whole panels", [randomTensor("q8_0", 192, 256, 9)], true],
      ["one matrix of others", [randomTensor("q8_0", 150, 256, 9)], false],
      ["two encodings", [randomTensor("q5_0", 75, 256, 1), randomTensor("q6_k", 75, 256, 2)], true],
      ["floats and integers", [randomTensor("f32", 75, 256, 1), randomTensor("q6_k", 75, 256, 2)], false],
    ];
    for (const [name, parts, canGate] of weights) {
      const device = new CpuDevice({ isa, threads: 1 + (parts[0]!.shape[0]! % 3) });
      try {
        const weight = device.loadWeight(parts, { isMatrix: true });
        const inner = weight.rows / 2;
        for (const [i, n] of [1, 2, 4, 5, 15, 33, 70].entries()) {
          const x = device.loadTensor(randomFloats(n * 256, n), n, 256);
          const [product, twice, once] = [2 * inner, inner, inner].map((cols) =>
            device.allocTensor(n, cols),
          ) as CpuTensor[];
          const activation = (["silu", "gelu_tanh", "relu2", "gelu", "sigmoid"] as const)[i % 5]!;
          const isGated = device.gatedMatmul(once!, x, weight, activation, n);
          assert.equal(isGated, canGate, name);
          if (!isGated) continue;
          device.matmul(product!, x, weight, n);
          const gate = device.createMap({ kind: "gate", activation });
          device.map(twice!, gate, product!.columns(0, inner), product!.columns(inner, 2 * inner), n);
          const [found, expected] = [once!, twice!].map((tensor) => {
            const values = new Float32Array(n * inner);
            device.read(values, tensor, 0, n);
            return values;
          });
          assert.deepEqual(found, expected, `${name}, ${n} rows, ${activation}`);
        }
      } finally {
        device.close();
      }
    }
  });

  test(`${isa}: embed gives the dequantised rows`, () => {
    for (const dtype of [...FLOATS, ...BLOCKS]) {
      const tensor = randomTensor(dtype, 37, 256, 3);
      const w = weightsOf(tensor);
      const device = new CpuDevice({ isa, threads: 2 });
      const weight = device.loadWeight([tensor]);
      const staged = device.createStagedBatch(16);
      const ids = Int32Array.of(36, 0, 17, 16, 15, 36, 1, 2, 3, 31);
      const batch = new Batch(1, ids.length, 0);
      batch.addRow(ids, 0, ids.length, new Int32Array(0), Number.POSITIVE_INFINITY);
      device.stage(staged, batch, []);
      const out = device.allocTensor(ids.length, 256);
      device.embed(out, weight, staged, 2);
      const got = new Float32Array(ids.length * 256);
      device.read(got, out, 0, ids.length);
      device.close();
      ids.forEach((id, t) => {
        for (let k = 0; k < 256; k++) {
          const expected = 2 * w[id * 256 + k]!;
          // Minimums: one rounding of the product more than the oracle's f64.
          assert.ok(Math.abs(got[t * 256 + k]! - expected) <= 1e-6 * (1 + Math.abs(expected)), `${dtype} ${id} ${k}`);
        }
      });
    }
  });
}

test("the variants with fused multiply-add agree bit for bit", {
  skip: !ISAS.includes("avx512") && "no AVX-512 here",
}, () => {
  for (const dtype of [...FLOATS, ...BLOCKS]) {
    const tensor = randomTensor(dtype, 50, 512, 11);
    const x = randomFloats(9 * 512, 12);
    const [avx2, avx512] = ["avx2", "avx512"].map((isa) => run({ isa, threads: 1 }, [tensor], x, 9));
    assert.deepEqual(avx2, avx512, dtype);
  }
});

test("parts are stacked, each in its own encoding; bias, scale and accumulate apply to all", () => {
  const parts = (["q4_k", "f16", "q6_k", "f32"] as const).map((dtype, i) => randomTensor(dtype, 20 + i, 256, i));
  const x = randomFloats(3 * 256, 5);
  const alone = parts.map((part) => run({ threads: 2 }, [part], x, 3));
  const device = new CpuDevice({ threads: 2 });
  const weight = device.loadWeight(parts);
  assert.equal(weight.rows, 86);
  assert.equal(weight.dtype, "q4_k+f16+q6_k+f32");
  const start = randomFloats(3 * 86, 6);
  const bias = randomFloats(86, 7);
  const out = device.loadTensor(start, 3, 86);
  const input = device.loadTensor(x, 3, 256);
  device.matmul(out, input, weight, 2, { bias: device.loadTensor(bias, 1, 86), scale: 0.5, accumulate: true });
  const got = new Float32Array(3 * 86);
  device.read(got, out, 0, 3);
  device.close();
  for (let i = 0; i < 3; i++) {
    let column = 0;
    parts.forEach((part, p) => {
      for (let j = 0; j < part.shape[0]!; j++, column++) {
        const at = i * 86 + column;
        const product = Math.fround(Math.fround(alone[p]![i * part.shape[0]! + j]! + bias[column]!) * 0.5);
        const expected = i < 2 ? Math.fround(start[at]! + product) : start[at]!; // the third row is not touched
        assert.equal(got[at], expected, `[${i}, ${column}]`);
      }
    });
  }
});

test("transposed parts equal plain ones", () => {
  for (const dtype of ["f32", "f16", "bf16"] as const) {
    const plain = randomTensor(dtype, 37, 41, 9);
    const size = BLOCK_OF[dtype][1];
    const from = plain.bytes();
    const turned = new Uint8Array(from.length);
    for (let r = 0; r < 37; r++)
      for (let c = 0; c < 41; c++)
        for (let b = 0; b < size; b++) turned[(c * 37 + r) * size + b] = from[(r * 41 + c) * size + b]!;
    const device = new CpuDevice({ threads: 1 });
    const a = device.loadWeight([plain]);
    const b = device.loadWeight([{ ...plain, shape: [41, 37], bytes: () => turned }], { transposed: true });
    assert.deepEqual([b.rows, b.cols], [37, 41]);
    const x = device.loadTensor(randomFloats(4 * 41, 1), 4, 41);
    const results = [a, b].map((weight) => {
      const out = device.allocTensor(4, 37);
      device.matmul(out, x, weight, 4);
      const values = new Float32Array(4 * 37);
      device.read(values, out, 0, 4);
      return values;
    });
    assert.deepEqual(results[0], results[1]);
    device.close();
  }
});
