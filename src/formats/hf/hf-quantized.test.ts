// Checkpoints packed element by element, by the definition of each format, and read back.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  awq,
  type Coded,
  compressed,
  gptq,
  halves,
  makeCoded,
  random,
  valuesOf,
} from "../../../test/support/packed-checkpoints.js";
import { type SafetensorsEntry, writeSafetensors } from "../../../test/support/safetensors-writer.js";
import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { F8_E4M3_VALUES, f32ToBf16 } from "../../core/dequantize/small-floats.js";
import { FormatError } from "../../core/errors.js";
import { ModelFolder } from "./model-folder.js";

const scratch = mkdtempSync(join(tmpdir(), "pagoda-hf-quantized-"));
after(() => rmSync(scratch, { recursive: true }));

/** A folder with these tensors, opened. */
function folderOf(quantization: unknown, entries: [string, SafetensorsEntry][], config: object = {}): ModelFolder {
  const folder = mkdtempSync(join(scratch, "m-"));
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, quantization_config: quantization }));
  writeSafetensors(join(folder, "model.safetensors"), new Map(entries));
  return new ModelFolder(folder);
}

const plain: [string, SafetensorsEntry] = ["x.bias", { dtype: "F32", shape: [1], data: Float32Array.of(3) }];

/** X.weight of the folder: its encoding, and how far it is from `values` in steps of its scale. */
function check(model: ModelFolder, m: Coded, dtype: string, bound: number): void {
  assert.equal(model.config.quantization_config, undefined);
  const source = model.openTensors();
  assert.deepEqual([...source.names()].sort(), ["x.bias", "x.weight"]);
  assert.equal(source.has("x.scales") || source.has("x.weight_scale"), false);
  assert.deepEqual(toFloat32(source.get("x.bias", [1])), Float32Array.of(3));
  const weight = source.get("x.weight", [m.out, m.in]);
  assert.equal(weight.dtype, dtype);
  assert.equal(weight.byteLength, weight.bytes().length);
  const read = toFloat32(weight);
  const values = valuesOf(m);
  for (let k = 0; k < values.length; k++) {
    const scale = m.scales[Math.floor(k / m.in) * m.groups + m.groupOf[k % m.in]!]!;
    assert.ok(Math.abs(read[k]! - values[k]!) <= bound * scale, `element ${k}: ${read[k]} for ${values[k]}`);
  }
  source.close();
}

const HALF_STEP_OF_F16 = 16 * 2 ** -11; // of a value of at most 16 steps

test("gptq: symmetric to q4_0 and q8_0 without loss, others to q4_1, sorted columns to f16", () => {
  const config = { quant_method: "gptq", bits: 4, group_size: 64, sym: true, desc_act: false };
  const sym = makeCoded({ out: 24, in: 128, group: 64, sym: true });
  check(folderOf(config, [...gptq("x", sym, 1), plain]), sym, "q4_0", 0);
  check(folderOf({ ...config, checkpoint_format: "gptq_v2" }, [...gptq("x", sym, 0), plain]), sym, "q4_0", 0);
  const eight = makeCoded({ out: 24, in: 128, group: 64, bits: 8, sym: true });
  check(folderOf({ ...config, bits: 8 }, [...gptq("x", eight, 1), plain]), eight, "q8_0", 0);
  const asym = makeCoded({ out: 24, in: 128, group: 64, sym: false });
  check(folderOf({ ...config, sym: false }, [...gptq("x", asym, 1), plain]), asym, "q4_1", HALF_STEP_OF_F16);
  const sorted = makeCoded({ out: 24, in: 128, group: 64, sym: true, sorted: true });
  check(folderOf({ ...config, desc_act: true }, [...gptq("x", sorted, 1), plain]), sorted, "f16", HALF_STEP_OF_F16);
  const whole = makeCoded({ out: 24, in: 64, group: 64, sym: true });
  check(folderOf({ ...config, group_size: -1 }, [...gptq("x", whole, 1), plain]), whole, "q4_0", 0);
  const odd = makeCoded({ out: 16, in: 80, group: 16, sym: true });
  check(folderOf({ ...config, group_size: 16 }, [...gptq("x", odd, 1), plain]), odd, "f16", HALF_STEP_OF_F16);
});

test("gptq: an older folder says so in quantize_config.json", () => {
  const sym = makeCoded({ out: 8, in: 64, group: 32, sym: true });
  const { path } = folderOf(undefined, [...gptq("x", sym, 1), plain]);
  writeFileSync(join(path, "quantize_config.json"), JSON.stringify({ bits: 4, group_size: 32, desc_act: false }));
  check(new ModelFolder(path), sym, "q4_0", 0);
});

test("awq: to q4_1", () => {
  const m = makeCoded({ out: 32, in: 128, group: 64, sym: false });
  const config = { quant_method: "awq", bits: 4, group_size: 64, zero_point: true, version: "gemm" };
  check(folderOf(config, [...awq("x", m), plain]), m, "q4_1", HALF_STEP_OF_F16);
});

test("compressed-tensors: packed 4 and 8 bits, with and without zero points, per group and per channel", () => {
  const config = (num_bits: number, strategy: string, more = {}) => ({
    quant_method: "compressed-tensors",
    format: "pack-quantized",
    config_groups: { group_0: { targets: ["Linear"], weights: { num_bits, type: "int", strategy, ...more } } },
    ignore: ["lm_head"],
  });
  const sym = makeCoded({ out: 12, in: 128, group: 32, sym: true });
  check(folderOf(config(4, "group"), [...compressed("x", sym, true), plain]), sym, "q4_0", 0);
  const asym = makeCoded({ out: 12, in: 128, group: 32, sym: false });
  check(folderOf(config(4, "group"), [...compressed("x", asym, false), plain]), asym, "q4_1", HALF_STEP_OF_F16);
  const eight = makeCoded({ out: 12, in: 64, group: 64, bits: 8, sym: true });
  check(folderOf(config(8, "channel"), [...compressed("x", eight, true), plain]), eight, "q8_0", 0);
  const odd = makeCoded({ out: 12, in: 52, group: 52, sym: true });
  check(folderOf(config(4, "channel"), [...compressed("x", odd, true), plain]), odd, "f16", HALF_STEP_OF_F16);
});

test("compressed-tensors: plain 8-bit integers with a scale per row", () => {
  const m = makeCoded({ out: 6, in: 64, group: 64, bits: 8, sym: true });
  const config_groups = { group_0: { weights: { num_bits: 8, type: "int", strategy: "channel" } } };
  const model = folderOf({ quant_method: "compressed-tensors", format: "int-quantized", config_groups }, [
    ["x.weight", { dtype: "I8", shape: [6, 64], data: Int8Array.from(m.codes, (code) => code - 128) }],
    ["x.weight_scale", { dtype: "F16", shape: [6, 1], data: halves(m.scales) }],
    plain,
  ]);
  check(model, m, "q8_0", 0);
});

test("FP8 with a scale for all, for a row, or for a block: codes where each 64 of a row have one scale, else bf16", () => {
  for (const [inputs, blockCols, dtype, dtypeOfBlocks] of [
    [12, 8, "bf16", "bf16"],
    [192, 128, "f8_e4m3_64", "f8_e4m3_64"],
    [192, 96, "f8_e4m3_64", "bf16"],
  ] as const) {
    const out = 5;
    const codes = Uint8Array.from({ length: out * inputs }, () => random(127) | (random(2) << 7));
    const weight: [string, SafetensorsEntry] = ["x.weight", { dtype: "F8_E4M3", shape: [out, inputs], data: codes }];
    const scale = (name: string, shape: number[]): [string, SafetensorsEntry] => {
      const count = shape.reduce((a, b) => a * b, 1);
      return [
        `x.${name}`,
        { dtype: "F32", shape, data: Float32Array.from({ length: count }, (_, i) => 0.01 * (i + 1)) },
      ];
    };
    const groups = { group_0: { weights: { num_bits: 8, type: "float", strategy: "channel" } } };
    const compressedConfig = { quant_method: "compressed-tensors", format: "float-quantized", config_groups: groups };
    const input: [string, SafetensorsEntry] = ["x.input_scale", { dtype: "F32", shape: [], data: Float32Array.of(1) }];
    for (const [config, entry, indexOf] of [
      [
        { quant_method: "fp8", weight_block_size: [2, blockCols] },
        scale("weight_scale_inv", [3, 2]),
        (o, i) => (o >> 1) * 2 + Math.floor(i / blockCols),
      ],
      [{ quant_method: "fp8", activation_scheme: "static" }, scale("weight_scale", []), () => 0],
      [{ quant_method: "fbgemm_fp8" }, scale("weight_scale", [5, 1]), (o) => o],
      [compressedConfig, scale("weight_scale", [5, 1]), (o) => o],
      [compressedConfig, scale("weight_scale", [1]), () => 0],
    ] as [object, [string, SafetensorsEntry], (o: number, i: number) => number][]) {
      const source = folderOf(config, [weight, entry, input, plain]).openTensors();
      const tensor = source.get("x.weight", [out, inputs]);
      assert.equal(tensor.dtype, entry[0].endsWith("_inv") ? dtypeOfBlocks : dtype);
      const read = toFloat32(tensor);
      for (let k = 0; k < codes.length; k++) {
        const exact =
          F8_E4M3_VALUES[codes[k]!]! * Math.fround(0.01 * (indexOf(Math.floor(k / inputs), k % inputs) + 1));
        const bf16 = new Float32Array(Uint32Array.of(f32ToBf16(Math.fround(exact)) << 16).buffer)[0];
        assert.equal(read[k], bf16, `element ${k}`);
      }
      assert.deepEqual([...source.names()].sort(), ["x.bias", "x.weight"]);
      source.close();
    }
  }
});

/** The encoding that loses least: see int-weights.ts. */
function encodingFor(m: Coded, group: number): string {
  const isInOrder = m.groupOf.every((g, col) => g === Math.floor(col / group));
  if (!isInOrder || m.in % 32 !== 0 || (group % 32 !== 0 && group < m.in)) return "f16";
  const isCentered = m.zeros.every((zero) => zero === 1 << (m.bits - 1));
  if (m.bits === 8) return isCentered ? "q8_0" : "f16";
  return isCentered ? "q4_0" : "q4_1";
}

test("shapes of every kind: groups of one and of all columns, columns that fill no block, sorted ones, any zero points", () => {
  const boundOf = (m: Coded, dtype: string) =>
    /^q[48]_0$/.test(dtype) ? 0 : HALF_STEP_OF_F16 * (m.bits === 8 ? 16 : 1);
  const packedGroups = { g: { weights: { num_bits: 4, type: "int", strategy: "group" } } };
  const packed = { quant_method: "compressed-tensors", format: "pack-quantized", config_groups: packedGroups };
  for (const [inputs, group] of [
    [32, 1],
    [8, 1],
    [40, 40],
    [40, 8],
    [72, 24],
    [64, 32],
    [96, 96],
    [96, 48],
    [160, 32],
  ] as const) {
    for (const [out, sym, sorted] of [
      [8, true, false],
      [16, false, false],
      [24, false, true],
    ] as const) {
      for (const bits of [4, 8] as const) {
        const m = makeCoded({ out, in: inputs, group, bits, sym, sorted });
        const dtype = encodingFor(m, group);
        const bound = boundOf(m, dtype);
        const group_size = group === inputs ? -1 : group;
        for (const [checkpoint_format, offset] of [
          ["gptq", 1],
          ["gptq_v2", 0],
        ] as const) {
          const config = { quant_method: "gptq", bits, group_size, checkpoint_format };
          check(folderOf(config, [...gptq("x", m, offset), plain]), m, dtype, bound);
        }
        if (!sorted) check(folderOf(packed, [...compressed("x", m, sym), plain]), m, dtype, bound);
        if (!sorted && bits === 4) {
          check(folderOf({ quant_method: "awq", bits, group_size }, [...awq("x", m), plain]), m, dtype, bound);
        }
      }
    }
  }
});

test("compressed-tensors: sorted columns name their groups", () => {
  const m = makeCoded({ out: 8, in: 64, group: 32, sym: true, sorted: true });
  const order: [string, SafetensorsEntry] = [
    "x.weight_g_idx",
    { dtype: "I32", shape: [64], data: Int32Array.from(m.groupOf) },
  ];
  const config_groups = { g: { weights: { num_bits: 4, type: "int", strategy: "group" } } };
  const config = { quant_method: "compressed-tensors", format: "pack-quantized", config_groups };
  check(folderOf(config, [...compressed("x", m, true), order, plain]), m, "f16", HALF_STEP_OF_F16);
  const inOrder = makeCoded({ out: 8, in: 64, group: 32, sym: true });
  const data = Int32Array.from(inOrder.groupOf);
  const entries = compressed("x", inOrder, true);
  check(folderOf(config, [...entries, [order[0], { ...order[1], data }], plain]), inOrder, "q4_0", 0);
});

test("plain 8-bit integers: any number of columns, a scale for each row or for all, no zero points", () => {
  const config_groups = { g: { weights: { num_bits: 8, type: "int", strategy: "tensor" } } };
  const config = { quant_method: "compressed-tensors", format: "int-quantized", config_groups };
  const entries = (m: Coded, shape: number[]): [string, SafetensorsEntry][] => [
    ["x.weight", { dtype: "I8", shape: [m.out, m.in], data: Int8Array.from(m.codes, (code) => code - 128) }],
    ["x.weight_scale", { dtype: "F16", shape, data: halves(m.scales.slice(0, shape[0])) }],
    plain,
  ];
  for (const inputs of [8, 40, 64]) {
    const each = makeCoded({ out: 5, in: inputs, group: inputs, bits: 8, sym: true });
    const dtype = inputs === 64 ? "q8_0" : "f16";
    const bound = inputs === 64 ? 0 : 16 * HALF_STEP_OF_F16;
    check(folderOf(config, entries(each, [5])), each, dtype, bound);
    const one = { ...each, scales: each.scales.map(() => each.scales[0]!) };
    check(folderOf(config, entries(one, [1])), one, dtype, bound);
    const open = (list: [string, SafetensorsEntry][]) => () => folderOf(config, list).openTensors().get("x.weight");
    assert.throws(open(entries(each, [3])), /x\.weight_scale: expected \[5, 1\] or \[1\]/);
    const zero: [string, SafetensorsEntry] = [
      "x.weight_zero_point",
      { dtype: "I8", shape: [1], data: Int8Array.of(3) },
    ];
    assert.throws(open([...entries(each, [5]), zero]), /no zero point for 8-bit weights/);
  }
});

test("scales wider than f16 are rounded to it where that does no harm, else the values are kept", () => {
  const m = makeCoded({ out: 4, in: 32, group: 32, sym: true });
  const config_groups = { g: { weights: { num_bits: 4, type: "int", strategy: "channel" } } };
  const quantization = { quant_method: "compressed-tensors", format: "pack-quantized", config_groups };
  const open = (scales: number[]) => {
    const scale: SafetensorsEntry = { dtype: "F32", shape: [4, 1], data: Float32Array.from(scales) };
    const entries = compressed("x", m, true).filter(([name]) => !name.endsWith("scale"));
    return folderOf(quantization, [...entries, ["x.weight_scale", scale], plain]);
  };
  const usual = [0.1, 0.2, 0.3, 1e-7].map(Math.fround);
  const read = toFloat32(open(usual).openTensors().get("x.weight"));
  valuesOf({ ...m, scales: usual }).forEach((value, k) => {
    assert.ok(Math.abs(read[k]! - value) <= 8 * 0.3 * 2 ** -12, `element ${k}`);
  });
  check(open(usual), { ...m, scales: [0.1, 0.2, 0.3, 0.3] }, "q4_0", 9); // the encoding
  const tiny = [1e-9, 2e-9, 3e-9, 4e-9].map(Math.fround);
  check(open(tiny), { ...m, scales: tiny }, "f32", 1e-6);
});

test("what cannot be read is refused by name", () => {
  const refuses = (quantization: unknown, pattern: RegExp, entries: [string, SafetensorsEntry][] = [plain]) =>
    assert.throws(
      () => folderOf(quantization, entries).openTensors(),
      (error: unknown) => {
        assert.ok(error instanceof FormatError, String(error));
        assert.match(error.message, pattern);
        return true;
      },
    );
  refuses(
    { quant_method: "bitsandbytes", load_in_4bit: true },
    /quant_method = bitsandbytes is not supported.*gptq, awq/,
  );
  refuses({ bits: 4 }, /quant_method = missing/);
  refuses("gptq", /quantization_config = gptq/);
  refuses({ quant_method: "gptq", bits: 3, group_size: 128 }, /bits = 3 is not supported. Supported: 4, 8/);
  refuses({ quant_method: "gptq", bits: 4, checkpoint_format: "marlin" }, /checkpoint_format = marlin/);
  refuses({ quant_method: "gptq", bits: 4, group_size: 0 }, /group_size = 0/);
  refuses({ quant_method: "gptq", bits: 4, is_marlin_format: true }, /is_marlin_format = true is not supported/);
  refuses({ quant_method: "gptq", bits: 4, dynamic: { "+:x": {} } }, /dynamic = .* is not supported. Supported: none/);
  refuses({ quant_method: "gptq", bits: 4, group_size: 1.5 }, /group_size = 1\.5 is not supported. Supported: -1, 128/);
  refuses({ quant_method: "awq", bits: 8 }, /bits = 8 is not supported. Supported: 4/);
  refuses({ quant_method: "fp8", weight_block_size: [128] }, /weight_block_size = \[128\] .* two whole numbers/);
  refuses({ quant_method: "fp8", weight_block_size: [128, 0] }, /weight_block_size = \[128,0\]/);
  refuses({ quant_method: "m".repeat(101) }, /quant_method = m{100} is/);
  refuses({ quant_method: "toString" }, /quant_method = toString is not supported/);
  refuses({ quant_method: "awq", bits: 4, version: "gemv" }, /version = gemv is not supported/);
  const compressedTensors = { quant_method: "compressed-tensors", config_groups: {} };
  refuses({ ...compressedTensors, format: "marlin-24" }, /format = marlin-24/);
  refuses({ ...compressedTensors, format: "nvfp4-pack-quantized" }, /format = nvfp4-pack-quantized/);
  refuses(
    { ...compressedTensors, config_groups: { g: { weights: { num_bits: 4, type: "float", strategy: "group" } } } },
    /weights 4 float group/,
  );
  const weights = { num_bits: 4, type: "int", strategy: "group" };
  const group = (g: unknown) => ({ ...compressedTensors, config_groups: { g } });
  refuses(group(null), /config_groups\.g = .* Supported: weights/);
  refuses(group({ weights: null }), /config_groups\.g = .* Supported: weights/);
  refuses(group({ weights: [] }), /config_groups\.g = .* Supported: weights/);
  refuses(group({ weights, format: "marlin-24" }), /config_groups\.g\.format = marlin-24 .*pack-quantized/);
  refuses({ ...compressedTensors, config_groups: [] }, /config_groups = \[\] is not supported. Supported: an object/);
  for (const [num_bits, type, strategy] of [
    [2, "int", "group"],
    [8, "int", "block"],
    [8, "float", "group"],
    [4, "float", "tensor"],
  ] as const)
    refuses(group({ weights: { num_bits, type, strategy } }), new RegExp(`weights ${num_bits} ${type} ${strategy}`));
  for (const format of [undefined, null, "pack-quantized", "dense"])
    folderOf(group({ weights, format }), [plain]).openTensors().close();
  folderOf({ ...compressedTensors, sparsity_config: { format: "dense" } }, [plain])
    .openTensors()
    .close();
  folderOf({ ...compressedTensors, sparsity_config: {} }, [plain])
    .openTensors()
    .close();
  refuses({ ...compressedTensors, sparsity_config: { format: "sparse-24-bitmask" } }, /sparsity_config/);

  const m = makeCoded({ out: 8, in: 64, group: 32, sym: true });
  const config = { quant_method: "gptq", bits: 4, group_size: 32 };
  const without = (end: string) => gptq("x", m, 1).filter(([name]) => !name.endsWith(end));
  refuses(config, /x\.scales is missing/, without("scales"));
  refuses({ ...config, group_size: 16 }, /x\.scales: expected shape \[4, 8\], found \[2, 8\]/, gptq("x", m, 1));
  const order: [string, SafetensorsEntry] = [
    "x.g_idx",
    { dtype: "I32", shape: [64], data: new Int32Array(64).fill(7) },
  ];
  refuses(config, /x\.g_idx: expected group numbers 0\.\.1, found 7/, [...without("g_idx"), order]);
  for (const group of [2, -1]) {
    const data = new Int32Array(64).fill(1);
    data[63] = group;
    const entry: SafetensorsEntry = { dtype: "I32", shape: [64], data };
    refuses(config, new RegExp(`group numbers 0\\.\\.1, found ${group}`), [...without("g_idx"), ["x.g_idx", entry]]);
  }
  const flat: SafetensorsEntry = { dtype: "I32", shape: [64], data: new Int32Array(64) };
  refuses(config, /x\.qweight: expected a matrix of i32, found i32 \[64\]/, [
    ...without("qweight"),
    ["x.qweight", flat],
  ]);
  const floats: [string, SafetensorsEntry] = ["x.qweight", { dtype: "F32", shape: [8, 8], data: new Float32Array(64) }];
  refuses(config, /x\.qweight: expected a matrix of i32, found f32/, [...without("qweight"), floats]);
  const fp8 = { quant_method: "fp8" };
  const scale: [string, SafetensorsEntry] = [
    "x.weight_scale_inv",
    { dtype: "F32", shape: [2, 2], data: new Float32Array(4) },
  ];
  const wide: [string, SafetensorsEntry] = ["x.weight", { dtype: "F8_E4M3", shape: [1, 4], data: new Uint8Array(4) }];
  refuses(fp8, /x\.weight_scale_inv: expected \[1\], \[1, 1\] or \[1, 1\], found \[2, 2\]/, [wide, scale]);
  const tall: [string, SafetensorsEntry] = [
    "x.weight",
    { dtype: "F8_E4M3", shape: [129, 2], data: new Uint8Array(258) },
  ];
  refuses(fp8, /expected \[1\], \[129, 1\] or \[2, 1\], found \[2, 2\]/, [tall, scale]);
  const rows: SafetensorsEntry = { dtype: "F32", shape: [3, 1], data: new Float32Array(3) };
  refuses(fp8, /expected \[1\], \[129, 1\] or \[2, 1\], found \[3, 1\]/, [tall, ["x.weight_scale_inv", rows]]);
  refuses(fp8, /x\.weight: expected i8, f8_e4m3 or f8_e5m2, since it has a scale, found f32/, [
    ["x.weight", { dtype: "F32", shape: [1], data: new Float32Array(1) }],
    scale,
  ]);
});

test("blocks of FP8 are 128 by 128 unless a file says otherwise", () => {
  const weight: SafetensorsEntry = { dtype: "F8_E4M3", shape: [1, 129], data: new Uint8Array(129).fill(0x38) };
  const scale: SafetensorsEntry = { dtype: "F32", shape: [1, 2], data: Float32Array.of(2, 3) };
  const values = (quantization: unknown) => {
    const source = folderOf(quantization, [
      ["x.weight", weight],
      ["x.weight_scale_inv", scale],
    ]).openTensors();
    const read = [...toFloat32(source.get("x.weight"))];
    source.close();
    return read;
  };
  assert.deepEqual(values({ quant_method: "fp8" }), [...Array(128).fill(2), 3]);
  assert.deepEqual(values({ quant_method: "fp8", weight_block_size: [1, 100] }), [
    ...Array(100).fill(2),
    ...Array(29).fill(3),
  ]);
});

test("several matrices of one file, plain ones among them", () => {
  const group = { weights: { num_bits: 4, type: "int", strategy: "group" } };
  const config = { quant_method: "compressed-tensors", format: "pack-quantized", config_groups: { group } };
  const m = makeCoded({ out: 8, in: 64, group: 32, sym: true });
  const source = folderOf(config, [...compressed("a", m, false), plain, ...compressed("b", m, false)]).openTensors();
  assert.deepEqual([...source.names()].sort(), ["a.weight", "b.weight", "x.bias"]);
  for (const name of ["a.weight", "b.weight"])
    assert.deepEqual([...toFloat32(source.get(name, [8, 64]))], [...valuesOf(m)]);
  assert.deepEqual([source.has("a.weight"), source.has("a.weight_packed"), source.has("c")], [true, false, false]);
  source.close();
});
