// LFM2-VL's eyes: a SigLIP 2 tower for frames of all sizes, whose learned positions are resized as pictures are, and blocks of patches that
// become tokens.

import { loadLinear } from "../../blocks/linear.js";
import { layerNormStyle, loadNorm } from "../../blocks/norm.js";
import { Loader } from "../../loader.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { resizedPositions } from "../positions.js";
import { Projector } from "../projector.js";
import type { VisionFamily, VisionSpec } from "../vision-model.js";
import { clipTower, SIGLIP_DEFAULTS } from "./clip.js";
import { prefixOf, sectionOf } from "./common.js";

interface Lfm2VlConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
  readonly numPositions: number;
  readonly textSize: number;
  readonly innerSize: number;
  readonly activation: TowerConfig["activation"];
  readonly hasBias: boolean;
  readonly hasNorm: boolean;
}

const ROOTS = [
  "vision_tower.",
  "vision_tower.vision_model.",
  "model.vision_tower.",
  "model.vision_tower.vision_model.",
];

export const lfm2VlEyes: VisionFamily<Lfm2VlConfig> = {
  tensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
  parseConfig(raw, file) {
    const { c, v, textSize } = sectionOf(raw, file, { ...SIGLIP_DEFAULTS, num_patches: 256 });
    const plain = clipTower(v, (numLayers) => numLayers);
    const tower = { ...plain, patches: { ...plain.patches, isChannelFirst: false } };
    const numPositions = v.int("num_patches");
    v.check(Number.isInteger(Math.sqrt(numPositions)), "num_patches", "a square number");
    const spec = {
      imageToken: c.int("image_token_id", 396),
      patches: tower.patches,
      merge: c.int("downsample_factor", 2),
      isWhole: false,
      hasGrid: false,
      numRows: 1,
      maxTokens: null,
      side: null,
    };
    return {
      tower,
      spec,
      numPositions,
      textSize,
      innerSize: c.int("projector_hidden_size", 2560),
      activation: c.activation("projector_hidden_act", "gelu"),
      hasBias: c.bool("projector_bias", true),
      hasNorm: c.bool("projector_use_layernorm", true),
    };
  },
  specOf: ({ spec }) => spec,
  load(config, context, { maxTokens }) {
    const { tower: plain, spec, numPositions, textSize, innerSize, activation, hasBias } = config;
    const { device } = context;
    const { hiddenSize, patches, norm } = plain;
    const unit = spec.merge ** 2;
    const loader = new Loader({ ...context, capacity: towerCapacity(device, maxTokens * unit) });
    const root = prefixOf(loader, ROOTS, "embeddings.position_embedding.weight");
    const tower = { ...plain, names: { ...plain.names, layer: (i: number) => `${root}${plain.names.layer(i)}` } };
    const table = loader.hostValues(`${root}embeddings.position_embedding.weight`, [numPositions, hiddenSize]);
    const patch = `${root}embeddings.patch_embedding`;
    const loaded = loadTower(loader, tower, spec, {
      patch: loadPatchLinear(loader, `${patch}.weight`, [hiddenSize, 3 * patches.size ** 2], `${patch}.bias`),
      first: null,
      positionsOf: resizedPositions(table, hiddenSize),
      before: null,
      after: loadNorm(loader, `${root}post_layernorm`, hiddenSize, norm),
    });
    const name = prefixOf(loader, ["multi_modal_projector.", "model.multi_modal_projector."], "linear_1.weight");
    const inputs = hiddenSize * unit;
    const linear = (part: string, rows: number, cols: number) =>
      loadLinear(loader, [{ name: `${name}${part}`, rows }], cols, { hasBias });
    const projectorNorm = config.hasNorm
      ? { norm: loadNorm(loader, `${name}layer_norm`, inputs, layerNormStyle(1e-5)) }
      : {};
    const projectors = [
      new Projector(device, loaded.maxRows, { hiddenSize, unit, gather: "concat", moments: ["end"] }, [
        { ...projectorNorm, linear: linear("linear_1", innerSize, inputs), activation },
        { linear: linear("linear_2", textSize, innerSize), activation: null },
      ]),
    ];
    return new TowerEyes({ device, spec, maxTokens, tower: loaded, projectors });
  },
  ignoredTensors: () => [/\.head\./],
};
