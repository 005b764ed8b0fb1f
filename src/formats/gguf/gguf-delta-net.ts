// The gated delta nets of Qwen3-Next and Qwen3.5, back to how Hugging Face has them.
//
// A delta net has several value heads to a key head. Hugging Face keeps a key head's value heads together; Qwen3.5's files have
// them in turn, the first of every key head, then the second of every key head.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { f32ToF16 } from "../../core/dequantize/small-floats.js";
import { BLOCK_OF, type HostTensor } from "../../core/tensor.js";
import { madeTensor, permuteRows } from "../tensor-views.js";
import { asConvolution, asLogarithm, asRow, type Config, type Restore, withoutSuffix } from "./gguf-architecture.js";

interface Heads {
  readonly numKeyHeads: number;
  readonly perKeyHead: number;
  readonly valueDim: number;
  /** Rows of q and k together. */
  readonly keyRows: number;
}

function headsOf(config: Config): Heads {
  const numKeyHeads = config.linear_num_key_heads as number;
  return {
    numKeyHeads,
    perKeyHead: (config.linear_num_value_heads as number) / numKeyHeads,
    valueDim: config.linear_value_head_dim as number,
    keyRows: 2 * numKeyHeads * (config.linear_key_head_dim as number),
  };
}

/** Rows [b of a key head's value heads, a of the same] for each key head -> all b, all a. */
const splitGates: Restore = (tensor, name, config) => {
  const { numKeyHeads, perKeyHead } = headsOf(config);
  const count = numKeyHeads * perKeyHead;
  const take = (gate: string, first: number): HostTensor => {
    const rowBytes = tensor.byteLength / tensor.shape[0]!;
    const own = name.replace(/\.weight$/, `.in_proj_${gate}.weight`);
    return madeTensor(own, tensor.dtype, [count, tensor.shape[1]!], () => {
      const from = tensor.bytes();
      const out = new Uint8Array(count * rowBytes);
      for (let head = 0; head < count; head++) {
        const row = 2 * perKeyHead * Math.floor(head / perKeyHead) + first + (head % perKeyHead);
        out.set(from.subarray(row * rowBytes, (row + 1) * rowBytes), head * rowBytes);
      }
      return out;
    });
  };
  return [take("b", 0), take("a", perKeyHead)];
};

export const groupedDeltaNet: Readonly<Record<string, Restore>> = {
  ffn_gate_inp_shexp: asRow,
  ssm_conv1d: asConvolution,
  ssm_a: asLogarithm,
  ssm_dt: withoutSuffix,
  ssm_ba: splitGates,
};

/** Where value head `head` of Hugging Face's order lies in a file that has them in turn. */
function tiledHead(head: number, { numKeyHeads, perKeyHead }: Heads): number {
  return (head % perKeyHead) * numKeyHeads + Math.floor(head / perKeyHead);
}

/** `first` rows as they are, the others by value heads of `size` rows. */
function untiled(tensor: HostTensor, name: string, heads: Heads, first: number, size: number): HostTensor {
  return permuteRows(tensor, name, (row) => {
    if (row < first) return row;
    const head = Math.floor((row - first) / size);
    return first + tiledHead(head, heads) * size + ((row - first) % size);
  });
}

const untiledRows =
  (rowsBefore: (heads: Heads) => number, size: (heads: Heads) => number): Restore =>
  (tensor, name, config) => {
    const heads = headsOf(config);
    return [untiled(tensor, name, heads, rowsBefore(heads), size(heads))];
  };

/** Columns by value heads. Where a block holds parts of several heads they are decoded, to f16. */
const untiledColumns: Restore = (tensor, name, config) => {
  const heads = headsOf(config);
  const [rows, cols] = tensor.shape as [number, number];
  const [blockSize, blockBytes] = BLOCK_OF[tensor.dtype];
  const isWhole = heads.valueDim % blockSize === 0;
  const headBytes = isWhole ? (heads.valueDim / blockSize) * blockBytes : heads.valueDim * 2;
  const numHeads = cols / heads.valueDim;
  const made = (): Uint8Array => {
    const from = isWhole ? tensor.bytes() : new Uint8Array(Uint16Array.from(toFloat32(tensor), f32ToF16).buffer);
    const out = new Uint8Array(from.length);
    for (let i = 0; i < rows * numHeads; i++) {
      const source = i - (i % numHeads) + tiledHead(i % numHeads, heads);
      out.set(from.subarray(source * headBytes, (source + 1) * headBytes), i * headBytes);
    }
    return out;
  };
  return [madeTensor(name, isWhole ? tensor.dtype : "f16", tensor.shape, made)];
};

const one = (): number => 1;
const none = (): number => 0;
const valueDim = (heads: Heads): number => heads.valueDim;
const keyRows = (heads: Heads): number => heads.keyRows;
const inTurn = untiledRows(none, one);

export const tiledDeltaNet: Readonly<Record<string, Restore>> = {
  ffn_gate_inp_shexp: asRow,
  attn_qkv: untiledRows(keyRows, valueDim),
  attn_gate: untiledRows(none, valueDim),
  ssm_alpha: inTurn,
  ssm_beta: inTurn,
  ssm_conv1d: (tensor, name, config) =>
    untiledRows(keyRows, valueDim)(tensor, name, config).flatMap((t) => asConvolution(t, name, config)),
  ssm_a: (tensor, name, config) => inTurn(tensor, name, config).flatMap((t) => asLogarithm(t, name, config)),
  ssm_dt: (tensor, name, config) => inTurn(tensor, name, config).flatMap((t) => withoutSuffix(t, name, config)),
  ssm_out: untiledColumns,
};
