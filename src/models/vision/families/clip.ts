// The towers of CLIP and SigLIP, and LLaVA, Gemma 3 and SmolVLM (Idefics 3), which see with them: frames of one size, learned positions.

import { PLAIN_ATTENTION } from "../../blocks/attention.js";
import { Linear, loadLinear } from "../../blocks/linear.js";
import { layerNormStyle, loadNorm, rmsStyle } from "../../blocks/norm.js";
import type { ConfigReader } from "../../config-reader.js";
import { Loader } from "../../loader.js";
import type { LoadContext } from "../../model.js";
import { TowerEyes } from "../eyes.js";
import { loadPatchLinear, loadTower, type TowerConfig, towerCapacity } from "../load-tower.js";
import { bucketPlaces, rasterPositions } from "../positions.js";
import { type Gather, Projector, type ProjectorStep } from "../projector.js";
import type { Moment } from "../tower.js";
import type { Eyes, VisionFamily, VisionSpec } from "../vision-model.js";
import { prefixOf, runLayers, runLayersList, sectionOf } from "./common.js";
import { loadPixtralEyes, pixtralTower } from "./pixtral.js";

interface ClipConfig {
  readonly tower: TowerConfig;
  readonly spec: VisionSpec;
  /** CLIP has a token of no patch, a norm before its layers, and no bias of patches; SigLIP neither. */
  readonly isClip: boolean;
  /** The norm after the last layer is used. */
  readonly hasLastNorm: boolean;
  readonly textSize: number;
  /** Of LLaVA: after how many layers each of the features is taken that are put side by side. */
  readonly features?: readonly number[];
  /** Of Idefics: positions are found by the part of the edge. */
  readonly isBucketed?: boolean;
}

/** Fields of a CLIP or SigLIP tower of frames of one size. */
function readClip(v: ConfigReader, merge: number, runs: (numLayers: number) => number) {
  const side = Math.floor(v.int("image_size") / v.int("patch_size"));
  v.check(side >= merge && side % merge === 0, "image_size", `a multiple of ${merge} patches`);
  return { tower: clipTower(v, runs), side };
}

/** `runs`: how many of its layers are used. */
export function clipTower(v: ConfigReader, runs: (numLayers: number) => number): TowerConfig {
  const hiddenSize = v.int("hidden_size");
  const numHeads = v.int("num_attention_heads");
  v.check(hiddenSize % numHeads === 0, "num_attention_heads", `a divisor of hidden_size (${hiddenSize})`);
  v.only("num_channels", 3);
  const size = v.int("patch_size");
  const isQuick = v.raw.hidden_act === "quick_gelu";
  const headDim = hiddenSize / numHeads;
  return {
    hiddenSize,
    numLayers: runs(v.int("num_hidden_layers")),
    numHeads,
    numKvHeads: numHeads,
    headDim,
    innerSize: v.int("intermediate_size"),
    activation: isQuick ? "silu" : v.activation("hidden_act"),
    ...(isQuick ? { innerScale: 1.702 } : {}),
    norm: layerNormStyle(v.number("layer_norm_eps")),
    attention: { ...PLAIN_ATTENTION, qkvBias: true, outBias: true, out: "out_proj" },
    attentionScale: headDim ** -0.5,
    mlp: { gateUp: null, up: "fc1", down: "fc2", hasBias: true, isTransposed: false, innerNorm: null },
    names: {
      layer: (i) => `encoder.layers.${i}`,
      attention: "self_attn",
      mlp: "mlp",
      attentionNorms: { before: "layer_norm1", after: null },
      mlpNorms: { before: "layer_norm2", after: null },
    },
    patches: { size, block: 1, isChannelFirst: true, repeat: 1 },
    angles: null,
  };
}

const CLIP_DEFAULTS = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  image_size: 224,
  patch_size: 32,
  hidden_act: "quick_gelu",
  layer_norm_eps: 1e-5,
};
export const SIGLIP_DEFAULTS = {
  ...CLIP_DEFAULTS,
  patch_size: 16,
  hidden_act: "gelu_pytorch_tanh",
  layer_norm_eps: 1e-6,
};

function specOfClip(imageToken: number, side: number, merge: number, tower: TowerConfig, isWhole = false): VisionSpec {
  const maxTokens = (side / merge) ** 2;
  return { imageToken, patches: tower.patches, merge, isWhole, hasGrid: false, numRows: 1, maxTokens, side };
}

/** The tower under `root`, and how many tokens come before its patches. */
function loadClipTower(
  context: Omit<LoadContext, "capacity">,
  root: string,
  { tower: plain, spec, isClip, hasLastNorm, isBucketed = false }: ClipConfig,
) {
  const offset = isClip ? 1 : 0;
  const numPatches = spec.side! ** 2;
  const loader = new Loader({ ...context, capacity: towerCapacity(context.device, numPatches + offset) });
  const { hiddenSize, norm, patches } = plain;
  const named = (part: string): string => `${root}${part}`;
  const tower = { ...plain, names: { ...plain.names, layer: (i: number) => named(plain.names.layer(i)) } };
  const stored = loader.hostValues(named("embeddings.position_embedding.weight"), [numPatches + offset, hiddenSize]);
  const table = isBucketed ? bucketed(stored, spec.side!, hiddenSize) : stored;
  let first: Float32Array | null = null;
  if (isClip) {
    const row = loader.hostValues(named("embeddings.class_embedding"), [hiddenSize]);
    first = row.map((value, i) => value + table[i]!);
  }
  const patch = named("embeddings.patch_embedding");
  const shape = [hiddenSize, 3, patches.size, patches.size];
  const ends = {
    patch: loadPatchLinear(loader, `${patch}.weight`, shape, isClip ? null : `${patch}.bias`),
    first,
    positionsOf: rasterPositions(table, hiddenSize, offset),
    before: isClip ? loadNorm(loader, named("pre_layrnorm"), hiddenSize, norm) : null,
    after: hasLastNorm ? loadNorm(loader, named("post_layernorm"), hiddenSize, norm) : null,
  };
  return { loader, tower: loadTower(loader, tower, spec, ends) };
}

/** The rows of a square table in the order that patches of a full frame read them in. */
function bucketed(table: Float32Array, side: number, hiddenSize: number): Float32Array {
  const places = bucketPlaces(side);
  const out = new Float32Array(table.length);
  for (let i = 0; i < side * side; i++) {
    const from = (places[Math.floor(i / side)]! * side + places[i % side]!) * hiddenSize;
    out.set(table.subarray(from, from + hiddenSize), i * hiddenSize);
  }
  return out;
}

/** Of a tower that its projector reads before its end, or without its last norm. */
const UNUSED = [/\.head\./, /\.post_layernorm\./, /position_ids$/];

// --- LLaVA ---------------------------------------------------------------------------------------------------------

interface LlavaConfig extends ClipConfig {
  readonly isPixtral: boolean;
  readonly activation: TowerConfig["activation"];
  readonly hasBias: boolean;
}

export const llavaEyes: VisionFamily<LlavaConfig> = {
  tensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
  parseConfig(raw, file) {
    const { c, v, textSize } = sectionOf(raw, file, CLIP_DEFAULTS);
    const type = v.raw.model_type ?? "clip_vision_model";
    if (!["clip_vision_model", "siglip_vision_model", "pixtral"].includes(String(type)))
      throw v.refuse("vision_config.model_type", type, "clip_vision_model, siglip_vision_model, pixtral");
    const imageToken = c.int("image_token_index", c.has("image_token_id") ? c.int("image_token_id") : 32_000);
    const rest = {
      textSize,
      activation: c.activation("projector_hidden_act", "gelu"),
      hasBias: c.bool("multimodal_projector_bias", true),
    };
    const runs = (numLayers: number) => runLayers(c, numLayers, type === "pixtral" ? -1 : -2);
    if (type === "pixtral") {
      c.only("vision_feature_select_strategy", "full");
      const { tower, maxTokens } = pixtralTower(v, 1, runs);
      const spec = {
        imageToken,
        patches: tower.patches,
        merge: 1,
        isWhole: false,
        hasGrid: false,
        numRows: 1,
        maxTokens,
        side: null,
      };
      return { ...rest, tower, spec, isClip: false, isPixtral: true, hasLastNorm: false };
    }
    const isClip = type === "clip_vision_model";
    const own = isClip ? v : sectionOf(raw, file, SIGLIP_DEFAULTS).v;
    c.only("vision_feature_select_strategy", "default", "full");
    const isFull = c.raw.vision_feature_select_strategy === "full";
    let features: readonly number[] = [];
    const { tower, side } = readClip(own, 1, (numLayers) => {
      features = runLayersList(c, numLayers, -2);
      return Math.max(...features);
    });
    const plain = specOfClip(imageToken, side, 1, tower);
    const extraTokens = isClip === isFull ? (isClip ? 1 : -1) : 0;
    const spec = extraTokens === 0 ? plain : ({ ...plain, extraTokens, maxTokens: side ** 2 + extraTokens } as const);
    return { ...rest, tower, spec, isClip, isPixtral: false, hasLastNorm: false, features };
  },
  specOf: ({ spec }) => spec,
  load(config, context, capacity) {
    const {
      textSize,
      hasBias,
      activation,
      tower: { hiddenSize },
    } = config;
    const { features } = config;
    const inputs = hiddenSize * (features?.length ?? 1);
    const steps = (loader: Loader): ProjectorStep[] => {
      const root = prefixOf(loader, ["multi_modal_projector.", "model.multi_modal_projector."], "linear_1.weight");
      const first = loadLinear(loader, [{ name: `${root}linear_1`, rows: textSize }], inputs, { hasBias });
      const second = loadLinear(loader, [{ name: `${root}linear_2`, rows: textSize }], textSize, { hasBias });
      return [
        { linear: first, activation },
        { linear: second, activation: null },
      ];
    };
    if (config.isPixtral) return loadPixtralEyes(config, context, capacity, steps, null);
    const roots = [
      "vision_tower.",
      "vision_tower.vision_model.",
      "model.vision_tower.",
      "model.vision_tower.vision_model.",
    ];
    return loadFixed(config, context, roots, "concat", steps);
  },
  ignoredTensors: () => [
    ...UNUSED,
    /\.vision_tower\.(vision_model\.)?encoder\.layers\.\d+\./,
    /^vision_tower\.(vision_model\.)?encoder\.layers\.\d+\./,
  ],
};

/** Eyes with a tower of frames of one size. */
function loadFixed(
  config: ClipConfig,
  context: Omit<LoadContext, "capacity">,
  roots: readonly string[],
  gather: Gather,
  stepsOf: (loader: Loader) => ProjectorStep[],
): Eyes {
  const { spec, features } = config;
  const probe = new Loader({ ...context, capacity: { maxTokens: 1, maxLogitRows: 1 } });
  const root = prefixOf(probe, roots, "embeddings.position_embedding.weight");
  const { loader, tower } = loadClipTower(context, root, config);
  const { device } = context;
  const { hiddenSize } = config.tower;
  // A tower runs as far as its last feature.
  const moments: Moment[] = features?.map((runs) => (runs === Math.max(...features) ? "end" : runs)) ?? ["end"];
  const shape = { hiddenSize, unit: spec.merge ** 2, gather, moments };
  const projectors = [new Projector(device, tower.maxRows, shape, stepsOf(loader))];
  return new TowerEyes({ device, spec, maxTokens: spec.maxTokens!, tower, projectors });
}

// --- Gemma 3 -------------------------------------------------------------------------------------------------------

export const gemma3Eyes: VisionFamily<ClipConfig> = {
  tensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
  parseConfig(raw, file) {
    const { c, v, textSize } = sectionOf(raw, file, SIGLIP_DEFAULTS);
    const perImage = c.int("mm_tokens_per_image", 256);
    const across = Math.sqrt(perImage);
    c.check(Number.isInteger(across), "mm_tokens_per_image", "a square number");
    const merge = Math.floor(Math.floor(v.int("image_size") / v.int("patch_size")) / across);
    const { tower, side } = readClip(v, merge, (numLayers) => numLayers);
    v.check(side / merge === across, "image_size", `${across} times a whole number of patches`);
    const imageToken = c.int("image_token_index", c.has("image_token_id") ? c.int("image_token_id") : 262_144);
    return {
      tower,
      spec: specOfClip(imageToken, side, merge, tower, true),
      isClip: false,
      hasLastNorm: true,
      textSize,
    };
  },
  specOf: ({ spec }) => spec,
  load(config, context) {
    const { tower, textSize } = config;
    const roots = [
      "vision_tower.",
      "vision_tower.vision_model.",
      "model.vision_tower.",
      "model.vision_tower.vision_model.",
    ];
    return loadFixed(config, context, roots, "mean", (loader) => {
      const name = "mm_input_projection_weight";
      const root = prefixOf(loader, ["multi_modal_projector.", "model.multi_modal_projector."], name);
      const norm = loadNorm(loader, `${root}mm_soft_emb_norm`, tower.hiddenSize, rmsStyle(tower.norm.eps, 1));
      const part = { name: `${root}${name}`, rows: textSize, cols: tower.hiddenSize };
      const linear = new Linear(loader.device, loader.matrix([part], { transposed: true }), null);
      return [{ norm, linear, activation: null }];
    });
  },
  ignoredTensors: () => [/\.head\./, /position_ids$/],
};

// --- SmolVLM and Idefics 3 -----------------------------------------------------------------------------------------

export const smolvlmEyes: VisionFamily<ClipConfig> = {
  tensors: /^(model\.)?(vision_model|connector)\./,
  parseConfig(raw, file) {
    const { c, v, textSize } = sectionOf(raw, file, { ...SIGLIP_DEFAULTS, hidden_size: 1152, num_attention_heads: 16 });
    const merge = c.int("scale_factor", 2);
    const { tower, side } = readClip(v, merge, (numLayers) => numLayers);
    const spec = specOfClip(c.int("image_token_id", 128_257), side, merge, tower);
    return { tower, spec, isClip: false, hasLastNorm: true, textSize, isBucketed: true };
  },
  specOf: ({ spec }) => spec,
  load(config, context) {
    const { tower, spec, textSize } = config;
    return loadFixed(config, context, ["model.vision_model.", "vision_model."], "concat", (loader) => {
      const name = "modality_projection.proj";
      const root = prefixOf(loader, ["model.connector.", "connector."], `${name}.weight`);
      const linear = loadLinear(
        loader,
        [{ name: `${root}${name}`, rows: textSize }],
        tower.hiddenSize * spec.merge ** 2,
      );
      return [{ linear, activation: null }];
    });
  },
  ignoredTensors: () => [/\.head\./, /position_ids$/],
};
