// Gemma 4. Other than Gemma 3: norm weights as they are, attention scores unscaled, value heads normed too; full layers have wider
// heads, rotated in part (a proportional rope), and may use their keys as values; the last layers may read the keys and values of earlier
// ones; each layer's output has a factor; the E models add per-layer embeddings, the A models experts beside each feed-forward.

import { ALL_AHEAD } from "../../core/attention-plan.js";
import type { Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import type { RopeConfig } from "../../formats/rope-config.js";
import { type AttentionShape, loadHeadNorms, SelfAttention } from "../blocks/attention.js";
import { ExpertsBesideMlp, readExpertsBeside } from "../blocks/experts-beside.js";
import { type Linear, loadLinear } from "../blocks/linear.js";
import type { MixtureConfig } from "../blocks/mixture.js";
import { loadMlp } from "../blocks/mlp.js";
import { loadNorm, type Norm, plainNorm } from "../blocks/norm.js";
import { PerLayerBranch, PerLayerInputs, type PerLayerShape } from "../blocks/per-layer-input.js";
import { type Layer, Residual } from "../blocks/residual.js";
import { Rotaries } from "../blocks/rotaries.js";
import { cappedVocabulary } from "../blocks/vocabulary.js";
import { type LayerCacheRef, layoutCaches } from "../cache-layout.js";
import { readCommon, specOf } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import { type DecoderConfig, llamaSettings } from "../decoder.js";
import { DecoderFrame } from "../decoder-frame.js";
import { readLayerTypes } from "../layer-windows.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily } from "../model.js";
import { readHeadRope } from "../rope.js";

/** Attention of layers with heads of their own, some of which read the keys and values of others. */
export interface SharingConfig extends DecoderConfig {
  readonly isSliding: readonly boolean[]; // [L]
  readonly shapes: readonly AttentionShape[]; // [L]
  /** The layer whose keys and values a layer reads; null: its own. */
  readonly sharedWith: readonly (number | null)[]; // [L]
  readonly areKeysValues: boolean;
}

interface Gemma4Config extends SharingConfig {
  readonly innerSizes: readonly number[]; // [L]
  /** Rope of full layers, rope of sliding layers, and the heads they turn. */
  readonly ropeDims: readonly number[];
  readonly perLayer: PerLayerShape | null;
  readonly mixture: MixtureConfig | null;
}

const DEFAULT_ROPES = {
  sliding_attention: { rope_type: "default", rope_theta: 1e4 },
  full_attention: { rope_type: "proportional", partial_rotary_factor: 0.25, rope_theta: 1e6 },
};

export const gemma4: ModelFamily<Gemma4Config> = {
  architectures: ["Gemma4ForCausalLM"],
  parseConfig(raw, file) {
    const c = new ConfigReader(
      { hidden_activation: "gelu_pytorch_tanh", rope_parameters: DEFAULT_ROPES, ...raw },
      file,
    );
    c.check(c.raw.use_bidirectional_attention !== "all", "use_bidirectional_attention", "null, vision");
    const plain = llamaSettings(c, readCommon(c, "Gemma4ForCausalLM", { isTied: true, headDim: 256 }));
    const { numLayers, maxContext, hiddenSize, headDim } = plain;
    const known = ["sliding_attention", "full_attention"];
    const types = readLayerTypes(c, numLayers, known, (layer) => known[(layer + 1) % 6 !== 0 ? 0 : 1]!);
    // The last layer sees everything, whatever the list says.
    const isSliding = types.map((type, layer) => type === "sliding_attention" && layer < numLayers - 1);
    const window = c.int("sliding_window", 512);
    const shapes = isSliding.map((sliding, layer) => readShape(c, plain, sliding, layer));
    const first = numLayers - c.count("num_kv_shared_layers", 0);
    const fullDim = shapes.find((_, layer) => !isSliding[layer])!.headDim;
    const ropes: RopeConfig[] = [
      readHeadRope(c, fullDim, "full_attention"),
      readHeadRope(c, headDim, "sliding_attention"),
    ];
    const isWide = c.bool("use_double_wide_mlp", false);
    const width = c.count("hidden_size_per_layer_input", 256);
    return {
      ...plain,
      isSliding,
      shapes,
      // In full layers a picture's tokens see what is before them, like text.
      mostAhead: isSliding.map((sliding) => (sliding ? ALL_AHEAD : 1)),
      windows: isSliding.map((sliding) => (sliding && window < maxContext ? window : 0)),
      ropes,
      ropeDims: [fullDim, headDim],
      ropeOf: isSliding.map((sliding) => (sliding ? 1 : 0)),
      sharedWith: isSliding.map((sliding, layer) => (layer < first ? null : isSliding.lastIndexOf(sliding, first - 1))),
      areKeysValues: c.bool("attention_k_eq_v", false),
      innerSizes: isSliding.map((_, layer) => plain.innerSize * (isWide && layer >= first && first > 0 ? 2 : 1)),
      embeddingScale: Math.sqrt(hiddenSize),
      finalSoftcap: c.number("final_logit_softcapping", 0),
      attention: { ...plain.attention, qkNorm: "head", qkvBias: c.bool("attention_bias", false) },
      mixture: readExpertsBeside(c, hiddenSize),
      perLayer:
        width === 0
          ? null
          : {
              hiddenSize,
              numLayers,
              width,
              vocabSize: c.int("vocab_size_per_layer_input", 262_144),
              activation: plain.activation,
              norm: plain.norm,
            },
    };
  },
  specOf: (config) => specOf(config, sharingCaches(config), config.ropes),
  load,
  ignoredTensors: unusedKeys,
};

/** Layers that read the keys and values of others may still come with the matrices they do not use. */
export function unusedKeys({ sharedWith }: SharingConfig): readonly RegExp[] {
  return sharedWith.flatMap((owner, layer) =>
    owner === null ? [] : [new RegExp(`\\.layers\\.${layer}\\.self_attn\\.(k_proj|v_proj|k_norm|v_norm)\\.`)],
  );
}

/** Full layers may have other heads: listed per layer, or by the fields of earlier configs. */
function readShape(c: ConfigReader, plain: DecoderConfig, isSliding: boolean, layer: number): AttentionShape {
  const { hiddenSize, numHeads, numKvHeads, headDim } = plain;
  const listed = c.raw.per_layer_config as Record<string, Record<string, unknown>> | null | undefined;
  const globals = { head_dim: c.raw.global_head_dim ?? 512, ...globalHeads(c) };
  const own = new ConfigReader(
    listed === null || listed === undefined ? (isSliding ? {} : globals) : (listed[layer] ?? {}),
    c.file,
  );
  const kvHeads = own.int("num_key_value_heads", numKvHeads);
  c.check(numHeads % kvHeads === 0, "num_key_value_heads", `a divisor of num_attention_heads (${numHeads})`);
  return { hiddenSize, numHeads, numKvHeads: kvHeads, headDim: own.int("head_dim", headDim) };
}

function globalHeads(c: ConfigReader): Record<string, unknown> {
  const isUsed = c.bool("attention_k_eq_v", false) && c.has("num_global_key_value_heads");
  return isUsed ? { num_key_value_heads: c.int("num_global_key_value_heads") } : {};
}

export function sharingCaches({ shapes, windows, mostAhead, sharedWith }: SharingConfig) {
  return layoutCaches(
    shapes.map(({ numHeads, numKvHeads, headDim }, layer) => {
      const owner = sharedWith[layer]!;
      const ahead = mostAhead === undefined ? {} : { mostAhead: mostAhead[layer]! };
      const need = { numHeads, numKvHeads, keyDim: headDim, valueDim: headDim, window: windows[layer]!, ...ahead };
      return owner === null ? need : { ...need, sharedWith: owner };
    }),
  );
}

function load(config: Gemma4Config, context: LoadContext): Model {
  const loader = new Loader(context);
  const root = loader.decoderPrefix();
  const { hiddenSize, norm } = config;
  const { places } = sharingCaches(config);
  const vocabulary = cappedVocabulary(loader, root, config);
  const rotaries = new Rotaries(loader, config.ropes, { headDim: config.ropeDims, maxContext: config.maxContext });
  const inputs = config.perLayer === null ? null : new PerLayerInputs(loader, root, config.perLayer);
  const layers = config.shapes.flatMap((_, layer): Layer[] => {
    const name = `${root}layers.${layer}`;
    const normOf = (part: string): Norm => loadNorm(loader, `${name}.${part}`, hiddenSize, norm);
    const attention = loadSharingAttention(config, loader, name, layer, places[layer]!, rotaries);
    const mlp = loadMlp(loader, `${name}.mlp`, { ...config, innerSize: config.innerSizes[layer]! }, config.mlp, {});
    const branch = inputs === null ? null : new PerLayerBranch(loader, name, layer, inputs, config.perLayer!);
    const feedForward =
      config.mixture === null
        ? new Residual(
            loader,
            hiddenSize,
            normOf("pre_feedforward_layernorm"),
            mlp,
            normOf("post_feedforward_layernorm"),
          )
        : new ExpertsBesideMlp(loader, name, mlp, config.mixture, norm);
    return [
      new Residual(loader, hiddenSize, normOf("input_layernorm"), attention, normOf("post_attention_layernorm")),
      feedForward,
      new LayerEnd(loader, hiddenSize, branch, loader.number(`${name}.layer_scalar`, [1])),
    ];
  });
  const finalNorm = loadNorm(loader, `${root}norm`, hiddenSize, norm);
  const all = inputs === null ? layers : [inputs, ...layers];
  return new DecoderFrame(loader, { spec: gemma4.specOf(config), vocabulary, rotaries, layers: all, finalNorm });
}

export function loadSharingAttention(
  config: SharingConfig,
  loader: Loader,
  layerName: string,
  layer: number,
  place: LayerCacheRef,
  rotaries: Rotaries,
): SelfAttention {
  const name = `${layerName}.self_attn`;
  const shape = config.shapes[layer]!;
  const { hiddenSize, numHeads, numKvHeads, headDim } = shape;
  const isShared = config.sharedWith[layer] !== null;
  const q = { name: `${name}.q_proj`, rows: numHeads * headDim };
  const k = { name: `${name}.k_proj`, rows: numKvHeads * headDim };
  // Where keys serve as values, the matrix is used twice: values are normed in another way.
  const v = config.areKeysValues && !config.isSliding[layer] ? k : { ...k, name: `${name}.v_proj` };
  const hasBias = config.attention.qkvBias;
  const out: Linear = loadLinear(loader, [{ name: `${name}.o_proj`, rows: hiddenSize }], q.rows, { hasBias });
  const weights = {
    qkv: loadLinear(loader, isShared ? [q] : [q, k, v], hiddenSize, { hasBias }),
    out,
    ...loadHeadNorms(loader, name, shape, config.attention, config.norm, isShared),
    vNorm: isShared ? null : plainNorm(loader, headDim, config.norm),
    hasGate: false,
    outNorm: null,
    isShared,
  };
  return new SelfAttention(loader, shape, weights, {
    place,
    rotary: rotaries.tables[config.ropeOf[layer]!]!,
    params: { numHeads, scale: 1, softcap: 0, sinks: null },
    isNormedAfterRotary: false,
    queryScale: null,
    keyScale: 1,
  });
}

/** x = scalar * (x + branch(x)). */
class LayerEnd implements Layer {
  readonly #device: Device;
  readonly #branch: PerLayerBranch | null;
  readonly #add: MapOp;
  readonly #scale: MapOp | null;
  readonly #added: Tensor; // [T, hidden]

  constructor(loader: Loader, hiddenSize: number, branch: PerLayerBranch | null, scalar: number) {
    this.#device = loader.device;
    this.#branch = branch;
    this.#add = loader.device.createMap({ kind: "add", scale: 1 });
    this.#scale = scalar === 1 ? null : loader.device.createMap({ kind: "scale", factor: scalar });
    this.#added = loader.scratch("branch", hiddenSize);
  }

  run(x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    if (this.#branch !== null) {
      this.#branch.run(this.#added, x, batch);
      this.#device.map(x, this.#add, x, this.#added, n);
    }
    if (this.#scale !== null) this.#device.map(x, this.#scale, x, null, n);
  }
}
