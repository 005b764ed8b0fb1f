// The experts of gpt-oss in the three forms that checkpoints hold them in, as the device wants them: one matrix per expert, gate
// rows before up rows.
//   single    experts.{e}.gate_proj, up_proj, down_proj, each with a bias: GGUF files
//   stacked   experts.gate_up_proj [E, hidden, 2*inner] with gate and up in alternate columns, down_proj [E, inner, hidden]
//   packed    experts.gate_up_proj_blocks [E, 2*inner, hidden/32, 16] and _scales: 4-bit blocks (mxfp4), gate and up in alternate rows

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { BLOCK_OF, type HostTensor, type TensorDtype } from "../../core/tensor.js";
import type { ExpertWeights, Tensor, Weight } from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { MixtureConfig } from "./mixture.js";

/** Loads `${name}.` in whichever form it is there. */
export function loadGptOssExperts(loader: Loader, name: string, config: MixtureConfig): ExpertWeights {
  const { numExperts: E, hiddenSize, expertSize: inner } = config;
  const common = { inner, activation: "oss" as const };
  if (loader.has(`${name}.0.gate_proj.weight`)) return { ...common, ...loadSingle(loader, name, config) };
  const gateUpBias = splitAlternate(toFloat32(loader.host(`${name}.gate_up_proj_bias`, [E, 2 * inner])), inner);
  const downBias = toFloat32(loader.host(`${name}.down_proj_bias`, [E, hiddenSize]));
  const isPacked = loader.has(`${name}.gate_up_proj_blocks`);
  return {
    ...common,
    ...(isPacked ? loadPacked(loader, name, config) : loadStacked(loader, name, config)),
    gateUpBias: loader.device.loadTensor(gateUpBias, E, 2 * inner),
    downBias: loader.device.loadTensor(downBias, E, hiddenSize),
  };
}

/** Which row of the alternating gate and up a row of [gate; up] is. */
function alternateRow(row: number, inner: number): number {
  return row < inner ? 2 * row : 2 * (row - inner) + 1;
}

function splitAlternate(values: Float32Array, inner: number): Float32Array {
  return values.map((_, i) => {
    const row = i % (2 * inner);
    return values[i - row + alternateRow(row, inner)]!;
  });
}

function loadSingle(loader: Loader, name: string, config: MixtureConfig) {
  const { numExperts, hiddenSize, expertSize: inner } = config;
  const ids = Array.from({ length: numExperts }, (_, e) => e);
  const biasRows = (parts: readonly string[], size: number): Tensor => {
    const values = new Float32Array(numExperts * parts.length * size);
    for (const e of ids) {
      parts.forEach((part, i) => {
        values.set(toFloat32(loader.host(`${name}.${e}.${part}.bias`, [size])), (e * parts.length + i) * size);
      });
    }
    return loader.device.loadTensor(values, numExperts, parts.length * size);
  };
  return {
    gateUp: ids.map((e) =>
      loader.matrix([
        { name: `${name}.${e}.gate_proj.weight`, rows: inner, cols: hiddenSize },
        { name: `${name}.${e}.up_proj.weight`, rows: inner, cols: hiddenSize },
      ]),
    ),
    down: ids.map((e) => loader.matrix([{ name: `${name}.${e}.down_proj.weight`, rows: hiddenSize, cols: inner }])),
    gateUpBias: biasRows(["gate_proj", "up_proj"], inner),
    downBias: biasRows(["down_proj"], hiddenSize),
  };
}

function loadStacked(loader: Loader, name: string, config: MixtureConfig) {
  const { numExperts: E, hiddenSize, expertSize: inner } = config;
  return {
    gateUp: eachExpert(loader, loader.host(`${name}.gate_up_proj`, [E, hiddenSize, 2 * inner]), (bytes, size) =>
      transposeBytes(bytes, hiddenSize, 2 * inner, size, (row) => alternateRow(row, inner)),
    ),
    down: eachExpert(loader, loader.host(`${name}.down_proj`, [E, inner, hiddenSize]), (bytes, size) =>
      transposeBytes(bytes, inner, hiddenSize, size, (row) => row),
    ),
  };
}

/** Weights of all experts from a stack [E, inputs, outputs]; the stack is read once. */
function eachExpert(
  loader: Loader,
  stack: HostTensor,
  arrange: (bytes: Uint8Array, elementBytes: number) => Uint8Array,
): Weight[] {
  const [E, inputs, outputs] = stack.shape as [number, number, number];
  const elementBytes = BLOCK_OF[stack.dtype][1];
  const all = stack.bytes();
  const each = inputs * outputs * elementBytes;
  return Array.from({ length: E }, (_, e) =>
    loadBytes(loader, `${stack.name}[${e}]`, stack.dtype, outputs, inputs, () =>
      arrange(all.subarray(e * each, (e + 1) * each), elementBytes),
    ),
  );
}

/** [inputs, outputs] -> [outputs, inputs], output row r being column `columnOf(r)`. */
function transposeBytes(
  bytes: Uint8Array,
  inputs: number,
  outputs: number,
  size: number,
  columnOf: (row: number) => number,
): Uint8Array {
  const out = new Uint8Array(bytes.length);
  for (let row = 0; row < outputs; row++) {
    const column = columnOf(row);
    for (let i = 0; i < inputs; i++) {
      const from = (i * outputs + column) * size;
      const to = (row * inputs + i) * size;
      for (let b = 0; b < size; b++) out[to + b] = bytes[from + b]!;
    }
  }
  return out;
}

function loadPacked(loader: Loader, name: string, config: MixtureConfig) {
  const { expertSize: inner, hiddenSize } = config;
  return {
    gateUp: packedMatrices(loader, `${name}.gate_up_proj`, config, 2 * inner, hiddenSize, (row) =>
      alternateRow(row, inner),
    ),
    down: packedMatrices(loader, `${name}.down_proj`, config, hiddenSize, inner, (row) => row),
  };
}

/** Blocks of 32 with their scales apart to blocks of 17 bytes with the scale in front, which is how devices know mxfp4. */
function packedMatrices(
  loader: Loader,
  name: string,
  { numExperts: E }: MixtureConfig,
  rows: number,
  cols: number,
  rowOf: (row: number) => number,
): Weight[] {
  const perRow = cols / 32;
  const blocks = loader.host(`${name}_blocks`, [E, rows, perRow, 16]).bytes();
  const scales = loader.host(`${name}_scales`, [E, rows, perRow]).bytes();
  return Array.from({ length: E }, (_, e) =>
    loadBytes(loader, `${name}[${e}]`, "mxfp4", rows, cols, () => {
      const out = new Uint8Array(rows * perRow * 17);
      for (let row = 0; row < rows; row++) {
        for (let b = 0; b < perRow; b++) {
          const block = (e * rows + rowOf(row)) * perRow + b;
          repackBlock(out, (row * perRow + b) * 17, blocks, block * 16, scales[block]!);
        }
      }
      return out;
    }),
  );
}

/** Here byte i holds elements 2i and 2i+1; there it holds elements i and i+16. Low half first in both. */
function repackBlock(out: Uint8Array, at: number, codes: Uint8Array, from: number, scale: number): void {
  const code = (i: number): number => (codes[from + (i >> 1)]! >> (4 * (i & 1))) & 15;
  out[at] = scale;
  for (let i = 0; i < 16; i++) out[at + 1 + i] = code(i) | (code(i + 16) << 4);
}

function loadBytes(
  loader: Loader,
  name: string,
  dtype: TensorDtype,
  rows: number,
  cols: number,
  bytes: () => Uint8Array,
): Weight {
  const [elements, blockBytes] = BLOCK_OF[dtype];
  const byteLength = ((rows * cols) / elements) * blockBytes;
  return loader.matrixOf([{ name, dtype, shape: [rows, cols], file: null, byteLength, bytes }]);
}
