// InternVL's tower: learned positions after a token of no patch, and a factor for each number that a layer adds, which is multiplied into the
// layer's last matrices when they are loaded.

import { toFloat32 } from "../../../core/dequantize/dequantize.js";
import { PLAIN_ATTENTION } from "../../blocks/attention.js";
import { loadLinear } from "../../blocks/linear.js";
import { layerNormStyle, loadNorm, rmsStyle } from "../../blocks/norm.js";
import { Loader } from "../../loader.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { mappedSource, scaledRows } from "../mapped-source.js";
import { rasterPositions } from "../positions.js";
import { Projector } from "../projector.js";
import type { VisionFamily, VisionSpec } from "../vision-model.js";
import { edgeOf, prefixOf, runLayers, sectionOf } from "./common.js";

interface InternvlConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
  readonly hasLastNorm: boolean;
  readonly hasPositions: boolean;
  readonly textSize: number;
  readonly activation: TowerConfig["activation"];
}

const DEFAULTS = {
  hidden_size: 1024,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  intermediate_size: 4096,
  hidden_act: "gelu",
  layer_norm_eps: 1e-6,
  image_size: [448, 448],
  patch_size: [14, 14],
  norm_type: "layer_norm",
};

export const internvlEyes: VisionFamily<InternvlConfig> = {
  tensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
  parseConfig(raw, file) {
    const { c, v, textSize } = sectionOf(raw, file, DEFAULTS);
    const hiddenSize = v.int("hidden_size");
    const numHeads = v.int("num_attention_heads");
    v.check(hiddenSize % numHeads === 0, "num_attention_heads", `a divisor of hidden_size (${hiddenSize})`);
    v.only("num_channels", 3);
    v.only("use_mask_token", false);
    v.only("norm_type", "layer_norm", "rms_norm");
    const size = edgeOf(v, "patch_size");
    const side = Math.floor(edgeOf(v, "image_size") / size);
    const merge = Math.trunc(1 / c.number("downsample_ratio", 0.5));
    v.check(side % merge === 0, "image_size", `a multiple of ${merge} patches`);
    c.only("vision_feature_select_strategy", "default");
    const eps = v.number("layer_norm_eps");
    const hasBias = v.bool("attention_bias", false);
    const numLayers = v.int("num_hidden_layers");
    const tower: TowerConfig = {
      hiddenSize,
      numLayers: runLayers(c, numLayers, -1),
      numHeads,
      numKvHeads: numHeads,
      headDim: hiddenSize / numHeads,
      innerSize: v.int("intermediate_size"),
      activation: v.activation("hidden_act"),
      norm: v.raw.norm_type === "rms_norm" ? rmsStyle(eps) : layerNormStyle(eps),
      attention: {
        ...PLAIN_ATTENTION,
        qkvBias: hasBias,
        outBias: true,
        out: "projection_layer",
        qkNorm: v.bool("use_qk_norm", false) ? "all" : "none",
        qkNormStyle: rmsStyle(1e-6),
      },
      attentionScale: (hiddenSize / numHeads) ** -0.5,
      mlp: { gateUp: null, up: "fc1", down: "fc2", hasBias: true, isTransposed: false, innerNorm: null },
      names: {
        layer: (i) => `encoder.layer.${i}`,
        attention: "attention",
        mlp: "mlp",
        attentionNorms: { before: "layernorm_before", after: null },
        mlpNorms: { before: "layernorm_after", after: null },
      },
      patches: { size, block: 1, isChannelFirst: true, repeat: 1 },
      angles: null,
    };
    const maxTokens = (side / merge) ** 2;
    const imageToken = c.int("image_token_id", 151_667);
    return {
      tower,
      spec: { imageToken, patches: tower.patches, merge, isWhole: false, hasGrid: false, numRows: 1, maxTokens, side },
      // Features of an earlier layer are not normed.
      hasLastNorm: !v.bool("use_mean_pooling", true) && (c.raw.vision_feature_layer ?? -1) === -1,
      hasPositions: v.bool("use_absolute_position_embeddings", true),
      textSize,
      activation: c.activation("projector_hidden_act", "gelu"),
    };
  },
  specOf: ({ spec }) => spec,
  load(config, context) {
    const { tower: plain, spec, textSize, hasLastNorm } = config;
    const { hiddenSize, patches } = plain;
    const numPatches = spec.side! ** 2;
    const { source } = context;
    const { device } = context;
    const capacity = towerCapacity(device, numPatches + 1);
    const scaled = mappedSource(source, (tensor, name) => {
      const found = /^(.*\.layer\.\d+\.)(attention\.projection_layer|mlp\.fc2)\.(weight|bias)$/.exec(name);
      if (found === null) return tensor;
      const factors = source.get(`${found[1]}${found[2] === "mlp.fc2" ? "lambda_2" : "lambda_1"}`, [hiddenSize]);
      return scaledRows(tensor, toFloat32(factors));
    });
    const loader = new Loader({ ...context, source: scaled, capacity });
    const root = prefixOf(loader, ["vision_tower.", "model.vision_tower."], "embeddings.cls_token");
    const tower = { ...plain, names: { ...plain.names, layer: (i: number) => `${root}${plain.names.layer(i)}` } };
    const shape = [1, numPatches + 1, hiddenSize];
    const table = config.hasPositions
      ? loader.hostValues(`${root}embeddings.position_embeddings`, shape)
      : new Float32Array((numPatches + 1) * hiddenSize);
    const patch = `${root}embeddings.patch_embeddings.projection`;
    const bias = loader.hostValues(`${patch}.bias`, [hiddenSize]);
    // The bias of patches is added to the token of no patch too, and taken back here.
    const first = loader
      .hostValues(`${root}embeddings.cls_token`, [1, 1, hiddenSize])
      .map((value, i) => value + table[i]! - bias[i]!);
    const loaded = loadTower(loader, tower, spec, {
      patch: loadPatchLinear(loader, `${patch}.weight`, [hiddenSize, 3, patches.size, patches.size], `${patch}.bias`),
      first,
      positionsOf: rasterPositions(table, hiddenSize, 1),
      before: null,
      after: hasLastNorm ? loadNorm(loader, `${root}layernorm`, hiddenSize, layerNormStyle(plain.norm.eps)) : null,
    });
    const projector = prefixOf(loader, ["multi_modal_projector.", "model.multi_modal_projector."], "linear_1.weight");
    const inputs = hiddenSize * spec.merge ** 2;
    const linear = (name: string, cols: number) =>
      loadLinear(loader, [{ name: `${projector}${name}`, rows: textSize }], cols, { hasBias: true });
    const norm = loadNorm(loader, `${projector}layer_norm`, inputs, layerNormStyle(1e-5));
    const steps = [
      { norm, linear: linear("linear_1", inputs), activation: config.activation },
      { linear: linear("linear_2", textSize), activation: null },
    ];
    const gathered = { hiddenSize, unit: spec.merge ** 2, gather: "concat", moments: ["end"] } as const;
    const projectors = [new Projector(device, loaded.maxRows, gathered, steps)];
    return new TowerEyes({ device, spec, maxTokens: spec.maxTokens!, tower: loaded, projectors });
  },
  ignoredTensors: ({ hasLastNorm }) => (hasLastNorm ? [] : [/\.layernorm\.(weight|bias)$/, /\.layer\.\d+\./]),
};
