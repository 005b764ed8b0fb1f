// How weights get into native memory: from files and bytes, quantised at load, and what is refused.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Batch } from "../../core/batch.js";
import { dequantize } from "../../core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../core/dequantize/quantize.js";
import { bytesOf, type HostTensor, type TensorDtype } from "../../core/tensor.js";
import type { StagedBatch, Weight } from "../device.js";
import { CpuDevice } from "./cpu-device.js";
import { ensureLibrary } from "./library.js";

await ensureLibrary();

function floats(rows: number, cols: number): Float32Array {
  return Float32Array.from({ length: rows * cols }, (_, i) => Math.sin(i * 12.9898) * (1 + (i % 7)));
}

function hostTensor(values: Float32Array, rows: number, cols: number): HostTensor {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return { name: "w", dtype: "f32", shape: [rows, cols], file: null, byteLength: bytes.length, bytes: () => bytes };
}

/** A step of one row with these ids. */
function stageIds(device: CpuDevice, ids: Int32Array): StagedBatch {
  const staged = device.createStagedBatch(ids.length);
  const batch = new Batch(1, ids.length, 0);
  batch.addRow(ids, 0, ids.length, new Int32Array(0), Number.POSITIVE_INFINITY);
  device.stage(staged, batch, []);
  return staged;
}

/** All rows of a weight as the device decodes them. */
function rowsOf(device: CpuDevice, weight: Weight): Float32Array {
  const staged = stageIds(
    device,
    Int32Array.from({ length: weight.rows }, (_, i) => i),
  );
  const out = device.allocTensor(weight.rows, weight.cols);
  device.embed(out, weight, staged, 1);
  const values = new Float32Array(weight.rows * weight.cols);
  device.read(values, out, 0, weight.rows);
  return values;
}

test("quantize makes exactly the codes of q8_0 and q4_0", () => {
  const device = new CpuDevice({ threads: 2 });
  const [rows, cols] = [37, 96];
  const values = floats(rows, cols);
  values.fill(0, 0, 32); // a block of zeros
  for (const [quantize, dtype, encode] of [
    ["q8", "q8_0", quantizeQ8],
    ["q4", "q4_0", quantizeQ4],
  ] as const) {
    const weight = device.loadWeight([hostTensor(values, rows, cols)], { quantize });
    assert.equal(weight.dtype, quantize);
    const expected = new Float32Array(values.length);
    dequantize(dtype, encode(values, rows, cols), expected, values.length);
    // The device adds a minimum of 0, which makes -0 a plain 0.
    assert.deepEqual(
      rowsOf(device, weight),
      expected.map((value) => value + 0),
    );
  }
  device.close();
});

test("a matrix without whole blocks is not quantised", () => {
  const device = new CpuDevice({ threads: 1 });
  const values = floats(3, 40);
  const weight = device.loadWeight([hostTensor(values, 3, 40)], { quantize: "q4" });
  assert.equal(weight.dtype, "f32");
  assert.deepEqual(rowsOf(device, weight), values);
  device.close();
});

test("packed weights take the memory of their encoding, in panels of 32 rows", () => {
  const device = new CpuDevice({ threads: 1 });
  const tensor = hostTensor(floats(64, 64), 64, 64);
  const sizes = (["none", "q8", "q4"] as const).map((quantize) => device.loadWeight([tensor], { quantize }).byteLength);
  assert.deepEqual(sizes, [64 * 64 * 4, (64 * 64 * 34) / 32, (64 * 64 * 18) / 32]);
  device.close();
});

test("block formats are held at the width of their codes, levels of grids as 3 or 4 bits", () => {
  const device = new CpuDevice({ threads: 1 });
  // Bits per weight: codes, and factors per 32 (or 16) and 256 columns.
  const expected = {
    q4_0: 4.5,
    q4_1: 5,
    q5_0: 5.5,
    q5_1: 6,
    q8_0: 8.5,
    iq4_nl: 4.5,
    mxfp4: 4.5,
    nvfp4: 16,
    f8_e4m3_64: 16,
  };
  const superBlocks = { q2_k: 3.125, q3_k: 3.5625, q4_k: 4.625, q5_k: 5.625, q6_k: 6.5625, iq4_xs: 4.3125 };
  const grids = {
    iq1_s: 3.3125,
    iq1_m: 3.5625,
    iq2_xxs: 3.3125,
    iq2_xs: 3.5625,
    iq2_s: 3.5625,
    iq3_xxs: 4.3125,
    iq3_s: 4.3125,
  };
  const fewLevels = { tq1_0: 2.0625, tq2_0: 2.0625, q1_0: 2.5, q2_0: 2.5 };
  for (const [dtype, bits] of Object.entries({ ...expected, ...superBlocks, ...grids, ...fewLevels }) as [
    TensorDtype,
    number,
  ][]) {
    const bytes = new Uint8Array(bytesOf(dtype, 64 * 512));
    const tensor = { name: dtype, dtype, shape: [64, 512], file: null, byteLength: bytes.length, bytes: () => bytes };
    assert.equal((device.loadWeight([tensor]).byteLength * 8) / (64 * 512), bits, dtype);
  }
  device.close();
});

test("a table's rows are looked up in the file, the same bits as packed; they cannot be multiplied", () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-tables-"));
  const device = new CpuDevice({ threads: 2 });
  try {
    const [rows, cols] = [37, 512];
    for (const dtype of [
      "f32",
      "f16",
      "bf16",
      "f8_e4m3",
      "q8_0",
      "q4_k",
      "q6_k",
      "iq2_xs",
      "iq3_s",
      "nvfp4",
    ] as const) {
      const bytes = Uint8Array.from(
        { length: bytesOf(dtype, rows * cols) },
        (_, i) => (Math.imul(i, 2654435761) >>> 9) & 0x37,
      );
      const tensor = { name: dtype, dtype, shape: [rows, cols], byteLength: bytes.length, bytes: () => bytes };
      const path = join(folder, dtype);
      writeFileSync(path, Buffer.concat([Buffer.from("odd"), bytes]));
      const packed = device.loadWeight([{ ...tensor, file: null }]);
      const table = device.loadWeight([{ ...tensor, file: { path, offset: 3 } }], { isTable: true });
      assert.deepEqual(rowsOf(device, table), rowsOf(device, packed), dtype);
      assert.equal(table.byteLength, bytes.length, "as in the file");
      const [out, x] = [device.allocTensor(1, rows), device.allocTensor(1, cols)];
      assert.throws(() => device.matmul(out, x, table, 1), /only looked up/);
    }
  } finally {
    device.close();
    rmSync(folder, { recursive: true });
  }
});

for (const [dtype, quantize] of [
  ["q8_0", quantizeQ8],
  ["q4_0", quantizeQ4],
  ["bf16", toBf16],
] as const) {
  test(`${dtype}: an embedding table that is the head too: rows as in the file, products as from memory`, () => {
    const folder = mkdtempSync(join(tmpdir(), "pagoda-heads-"));
    const device = new CpuDevice({ threads: 2 });
    try {
      const [rows, cols, n] = [75, 768, 5];
      const bytes = quantize(floats(rows, cols), rows, cols);
      const path = join(folder, "table");
      writeFileSync(path, bytes);
      const tensor = { name: "w", dtype, shape: [rows, cols], byteLength: bytes.length, bytes: () => bytes };
      const x = device.loadTensor(floats(n, cols), n, cols);
      const results = [{ path, offset: 0 }, null].map((file) => {
        const weight = device.loadWeight([{ ...tensor, file }]);
        const out = device.allocTensor(n, rows);
        device.matmul(out, x, weight, n);
        const products = new Float32Array(n * rows);
        device.read(products, out, 0, n);
        return [rowsOf(device, weight), products];
      });
      assert.deepEqual(results[0], results[1]);
      const expected = new Float32Array(rows * cols);
      dequantize(dtype, bytes, expected, expected.length);
      const withoutMinusZero = expected.map((value) => value + 0);
      assert.deepEqual(results[0]![0], withoutMinusZero);
      // A matrix may be in a form without rows.
      const matrix = device.loadWeight([{ ...tensor, file: null }], { isMatrix: true });
      if (device.info.numerics === "cpu-amx") assert.throws(() => rowsOf(device, matrix), /only to be multiplied/);
      else assert.deepEqual(rowsOf(device, matrix), withoutMinusZero);
    } finally {
      device.close();
      rmSync(folder, { recursive: true });
    }
  });
}

test("bf16 that is quantised at load is looked up as it is multiplied, wherever it came from", () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-heads-"));
  const device = new CpuDevice({ threads: 2 });
  try {
    const [rows, cols] = [40, 64];
    const bytes = toBf16(floats(rows, cols));
    const path = join(folder, "table");
    writeFileSync(path, bytes);
    const tensor = {
      name: "w",
      dtype: "bf16",
      shape: [rows, cols],
      byteLength: bytes.length,
      bytes: () => bytes,
    } as const;
    const [fromFile, fromMemory] = [{ path, offset: 0 }, null].map((file) =>
      rowsOf(device, device.loadWeight([{ ...tensor, file }], { quantize: "q8" })),
    );
    assert.deepEqual(fromFile, fromMemory);
  } finally {
    device.close();
    rmSync(folder, { recursive: true });
  }
});

test("weights are read from a file at an odd offset; a file too short is refused", () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-weights-"));
  const device = new CpuDevice({ threads: 2 });
  try {
    const values = floats(50, 33);
    const tensor = hostTensor(values, 50, 33);
    const path = join(folder, "weights é.bin");
    writeFileSync(path, Buffer.concat([Buffer.from("odd"), tensor.bytes()]));
    const bytes = () => assert.fail("the bytes come from the file");
    const weight = device.loadWeight([{ ...tensor, file: { path, offset: 3 }, bytes }]);
    assert.deepEqual(rowsOf(device, weight), values);
    for (const file of [
      { path, offset: 4 },
      { path: join(folder, "absent"), offset: 0 },
    ]) {
      assert.throws(() => device.loadWeight([{ ...tensor, file, bytes }]), { code: "device_call" });
    }
  } finally {
    device.close();
    rmSync(folder, { recursive: true });
  }
});

test("parts that do not fit together and dtypes that are no weights are refused by name", () => {
  const device = new CpuDevice({ threads: 1 });
  const a = hostTensor(floats(4, 32), 4, 32);
  const b = { ...hostTensor(floats(4, 16), 4, 16), name: "narrow" };
  assert.throws(() => device.loadWeight([a, b]), { code: "tensor_mismatch", message: /narrow.*32 columns.*found 16/ });
  assert.throws(() => device.loadWeight([{ ...a, dtype: "i64" }]), { code: "tensor_mismatch", message: /i64/ });
  assert.throws(() => device.loadWeight([{ ...a, shape: [5, 32] }]), { code: "device_call" });
  device.close();
});

test("a token outside the table is refused and nothing is written", () => {
  const device = new CpuDevice({ threads: 1 });
  const weight = device.loadWeight([hostTensor(floats(4, 8), 4, 8)]);
  const staged = stageIds(device, Int32Array.of(1, 4));
  const out = device.allocTensor(2, 8);
  assert.throws(() => device.embed(out, weight, staged, 1), /4 is outside the table of 4 rows/);
  const values = new Float32Array(16);
  device.read(values, out, 0, 2);
  assert.deepEqual(values, new Float32Array(16));
  device.close();
});

test("NaN and infinity in the activations reach the output of integer weights", () => {
  const device = new CpuDevice({ threads: 1 });
  const weight = device.loadWeight([hostTensor(floats(32, 64), 32, 64)], { quantize: "q8" });
  const x = new Float32Array(128).fill(1);
  x[3] = Number.NaN;
  x[64 + 40] = Number.POSITIVE_INFINITY;
  const out = device.allocTensor(2, 32);
  device.matmul(out, device.loadTensor(x, 2, 64), weight, 2);
  const values = new Float32Array(64);
  device.read(values, out, 0, 2);
  assert.ok(values.every((value) => !Number.isFinite(value)));
  device.close();
});

test("unknown instruction sets and thread counts are refused", () => {
  assert.throws(() => new CpuDevice({ isa: "sse9" }), { code: "invalid_option" });
  assert.throws(() => new CpuDevice({ threads: 0 }), { code: "invalid_option" });
});

function toBf16(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return bytes.filter((_, i) => i % 4 >= 2);
}
