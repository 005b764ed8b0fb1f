// The tower of Pixtral, and Mistral 3, which sees with it: frames of all sizes, rows and columns as angles, gated feed-forwards. Mistral 3
// merges blocks of patches by a matrix of its own.

import { PLAIN_ATTENTION } from "../../blocks/attention.js";
import { loadLinear } from "../../blocks/linear.js";
import { GATED_MLP } from "../../blocks/mlp.js";
import { loadNorm, rmsStyle } from "../../blocks/norm.js";
import type { ConfigReader } from "../../config-reader.js";
import { Loader } from "../../loader.js";
import type { LoadContext } from "../../model.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { columnsMoved } from "../mapped-source.js";
import { Projector, type ProjectorStep } from "../projector.js";
import type { Angle } from "../tower.js";
import type { Eyes, EyesCapacity, VisionFamily, VisionSpec } from "../vision-model.js";
import { prefixOf, runLayers, sectionOf } from "./common.js";

const DEFAULTS = {
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  image_size: 1024,
  patch_size: 16,
  hidden_act: "gelu",
};

/** Frequencies of a head of `headDim` in turn: every other one for rows, the rest for columns. */
function pixtralAngles(headDim: number, theta: number): Angle[] {
  const f = Math.fround;
  const all = Array.from({ length: headDim / 2 }, (_, i) => f(1 / f(theta ** f((2 * i) / headDim))));
  const of = (axis: Angle["axis"], parity: number): Angle[] =>
    all.filter((_, i) => i % 2 === parity).map((frequency) => ({ axis, frequency }));
  return [...of("row", 0), ...of("column", 1)];
}

export function pixtralTower(v: ConfigReader, merge: number, runs: (numLayers: number) => number) {
  const hiddenSize = v.int("hidden_size", DEFAULTS.hidden_size);
  const numHeads = v.int("num_attention_heads", DEFAULTS.num_attention_heads);
  const headDim = v.int("head_dim", hiddenSize / numHeads);
  v.check(headDim % 4 === 0, "head_dim", "a multiple of 4");
  v.only("num_channels", 3);
  const size = v.int("patch_size", DEFAULTS.patch_size);
  const side = Math.floor(v.int("image_size", DEFAULTS.image_size) / size);
  const rope = (v.raw.rope_parameters ?? {}) as Record<string, unknown>;
  const theta = Number(rope.rope_theta ?? v.raw.rope_theta ?? 10_000);
  const tower: TowerConfig = {
    hiddenSize,
    numLayers: runs(v.int("num_hidden_layers", DEFAULTS.num_hidden_layers)),
    numHeads,
    numKvHeads: numHeads,
    headDim,
    innerSize: v.int("intermediate_size", DEFAULTS.intermediate_size),
    activation: v.activation("hidden_act", DEFAULTS.hidden_act),
    norm: rmsStyle(1e-5),
    attention: PLAIN_ATTENTION,
    attentionScale: headDim ** -0.5,
    mlp: GATED_MLP,
    names: {
      layer: (i) => `transformer.layers.${i}`,
      attention: "attention",
      mlp: "feed_forward",
      attentionNorms: { before: "attention_norm", after: null },
      mlpNorms: { before: "ffn_norm", after: null },
    },
    patches: { size, block: 1, isChannelFirst: true, repeat: 1 },
    angles: pixtralAngles(headDim, theta),
  };
  return { tower, maxTokens: Math.floor(side / merge) ** 2 };
}

interface PixtralConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
}

/** Eyes with this tower; `norm` is that of the projector, which norms each patch. */
export function loadPixtralEyes(
  { tower: plain, spec }: PixtralConfig,
  context: Omit<LoadContext, "capacity">,
  capacity: EyesCapacity,
  stepsOf: (loader: Loader) => ProjectorStep[],
  norm: { readonly names: readonly string[]; readonly eps: number } | null,
): Eyes {
  const maxTokens = Math.min(capacity.maxTokens, spec.maxTokens!);
  const loader = new Loader({ ...context, capacity: towerCapacity(context.device, maxTokens * spec.merge ** 2) });
  const { hiddenSize, patches } = plain;
  const root = prefixOf(loader, ["vision_tower.", "model.vision_tower."], "patch_conv.weight");
  const tower = { ...plain, names: { ...plain.names, layer: (i: number) => `${root}${plain.names.layer(i)}` } };
  const after =
    norm === null
      ? null
      : loadNorm(
          loader,
          norm.names.find((name) => loader.has(`${name}.weight`)) ?? norm.names[0]!,
          hiddenSize,
          rmsStyle(norm.eps),
        );
  const loaded = loadTower(loader, tower, spec, {
    patch: loadPatchLinear(loader, `${root}patch_conv.weight`, [hiddenSize, 3, patches.size, patches.size], null),
    first: null,
    positionsOf: null,
    before: loadNorm(loader, `${root}ln_pre`, hiddenSize, plain.norm),
    after,
  });
  const { device } = context;
  const shape = { hiddenSize, unit: spec.merge ** 2, gather: "concat", moments: ["end"] } as const;
  const projectors = [new Projector(device, loaded.maxRows, shape, stepsOf(loader))];
  return new TowerEyes({ device, spec, maxTokens, tower: loaded, projectors });
}

interface Mistral3Config extends PixtralConfig {
  readonly textSize: number;
  readonly activation: TowerConfig["activation"];
  readonly hasBias: boolean;
  readonly eps: number;
}

export const mistral3Eyes: VisionFamily<Mistral3Config> = {
  tensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
  parseConfig(raw, file) {
    const { c, v, text, textSize } = sectionOf(raw, file);
    const merge = c.int("spatial_merge_size", 2);
    const { tower, maxTokens } = pixtralTower(v, merge, (numLayers) => runLayers(c, numLayers, -1));
    const imageToken = c.int("image_token_index", c.has("image_token_id") ? c.int("image_token_id") : 10);
    const spec = {
      imageToken,
      patches: tower.patches,
      merge,
      isWhole: false,
      hasGrid: false,
      numRows: 1,
      maxTokens,
      side: null,
    };
    return {
      tower,
      spec,
      textSize,
      activation: c.activation("projector_hidden_act", "gelu"),
      hasBias: c.bool("multimodal_projector_bias", false),
      eps: text.number("rms_norm_eps", 1e-6),
    };
  },
  specOf: ({ spec }) => spec,
  load(config, context, capacity) {
    const { textSize, hasBias, activation, tower, spec } = config;
    const { hiddenSize } = tower;
    const roots = ["multi_modal_projector.", "model.multi_modal_projector."];
    const steps = (plain: Loader): ProjectorStep[] => {
      const root = prefixOf(plain, roots, "linear_1.weight");
      // The checkpoint has the patches of a token side by side number by number; here they come end to end.
      const unit = spec.merge ** 2;
      const columnOf = (i: number): number => (i % hiddenSize) * unit + Math.floor(i / hiddenSize);
      const change = columnsMoved(columnOf);
      const loader = plain.mapped(new Map([[`${root}patch_merger.merging_layer.weight`, change]]));
      const linear = (name: string, rows: number, cols: number, bias: boolean) =>
        loadLinear(loader, [{ name: `${root}${name}`, rows }], cols, { hasBias: bias });
      return [
        {
          linear: linear("patch_merger.merging_layer", hiddenSize, hiddenSize * unit, false),
          activation: null,
        },
        { linear: linear("linear_1", textSize, hiddenSize, hasBias), activation },
        { linear: linear("linear_2", textSize, textSize, hasBias), activation: null },
      ];
    };
    const norm = { names: roots.map((root) => `${root}norm`), eps: config.eps };
    return loadPixtralEyes(config, context, capacity, steps, norm);
  },
};
