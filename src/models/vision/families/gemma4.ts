// Gemma 4's tower: frames of all sizes, a learned row for each row and each column, and both as angles; norms before and after each block,
// on queries, keys and values. Blocks of patches become tokens by their mean.
//
// Its heads turn in two halves: the first by the column, the second by the row, each with its own pairs. The rows of q and k are put in
// another order when they are loaded, in which the pairs of a head are those of any other rotary embedding.

import { MEDIUM_ID } from "../../../core/batch.js";
import { toFloat32 } from "../../../core/dequantize/dequantize.js";
import type { TensorSource } from "../../../core/tensor.js";
import { madeTensor, permuteRows, reshaped } from "../../../formats/tensor-views.js";
import { PLAIN_ATTENTION } from "../../blocks/attention.js";
import { type Bounds, Linear, loadLinear } from "../../blocks/linear.js";
import { plainNorm, rmsStyle } from "../../blocks/norm.js";
import { Loader } from "../../loader.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { mappedSource } from "../mapped-source.js";
import { halvedAngles } from "../positions.js";
import { Projector } from "../projector.js";
import type { VisionFamily, VisionSpec } from "../vision-model.js";
import { prefixOf, sectionOf } from "./common.js";

interface Gemma4EyesConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
  readonly numPositions: number;
  readonly isStandardized: boolean;
  /** Matrices have bounds of what they take and give. */
  readonly isBounded: boolean;
  readonly textSize: number;
}

const DEFAULTS = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 16,
  num_attention_heads: 12,
  num_key_value_heads: 12,
  head_dim: 64,
  hidden_activation: "gelu_pytorch_tanh",
  rms_norm_eps: 1e-6,
  patch_size: 16,
  pooling_kernel_size: 3,
  position_embedding_size: 10_240,
};

export const gemma4Eyes: VisionFamily<Gemma4EyesConfig> = {
  tensors: /^(model\.)?(vision_tower|embed_vision)\./,
  parseConfig(raw, file) {
    const { c, v, text, textSize } = sectionOf(raw, file, DEFAULTS);
    v.only("attention_bias", false);
    // Per-layer embeddings of a picture's tokens are those of padding.
    if (text.raw.hidden_size_per_layer_input !== 0 && text.has("pad_token_id")) text.only("pad_token_id", MEDIUM_ID);
    const headDim = v.int("head_dim");
    v.check(headDim % 4 === 0, "head_dim", "a multiple of 4");
    const rope = (v.raw.rope_parameters ?? {}) as Record<string, unknown>;
    const size = v.int("patch_size");
    const tower: TowerConfig = {
      hiddenSize: v.int("hidden_size"),
      numLayers: v.int("num_hidden_layers"),
      numHeads: v.int("num_attention_heads"),
      numKvHeads: v.int("num_key_value_heads"),
      headDim,
      innerSize: v.int("intermediate_size"),
      activation: v.activation("hidden_activation"),
      norm: rmsStyle(v.number("rms_norm_eps")),
      attention: {
        ...PLAIN_ATTENTION,
        qkv: ["q_proj.linear", "k_proj.linear", "v_proj.linear"],
        out: "o_proj.linear",
        qkNorm: "head",
      },
      attentionScale: 1,
      normsValues: true,
      mlp: {
        gateUp: ["gate_proj.linear", "up_proj.linear"],
        up: "up_proj.linear",
        down: "down_proj.linear",
        hasBias: false,
        isTransposed: false,
        innerNorm: null,
      },
      names: {
        layer: (i) => `encoder.layers.${i}`,
        attention: "self_attn",
        mlp: "mlp",
        attentionNorms: { before: "input_layernorm", after: "post_attention_layernorm" },
        mlpNorms: { before: "pre_feedforward_layernorm", after: "post_feedforward_layernorm" },
      },
      patches: { size, block: 1, isChannelFirst: false, repeat: 1 },
      // Columns first.
      angles: halvedAngles(headDim, Number(rope.rope_theta ?? 100)).map(({ axis, frequency }) => ({
        axis: axis === "row" ? "column" : "row",
        frequency,
      })),
    };
    const merge = v.int("pooling_kernel_size");
    const imageToken = c.int("image_token_id", 258_880);
    const spec = {
      imageToken,
      patches: tower.patches,
      merge,
      isWhole: text.raw.use_bidirectional_attention === "vision",
      hasGrid: false,
      numRows: 1,
      maxTokens: null,
      side: null,
    };
    const numPositions = v.int("position_embedding_size");
    const isStandardized = v.bool("standardize", false);
    return { tower, spec, numPositions, isStandardized, isBounded: v.bool("use_clipped_linears", false), textSize };
  },
  specOf: ({ spec }) => spec,
  load(config, context, { maxTokens }) {
    const { tower: plain, spec, numPositions, textSize } = config;
    const { hiddenSize, headDim, patches, norm } = plain;
    const source = mappedSource(context.source, (tensor, name) => {
      if (/\.self_attn\.[qk]_proj\.linear\.weight$/.test(name))
        return permuteRows(tensor, name, (row) => pairedRow(row, headDim));
      if (!/vision_tower\..*\.self_attn\.[qk]_norm\.weight$/.test(name)) return tensor;
      const column = permuteRows(reshaped(tensor, name, [headDim, 1]), name, (row) => pairedRow(row, headDim));
      return reshaped(column, name, [headDim]);
    });
    const loader = new Loader({
      ...context,
      source,
      ...(config.isBounded ? { bounds: (name: string) => boundsOf(context.source, name) } : {}),
      capacity: towerCapacity(context.device, maxTokens * spec.merge ** 2),
    });
    const root = prefixOf(loader, ["model.vision_tower.", "vision_tower."], "patch_embedder.input_proj.weight");
    const tower = { ...plain, names: { ...plain.names, layer: (i: number) => `${root}${plain.names.layer(i)}` } };
    const table = loader.hostValues(`${root}patch_embedder.position_embedding_table`, [2, numPositions, hiddenSize]);
    const patchShape = [hiddenSize, 3 * patches.size ** 2];
    const loaded = loadTower(loader, tower, spec, {
      patch: loadPatchLinear(loader, `${root}patch_embedder.input_proj.weight`, patchShape, null),
      first: null,
      positionsOf: (rows, columns) => crossPositions(table, numPositions, hiddenSize, rows, columns),
      before: null,
      after: null,
    });
    const embed = prefixOf(loader, ["model.embed_vision.", "embed_vision."], "embedding_projection.weight");
    const linear = loadLinear(loader, [{ name: `${embed}embedding_projection`, rows: textSize }], hiddenSize);
    const { device } = loader;
    const shape = {
      hiddenSize,
      unit: spec.merge ** 2,
      gather: "mean",
      moments: ["end"],
      scale: Math.sqrt(hiddenSize),
    } as const;
    const projectors = [
      new Projector(device, loaded.maxRows, shape, [
        ...(config.isStandardized ? [{ linear: standardization(loader, root, hiddenSize), activation: null }] : []),
        { norm: plainNorm(loader, hiddenSize, norm), linear, activation: null },
      ]),
    ];
    const adjustPatches = (values: Float32Array): void => {
      for (let i = 0; i < values.length; i++) values[i] = 2 * Math.fround(values[i]! - 0.5);
    };
    return new TowerEyes({ device, spec, maxTokens, tower: loaded, adjustPatches, projectors });
  },
};

/** (x - bias) * scale, number by number: a matrix with nothing beside its diagonal. */
function standardization(loader: Loader, root: string, size: number): Linear {
  const bias = loader.hostValues(`${root}std_bias`, [size]);
  const scale = loader.hostValues(`${root}std_scale`, [size]);
  const matrix = madeTensor(`${root}std_scale`, "f32", [size, size], () => {
    const values = new Float32Array(size * size);
    for (let i = 0; i < size; i++) values[i * size + i] = scale[i]!;
    return new Uint8Array(values.buffer);
  });
  const shift = bias.map((value, i) => -value * scale[i]!);
  const { device } = loader;
  return new Linear(device, loader.matrixOf([matrix], { quantize: "none" }), device.loadTensor(shift, 1, size));
}

/** The bounds beside a matrix; null: it is not one of those that have them. */
function boundsOf(source: TensorSource, name: string): Bounds | null {
  if (!name.endsWith(".linear")) return null;
  const root = name.slice(0, -"linear".length);
  const bound = (part: string, absent: number): number =>
    source.has(`${root}${part}`) ? toFloat32(source.get(`${root}${part}`, []))[0]! : absent;
  const pair = (side: string): [number, number] => [
    bound(`${side}_min`, Number.NEGATIVE_INFINITY),
    bound(`${side}_max`, Number.POSITIVE_INFINITY),
  ];
  return { input: pair("input"), output: pair("output") };
}

/** Row of the checkpoint at a place of a head [first of columns, first of rows, second of columns, second of rows]. */
function pairedRow(row: number, headDim: number): number {
  const quarter = headDim / 4;
  const within = row % headDim;
  const part = Math.floor(within / quarter);
  return row - within + [0, 2, 1, 3][part]! * quarter + (within % quarter);
}

/** The row of a patch's column, and that of its row. */
function crossPositions(
  table: Float32Array,
  numPositions: number,
  hiddenSize: number,
  rows: number,
  columns: number,
): Float32Array {
  const out = new Float32Array(rows * columns * hiddenSize);
  for (let i = 0; i < rows * columns; i++) {
    const x = (i % columns) * hiddenSize;
    const y = (numPositions + Math.floor(i / columns)) * hiddenSize;
    for (let c = 0; c < hiddenSize; c++) out[i * hiddenSize + c] = table[x + c]! + table[y + c]!;
  }
  return out;
}
