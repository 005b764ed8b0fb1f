// Quantised checkpoints of Hugging Face: reads `quantization_config` and serves the packed tensors of each matrix X as X.weight,
// so that families need not know. Weights only: activations stay what they are, also where a checkpoint allows int8 or FP8 ones.
//
//   gptq                  4 and 8 bits, symmetric or not, sorted columns (desc_act) included     int-weights.ts
//   awq                   4 bits, version "gemm"                                                  int-weights.ts
//   compressed-tensors    pack-quantized and int-quantized (4, 8 bits), float-quantized (FP8)     int-weights.ts, fp8-weights.ts
//   fp8, fbgemm_fp8       weight_scale_inv per block, weight_scale per matrix or row              fp8-weights.ts
//   mxfp4                 left to the family that has it (gpt-oss)
// Every other method is refused by name.

import { FormatError } from "../../core/errors.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { isRecord } from "../json-file.js";
import { TensorTable } from "../tensor-views.js";
import { fp8Tensor } from "./fp8-weights.js";
import { intTensor } from "./int-weights.js";
import { awqMatrix, byteMatrix, gptqMatrix, packedMatrix } from "./packed-ints.js";

export interface Unpacked {
  /** Without quantization_config: the tensors are plain to the family. */
  readonly config: Record<string, unknown>;
  /** Serves X.weight for each packed X; tensors that are not packed come through as they are. */
  unpack(source: TensorSource): TensorSource;
}

/** The matrix X as a tensor named X.weight. */
type MakeWeight = (source: TensorSource, name: string) => HostTensor;

interface Method {
  /** Ends of tensor names that mark X as packed, and what is made of X then. */
  readonly marks: Readonly<Record<string, MakeWeight>>;
  /** Ends of names that belong to packed matrices and are served no further. */
  readonly parts: readonly string[];
}

/** What to do for a config.json; null when its tensors are plain, or the family's own affair. */
export function readQuantization(config: Record<string, unknown>, file: string): Unpacked | null {
  const { quantization_config: raw, compression_config: older, ...rest } = config;
  const options = raw ?? older;
  if (options === undefined || options === null) return null;
  if (!isRecord(options)) throw refuse(file, "", options, "an object");
  if (options.quant_method === "mxfp4") return null;
  const read = typeof options.quant_method === "string" && Object.hasOwn(METHODS, options.quant_method);
  if (!read) throw refuse(file, ".quant_method", options.quant_method, `${Object.keys(METHODS).join(", ")}, mxfp4`);
  const method = METHODS[options.quant_method as string]!(new Options(options, file));
  return { config: rest, unpack: (source) => unpack(source, method) };
}

const METHODS: Readonly<Record<string, (options: Options) => Method>> = {
  gptq: (options) => {
    const bits = options.oneOf("bits", [4, 8]) as 4 | 8;
    const groupSize = options.groupSize();
    const format = options.oneOf("checkpoint_format", ["gptq", "gptq_v2"], "gptq");
    options.oneOf("is_marlin_format", [false], false);
    if (Object.keys((options.raw.dynamic as object | null | undefined) ?? {}).length > 0) {
      throw options.refuse("dynamic", "none");
    }
    const zeroOffset = format === "gptq" ? 1 : 0;
    return {
      marks: {
        ".qweight": (source, name) =>
          intTensor(`${name}.weight`, gptqMatrix(source, name, { bits, groupSize, zeroOffset })),
      },
      parts: [".qzeros", ".scales", ".g_idx"],
    };
  },
  awq: (options) => {
    options.oneOf("bits", [4]);
    options.oneOf("version", ["gemm", "GEMM"], "gemm");
    const groupSize = options.groupSize();
    return {
      marks: { ".qweight": (source, name) => intTensor(`${name}.weight`, awqMatrix(source, name, { groupSize })) },
      parts: [".qzeros", ".scales"],
    };
  },
  "compressed-tensors": (options) => {
    const known = ["pack-quantized", "int-quantized", "naive-quantized", "float-quantized", "dense"];
    options.oneOf("format", [...known, "mixed-precision"], "dense");
    const block = checkGroups(options, known);
    return {
      marks: {
        ".weight_packed": (source, name) => intTensor(`${name}.weight`, packedMatrix(source, name)),
        ".weight_scale": (source, name) => scaledWeight(source, name, "weight_scale", block),
      },
      parts: [".weight_shape", ".weight_zero_point", ".weight_g_idx", ".input_scale", ".input_zero_point"],
    };
  },
  fp8: fp8Method,
  fbgemm_fp8: fp8Method,
};

function fp8Method(options: Options): Method {
  const size = options.raw.weight_block_size ?? [128, 128];
  if (!isBlock(size)) throw options.refuse("weight_block_size", "two whole numbers");
  return {
    marks: {
      ".weight_scale_inv": (source, name) => scaledWeight(source, name, "weight_scale_inv", size),
      ".weight_scale": (source, name) => scaledWeight(source, name, "weight_scale", size),
    },
    parts: [".input_scale", ".activation_scale", ".input_scale_ub"],
  };
}

/** X.weight in 8 bits, integer or float, times a scale. */
function scaledWeight(source: TensorSource, name: string, scale: string, block: readonly [number, number]): HostTensor {
  const weight = source.get(`${name}.weight`);
  if (weight.dtype === "i8") return intTensor(weight.name, byteMatrix(source, name));
  if (weight.dtype === "f8_e4m3" || weight.dtype === "f8_e5m2") {
    return fp8Tensor(weight, source.get(`${name}.${scale}`), block);
  }
  const expected = "i8, f8_e4m3 or f8_e5m2, since it has a scale";
  throw new FormatError("tensor_mismatch", { file: source.path, tensor: weight.name, expected, found: weight.dtype });
}

/** Refuses what compressed-tensors can express and we cannot honour; returns the block of the FP8 scales. */
function checkGroups(options: Options, formats: readonly string[]): readonly [number, number] {
  let block: readonly [number, number] = [128, 128];
  const sparsity = options.raw.sparsity_config;
  if (isRecord(sparsity) && sparsity.format !== undefined && sparsity.format !== "dense") {
    throw options.refuse("sparsity_config", "dense");
  }
  const groups = options.raw.config_groups;
  if (!isRecord(groups)) throw options.refuse("config_groups", "an object");
  for (const [name, group] of Object.entries(groups)) {
    const weights = isRecord(group) ? group.weights : null;
    if (!isRecord(group) || !isRecord(weights)) throw options.refuse(`config_groups.${name}`, "weights");
    const kind = `${weights.num_bits} ${weights.type ?? "int"} ${weights.strategy}`;
    if (!/^([48] int (group|channel|tensor)|8 float (tensor|channel|block))$/.test(kind)) {
      throw options.refuse(`config_groups.${name}`, "4 or 8 bits int, 8 bits float", `weights ${kind}`);
    }
    if (group.format !== undefined && group.format !== null && !formats.includes(group.format as string)) {
      throw options.refuse(`config_groups.${name}.format`, formats.join(", "), String(group.format));
    }
    if (isBlock(weights.block_structure)) block = weights.block_structure;
  }
  return block;
}

function unpack(source: TensorSource, method: Method): TensorSource {
  const table = new TensorTable(source.path);
  const hidden = new Set<string>();
  for (const tensor of source.names()) {
    const mark = Object.keys(method.marks).find((end) => tensor.endsWith(end));
    if (mark === undefined) continue;
    const name = tensor.slice(0, -mark.length);
    // A packed matrix has scales, too: they mark nothing by themselves.
    if (mark === ".weight_scale" && source.has(`${name}.weight_packed`)) continue;
    table.add(method.marks[mark]!(source, name));
    for (const end of [".weight", ...Object.keys(method.marks), ...method.parts]) hidden.add(name + end);
  }
  const isPlain = (name: string) => source.has(name) && !hidden.has(name);
  return {
    path: source.path,
    has: (name) => table.has(name) || isPlain(name),
    get: (name, shape) => (isPlain(name) ? source : table).get(name, shape),
    names: () => [...table.names(), ...[...source.names()].filter(isPlain)],
    close: () => source.close(),
  };
}

class Options {
  readonly raw: Record<string, unknown>;
  readonly file: string;

  constructor(raw: Record<string, unknown>, file: string) {
    this.raw = raw;
    this.file = file;
  }

  oneOf(key: string, known: readonly (string | number | boolean)[], absent?: string | number | boolean) {
    const value = this.raw[key] ?? absent;
    if (!known.includes(value as string)) throw this.refuse(key, known.join(", "));
    return value;
  }

  groupSize(): number {
    const value = this.raw.group_size ?? -1;
    if (value !== -1 && !(Number.isSafeInteger(value) && (value as number) > 0))
      throw this.refuse("group_size", "-1, 128");
    return value as number;
  }

  refuse(key: string, known: string, value: unknown = this.raw[key]): FormatError {
    return refuse(this.file, `.${key}`, value, known);
  }
}

function isBlock(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((n) => Number.isSafeInteger(n) && n > 0);
}

function refuse(file: string, key: string, value: unknown, known: string): FormatError {
  const shown = typeof value === "string" ? value : (JSON.stringify(value) ?? "missing");
  const param = `quantization_config${key}`;
  return new FormatError("unsupported_model_option", { file, param, value: shown.slice(0, 100), known });
}
