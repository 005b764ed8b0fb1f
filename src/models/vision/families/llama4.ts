// Llama 4's eyes: tiles of one size, learned positions and a token of no patch, and places as angles of neighbouring numbers, counted from one:
// the token of no patch is not turned.

import { PLAIN_ATTENTION } from "../../blocks/attention.js";
import { loadLinear } from "../../blocks/linear.js";
import { layerNormStyle, loadNorm } from "../../blocks/norm.js";
import { Loader } from "../../loader.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { halvedAngles, rasterPositions } from "../positions.js";
import { Projector } from "../projector.js";
import type { VisionFamily, VisionSpec } from "../vision-model.js";
import { edgeOf, prefixOf, sectionOf } from "./common.js";

interface Llama4EyesConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
  readonly textSize: number;
  /** What the tower's last two matrices give. */
  readonly outSize: number;
}

const DEFAULTS = {
  hidden_size: 768,
  num_hidden_layers: 34,
  num_attention_heads: 16,
  intermediate_size: 5632,
  image_size: 448,
  patch_size: 14,
  pixel_shuffle_ratio: 0.5,
  projector_input_dim: 4096,
  projector_output_dim: 4096,
  vision_output_dim: 7680,
};

/** All norms have PyTorch's own, whatever the config says. */
const NORM = layerNormStyle(1e-5);

export const llama4Eyes: VisionFamily<Llama4EyesConfig> = {
  tensors: /^(model\.)?(vision_model|multi_modal_projector)\./,
  parseConfig(raw, file) {
    const { c, v, textSize } = sectionOf(raw, file, DEFAULTS);
    const hiddenSize = v.int("hidden_size");
    const numHeads = v.int("num_attention_heads");
    const headDim = hiddenSize / numHeads;
    v.check(
      Number.isInteger(headDim) && headDim % 4 === 0,
      "num_attention_heads",
      "such that heads are multiples of 4",
    );
    v.only("num_channels", 3);
    c.only("vision_feature_select_strategy", "default");
    const size = edgeOf(v, "patch_size");
    const side = Math.floor(edgeOf(v, "image_size") / size);
    const merge = 1 / v.number("pixel_shuffle_ratio");
    v.check(
      Number.isInteger(merge) && side % merge === 0,
      "pixel_shuffle_ratio",
      `one part of the ${side} patches of an edge`,
    );
    const innerSize = v.int("intermediate_size");
    v.check(
      innerSize === hiddenSize * merge ** 2,
      "intermediate_size",
      `what a block of patches has (${hiddenSize * merge ** 2})`,
    );
    const outSize = v.int("projector_output_dim");
    for (const name of ["projector_input_dim", "vision_output_dim"])
      v.check(v.int(name) === outSize, name, `that of projector_output_dim (${outSize})`);
    const rope = (v.raw.rope_parameters ?? {}) as Record<string, unknown>;
    const tower: TowerConfig = {
      hiddenSize,
      numLayers: v.int("num_hidden_layers"),
      numHeads,
      numKvHeads: numHeads,
      headDim,
      innerSize,
      activation: "gelu",
      norm: NORM,
      attention: { ...PLAIN_ATTENTION, qkvBias: true, outBias: true },
      attentionScale: headDim ** -0.5,
      mlp: { gateUp: null, up: "fc1", down: "fc2", hasBias: true, isTransposed: false, innerNorm: null },
      names: {
        layer: (i) => `model.layers.${i}`,
        attention: "self_attn",
        mlp: "mlp",
        attentionNorms: { before: "input_layernorm", after: null },
        mlpNorms: { before: "post_attention_layernorm", after: null },
      },
      patches: { size, block: 1, isChannelFirst: true, repeat: 1 },
      // Columns first.
      angles: halvedAngles(headDim, Number(rope.rope_theta ?? v.raw.rope_theta ?? 10_000)).map(
        ({ axis, frequency }) => ({
          axis: axis === "row" ? "column" : "row",
          frequency,
        }),
      ),
      turn: { isInterleaved: true, firstPlace: 1 },
    };
    const spec = {
      imageToken: c.int("image_token_index", c.has("image_token_id") ? c.int("image_token_id") : 200_092),
      patches: tower.patches,
      merge,
      isWhole: false,
      hasGrid: false,
      numRows: 1,
      maxTokens: (side / merge) ** 2,
      side,
    };
    return { tower, spec, textSize, outSize };
  },
  specOf: ({ spec }) => spec,
  load({ tower: plain, spec, textSize, outSize }, context) {
    const { device } = context;
    const { hiddenSize, patches, innerSize } = plain;
    const numPatches = spec.side! ** 2;
    const loader = new Loader({ ...context, capacity: towerCapacity(device, numPatches + 1) });
    const root = prefixOf(loader, ["vision_model.", "model.vision_model."], "class_embedding");
    const tower = { ...plain, names: { ...plain.names, layer: (i: number) => `${root}${plain.names.layer(i)}` } };
    // The checkpoint has the token of no patch behind the others; where it stands makes no difference.
    const table = loader.hostValues(`${root}positional_embedding_vlm`, [numPatches + 1, hiddenSize]);
    const last = table.subarray(numPatches * hiddenSize);
    const first = loader.hostValues(`${root}class_embedding`, [hiddenSize]).map((value, i) => value + last[i]!);
    const norm = (name: string) => loadNorm(loader, `${root}${name}`, hiddenSize, NORM);
    const loaded = loadTower(loader, tower, spec, {
      patch: loadPatchLinear(loader, `${root}patch_embedding.linear.weight`, [hiddenSize, 3 * patches.size ** 2], null),
      first,
      positionsOf: rasterPositions(table, hiddenSize, 0),
      before: norm("layernorm_pre"),
      after: norm("layernorm_post"),
    });
    const linear = (name: string, rows: number, cols: number) => loadLinear(loader, [{ name, rows }], cols);
    const adapter = `${root}vision_adapter.mlp`;
    const projector = prefixOf(loader, ["multi_modal_projector.", "model.multi_modal_projector."], "linear_1.weight");
    const shape = { hiddenSize, unit: spec.merge ** 2, gather: "concat", moments: ["end"] } as const;
    const projectors = [
      new Projector(device, loaded.maxRows, shape, [
        { linear: linear(`${adapter}.fc1`, outSize, innerSize), activation: "gelu" },
        { linear: linear(`${adapter}.fc2`, outSize, outSize), activation: "gelu" },
        { linear: linear(`${projector}linear_1`, textSize, outSize), activation: null },
      ]),
    ];
    return new TowerEyes({ device, spec, maxTokens: spec.maxTokens!, tower: loaded, projectors });
  },
};
