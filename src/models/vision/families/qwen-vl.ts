// The towers of Qwen2.5-VL, Qwen3-VL and Qwen3.5: frames of all sizes, patches in blocks that become tokens, rows and columns as angles. That
// of 2.5 sees windows in most of its layers; 3 has learned positions too, and gives rows for the text model's first layers.

import { PLAIN_ATTENTION } from "../../blocks/attention.js";
import { loadLinear } from "../../blocks/linear.js";
import { GATED_MLP } from "../../blocks/mlp.js";
import { layerNormStyle, loadNorm, type Norm, rmsStyle } from "../../blocks/norm.js";
import { Loader } from "../../loader.js";
import type { LoadContext } from "../../model.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { bilinearPositions, halvedAngles } from "../positions.js";
import { Projector } from "../projector.js";
import type { Moment, Windows } from "../tower.js";
import type { Eyes, EyesCapacity, VisionFamily, VisionSpec } from "../vision-model.js";
import { prefixOf, sectionOf } from "./common.js";

interface QwenConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
  readonly outSize: number;
  /** Edge of a window in tokens, and the layers that see all; null: every layer does. */
  readonly windows: { readonly side: number; readonly full: readonly number[] } | null;
  /** Rows of the table of positions; 0: there is none. */
  readonly numPositions: number;
  /** Layers that give rows. */
  readonly deepstack: readonly number[];
}

const COMMON = { in_channels: 3, temporal_patch_size: 2, spatial_merge_size: 2 };
const ROOTS = ["visual.", "model.visual."];

function readQwen(raw: Record<string, unknown>, file: string, absent: Record<string, unknown>, isGated: boolean) {
  const { c, v, textSize } = sectionOf(raw, file, { ...COMMON, ...absent });
  const hiddenSize = v.int("hidden_size");
  const numHeads = v.int("num_heads");
  const headDim = hiddenSize / numHeads;
  v.check(Number.isInteger(headDim) && headDim % 4 === 0, "num_heads", "such that heads are multiples of 4");
  v.only("in_channels", 3);
  const merge = v.int("spatial_merge_size");
  const rope = (v.raw.rope_parameters ?? {}) as Record<string, unknown>;
  const tower: TowerConfig = {
    hiddenSize,
    numLayers: v.int("depth"),
    numHeads,
    numKvHeads: numHeads,
    headDim,
    innerSize: v.int("intermediate_size"),
    activation: v.activation("hidden_act"),
    norm: isGated ? rmsStyle(1e-6) : layerNormStyle(1e-6),
    attention: { ...PLAIN_ATTENTION, qkv: ["qkv"], qkvBias: true, outBias: true, out: "proj" },
    attentionScale: headDim ** -0.5,
    mlp: isGated
      ? { ...GATED_MLP, hasBias: true }
      : { gateUp: null, up: "linear_fc1", down: "linear_fc2", hasBias: true, isTransposed: false, innerNorm: null },
    names: {
      layer: (i) => `blocks.${i}`,
      attention: "attn",
      mlp: "mlp",
      attentionNorms: { before: "norm1", after: null },
      mlpNorms: { before: "norm2", after: null },
    },
    patches: { size: v.int("patch_size"), block: merge, isChannelFirst: true, repeat: v.int("temporal_patch_size") },
    angles: halvedAngles(headDim, Number(rope.rope_theta ?? 10_000)),
  };
  const outSize = v.int("out_hidden_size", textSize);
  c.check(outSize === textSize, "vision_config.out_hidden_size", `the text model's ${textSize}`);
  return { c, v, tower, merge, outSize };
}

function qwenSpec(imageToken: number, tower: TowerConfig, merge: number, numRows: number): VisionSpec {
  return {
    imageToken,
    patches: tower.patches,
    merge,
    isWhole: false,
    hasGrid: true,
    numRows,
    maxTokens: null,
    side: null,
  };
}

export const qwen25Eyes: VisionFamily<QwenConfig> = {
  tensors: /^(model\.)?visual\./,
  parseConfig(raw, file) {
    const absent = {
      depth: 32,
      hidden_size: 3584,
      hidden_act: "silu",
      intermediate_size: 3420,
      num_heads: 16,
      patch_size: 14,
      window_size: 112,
      fullatt_block_indexes: [7, 15, 23, 31],
    };
    const { c, v, tower, merge, outSize } = readQwen(raw, file, absent, true);
    const side = Math.floor(Math.floor(v.int("window_size") / merge) / tower.patches.size);
    v.check(side >= 1, "window_size", "at least one token");
    const imageToken = c.int("image_token_id", 151_655);
    const windows = { side, full: v.ints("fullatt_block_indexes") };
    return { tower, spec: qwenSpec(imageToken, tower, merge, 1), outSize, windows, numPositions: 0, deepstack: [] };
  },
  specOf: ({ spec }) => spec,
  load,
};

/** Qwen3-VL and Qwen3.5. */
export const qwen3Eyes: VisionFamily<QwenConfig> = {
  tensors: /^(model\.)?visual\./,
  parseConfig(raw, file) {
    const absent = {
      depth: 27,
      hidden_size: 1152,
      hidden_act: "gelu_pytorch_tanh",
      intermediate_size: 4304,
      num_heads: 16,
      patch_size: 16,
      num_position_embeddings: 2304,
      ...(String(raw.model_type).startsWith("qwen3_vl") ? { deepstack_visual_indexes: [8, 16, 24] } : {}),
    };
    const { c, v, tower, merge, outSize } = readQwen(raw, file, absent, false);
    const isStacked = String(raw.model_type).startsWith("qwen3_vl") && v.has("deepstack_visual_indexes");
    const deepstack = isStacked ? v.ints("deepstack_visual_indexes") : [];
    const areLayers = new Set(deepstack).size === deepstack.length && deepstack.every((i) => i < tower.numLayers);
    v.check(areLayers, "deepstack_visual_indexes", `different layers of the tower's ${tower.numLayers}`);
    const spec = qwenSpec(c.int("image_token_id", 151_655), tower, merge, 1 + deepstack.length);
    return { tower, spec, outSize, windows: null, numPositions: v.int("num_position_embeddings"), deepstack };
  },
  specOf: ({ spec }) => spec,
  load,
};

function load(config: QwenConfig, context: Omit<LoadContext, "capacity">, capacity: EyesCapacity): Eyes {
  const { tower: plain, spec, outSize, windows, numPositions, deepstack } = config;
  const { hiddenSize, patches } = plain;
  const unit = spec.merge ** 2;
  const { maxTokens } = capacity;
  const loader = new Loader({ ...context, capacity: towerCapacity(context.device, maxTokens * unit) });
  const root = prefixOf(loader, ROOTS, "patch_embed.proj.weight");
  const tower = { ...plain, names: { ...plain.names, layer: (i: number) => `${root}${plain.names.layer(i)}` } };
  const is25 = windows !== null;
  const patch = `${root}patch_embed.proj`;
  const shape = [hiddenSize, 3, patches.repeat, patches.size, patches.size];
  const norm = (name: string, size: number): Norm => loadNorm(loader, `${root}${name}`, size, plain.norm);
  const linear = (name: string, rows: number) =>
    loadLinear(loader, [{ name: `${root}${name}`, rows }], hiddenSize * unit, { hasBias: true });
  const table = numPositions === 0 ? null : loader.hostValues(`${root}pos_embed.weight`, [numPositions, hiddenSize]);
  const layersDown = [...deepstack].sort((a, b) => a - b); // rows come in the layers' order, whatever the list's
  const loaded = loadTower(loader, tower, spec, {
    patch: loadPatchLinear(loader, `${patch}.weight`, shape, is25 ? null : `${patch}.bias`),
    first: null,
    positionsOf: table === null ? null : bilinearPositions(table, hiddenSize, spec.merge),
    before: null,
    after: norm(is25 ? "merger.ln_q" : "merger.norm", hiddenSize),
    windows: windows && { layers: windowed(plain.numLayers, windows.full), of: windowsOf(windows.side, spec.merge) },
  });
  const { device } = loader;
  const projector = (name: string, own: Norm | null, first: string, second: string, moment: Moment): Projector =>
    new Projector(device, loaded.maxRows, { hiddenSize, unit, gather: "concat", moments: [moment] }, [
      { ...(own && { norm: own }), linear: linear(`${name}.${first}`, hiddenSize * unit), activation: "gelu" },
      { linear: linear(`${name}.${second}`, outSize), activation: null },
    ]);
  const deeper = layersDown.map((layer) => {
    const name = `deepstack_merger_list.${deepstack.indexOf(layer)}`;
    return projector(name, norm(`${name}.norm`, hiddenSize * unit), "linear_fc1", "linear_fc2", layer + 1);
  });
  const [first, second] = is25 ? (["mlp.0", "mlp.2"] as const) : (["linear_fc1", "linear_fc2"] as const);
  const projectors = [projector("merger", null, first, second, "end"), ...deeper];
  return new TowerEyes({ device, spec, maxTokens, tower: loaded, projectors });
}

function windowed(numLayers: number, full: readonly number[]): ReadonlySet<number> {
  return new Set(Array.from({ length: numLayers }, (_, i) => i).filter((i) => !full.includes(i)));
}

/** The tokens of a frame window by window, row by row of windows; those at the far edges are smaller. */
function windowsOf(side: number, merge: number) {
  return (rows: number, columns: number): Windows => {
    const [down, across] = [rows / merge, columns / merge];
    const order: number[] = [];
    const lengths: number[] = [];
    for (let top = 0; top < down; top += side) {
      for (let left = 0; left < across; left += side) {
        const before = order.length;
        for (let y = top; y < Math.min(top + side, down); y++)
          for (let x = left; x < Math.min(left + side, across); x++) order.push(y * across + x);
        lengths.push((order.length - before) * merge * merge);
      }
    }
    return { order: Int32Array.from(order), lengths };
  };
}
