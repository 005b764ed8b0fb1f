// The tensors of an mmproj under the names, and in the arrangement, that the same tower has on Hugging Face. Encodings stay.

import { toFloat32 } from "../../../core/dequantize/dequantize.js";
import { FormatError } from "../../../core/errors.js";
import type { HostTensor, TensorSource } from "../../../core/tensor.js";
import { elementsOf, madeTensor, permuteRows, renamed, reshaped, TensorTable } from "../../tensor-views.js";
import type { Projector, VisionFields } from "./projectors.js";

/** Of other modalities, and what a prompt has tokens for. */
const IGNORED = /^(a\.|mm\.a\.|v\.token_embd\.|v\.head\.)/;

export function towerTensors(file: TensorSource, projector: Projector, v: VisionFields): TensorSource {
  const table = new TensorTable(file.path, () => file.close());
  const { names, layers, layerPrefix, ignored } = projector;
  const parts = new Map<string, HostTensor[]>(); // q, k and v that the family has in one
  for (const name of file.names()) {
    if (IGNORED.test(name) || ignored?.test(name)) continue;
    const tensor = file.get(name);
    const [, layer, part, suffix] = /^v\.blk\.(\d+)\.(\w+)\.(\w+)$/.exec(name) ?? [];
    if (layer === undefined) {
      const own = Object.hasOwn(names, name) ? names[name]! : projector.nameOf?.(name, v);
      if (name === "v.patch_embd.weight.1") continue; // read with the first
      if (own === undefined || own === null) throw unknown(file.path, name);
      table.add(projector.restore?.(tensor, own, v, file) ?? renamed(tensor, own));
      continue;
    }
    const swapped = isSwapped(file, layer, v) ? (SWAPPED[part!] ?? part!) : part!;
    if (projector.joinsQkv && /^attn_[qkv]$/.test(swapped)) {
      const key = `${layerPrefix}.${layer}.${layers.attn_qkv}.${suffix}`;
      const known = parts.get(key) ?? [];
      known["qkv".indexOf(swapped.at(-1)!)] = tensor;
      parts.set(key, known);
      continue;
    }
    if (!Object.hasOwn(layers, swapped)) throw unknown(file.path, name);
    const stem = `${layerPrefix}.${layer}.${layers[swapped]!}`;
    table.add(layerTensor(tensor, stem, swapped, suffix!, projector, v));
  }
  for (const [name, tensors] of parts) table.add(joined(name, tensors));
  return table;
}

const SWAPPED: Readonly<Record<string, string>> = { ffn_up: "ffn_down", ffn_down: "ffn_up" };

/** Older files call the two matrices by each other's names. */
function isSwapped(file: TensorSource, layer: string, v: VisionFields): boolean {
  const down = `v.blk.${layer}.ffn_down.weight`;
  if (!file.has(down)) return false;
  const [rows, cols] = file.get(down).shape;
  return cols === v.hidden_size && rows !== cols;
}

function layerTensor(
  tensor: HostTensor,
  stem: string,
  part: string,
  suffix: string,
  projector: Projector,
  v: VisionFields,
): HostTensor {
  if (/^(in|out)put_(min|max)$/.test(suffix)) return reshaped(tensor, `${stem}.${suffix}`, []);
  const isMatrix = tensor.shape.length === 2;
  const bare = projector.bare?.includes(part) === true;
  const name = bare ? stem : `${stem}${isMatrix ? (projector.matrixSuffix ?? "") : ""}.${suffix}`;
  if (!projector.isPermuted || (part !== "attn_q" && part !== "attn_k")) return renamed(tensor, name);
  const headDim = tensor.shape[0]! / (v.num_attention_heads as number);
  return permuteRows(tensor, name, (row) => {
    const within = row % headDim;
    const half = headDim / 2;
    return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
  });
}

/** Rows of several matrices, or numbers of several vectors, one after another. */
function joined(name: string, tensors: readonly HostTensor[]): HostTensor {
  const first = tensors[0]!;
  const isSame = tensors.length === 3 && tensors.every((tensor) => tensor?.dtype === first.dtype);
  if (!isSame) throw unknown(first?.file?.path ?? "", name);
  const rows = tensors.reduce((sum, { shape }) => sum + shape[0]!, 0);
  return madeTensor(name, first.dtype, [rows, ...first.shape.slice(1)], () => {
    const out = new Uint8Array(tensors.reduce((sum, { byteLength }) => sum + byteLength, 0));
    let at = 0;
    for (const tensor of tensors) {
      out.set(tensor.bytes(), at);
      at += tensor.byteLength;
    }
    return out;
  });
}

/** The two frames of a film's patch, which a file has apart: [hidden, 3, 2, p, p]. */
export function filmPatch(first: HostTensor, second: HostTensor, name: string): HostTensor {
  const [hidden, channels, height, width] = first.shape as [number, number, number, number];
  const plane = height * width;
  return madeTensor(name, "f32", [hidden, channels, 2, height, width], () => {
    const [a, b] = [toFloat32(first), toFloat32(second)];
    const out = new Float32Array(2 * a.length);
    for (let i = 0; i < hidden * channels; i++) {
      out.set(a.subarray(i * plane, (i + 1) * plane), 2 * i * plane);
      out.set(b.subarray(i * plane, (i + 1) * plane), (2 * i + 1) * plane);
    }
    return new Uint8Array(out.buffer);
  });
}

/** [hidden, 3, p, p] as the matrix of patches whose numbers come by row, column, channel: [hidden, p * p * 3]. */
export function channelsLast(tensor: HostTensor, name: string): HostTensor {
  const [hidden, , size] = tensor.shape as [number, number, number, number];
  const plane = size * size;
  return madeTensor(name, "f32", [hidden, 3 * plane], () => {
    const values = toFloat32(tensor);
    const out = new Float32Array(values.length);
    for (let h = 0; h < hidden; h++) {
      for (let c = 0; c < 3; c++) {
        for (let i = 0; i < plane; i++) out[(h * plane + i) * 3 + c] = values[(h * 3 + c) * plane + i]!;
      }
    }
    return new Uint8Array(out.buffer);
  });
}

/** Less the one that a converter added. */
export function lessOne(tensor: HostTensor, name: string): HostTensor {
  return madeTensor(name, "f32", tensor.shape, () => new Uint8Array(toFloat32(tensor).map((w) => w - 1).buffer));
}

/** The same numbers with edges of 1 before them. */
export function withLeadingOnes(tensor: HostTensor, name: string, dims: number): HostTensor {
  const shape = tensor.shape.filter((dim, i) => dim !== 1 || i === tensor.shape.length - 1);
  const own = [...Array<number>(Math.max(0, dims - shape.length)).fill(1), ...shape];
  return elementsOf(own) === elementsOf(tensor.shape) ? reshaped(tensor, name, own) : renamed(tensor, name);
}

function unknown(file: string, tensor: string): FormatError {
  const known = "the tensors of this projector";
  return new FormatError("unsupported_model_option", { file, param: "tensor", value: tensor.slice(0, 100), known });
}
