// BERT, RoBERTa, XLM-RoBERTa and DistilBERT: every token sees the whole text; x = norm(x + f(x)) after attention and feed-forward;
// learned positions. They differ in names, in where positions begin, in types of tokens, and in the head of their classifiers.

import { loadAttention, PLAIN_ATTENTION, SelfAttention } from "../blocks/attention.js";
import { ADD } from "../blocks/block.js";
import { type HostLayer, hostActivation, inOrder } from "../blocks/host-layers.js";
import { loadMlp } from "../blocks/mlp.js";
import { layerNormStyle, loadNorm, Norm, type NormStyle } from "../blocks/norm.js";
import { PostNorm } from "../blocks/residual.js";
import { type CacheLayout, layoutBidirectional } from "../cache-layout.js";
import { type CommonConfig, refuseQuantization } from "../common-config.js";
import { ConfigReader, MAX_LAYERS } from "../config-reader.js";
import { encoderArchitectures, encoderSpec, readLabels } from "../encoder-config.js";
import { EncoderFrame } from "../encoder-frame.js";
import { Loader } from "../loader.js";
import type { LoadContext, Model, ModelFamily, ModelSpec } from "../model.js";

interface BertNames {
  readonly layers: string;
  readonly attention: string;
  readonly qkv: readonly string[];
  readonly out: string;
  readonly attentionNorm: string;
  readonly up: string;
  readonly down: string;
  readonly mlpNorm: string;
}

const BERT_NAMES: BertNames = {
  layers: "encoder.layer",
  attention: "attention",
  qkv: ["self.query", "self.key", "self.value"],
  out: "output.dense",
  attentionNorm: "attention.output.LayerNorm",
  up: "intermediate.dense",
  down: "output.dense",
  mlpNorm: "output.LayerNorm",
};

const DISTILBERT_NAMES: BertNames = {
  layers: "transformer.layer",
  attention: "attention",
  qkv: ["q_lin", "k_lin", "v_lin"],
  out: "out_lin",
  attentionNorm: "sa_layer_norm",
  up: "ffn.lin1",
  down: "ffn.lin2",
  mlpNorm: "output_layer_norm",
};

interface BertConfig extends CommonConfig {
  readonly names: BertNames;
  /** Prefix of the encoder's tensors in a checkpoint that holds more. */
  readonly prefix: string;
  readonly numTypes: number; // 0: the model has none
  readonly numPositions: number;
  /** The row of the table that is position 0. */
  readonly firstPosition: number;
  readonly numLabels: number; // 0: not a classifier
  readonly head: "pooler" | "classifier" | "pre_classifier";
}

interface BertKind {
  readonly base: string;
  readonly prefix: string;
  readonly head: BertConfig["head"];
  /** Positions begin after that of padding. */
  readonly isAfterPadding: boolean;
  readonly padId: number;
}

function bertFamily(kind: BertKind): ModelFamily<BertConfig> {
  const { base } = kind;
  return {
    architectures: encoderArchitectures(base),
    parseConfig(raw, file) {
      const c = new ConfigReader({ ...BERT_DEFAULTS, ...raw }, file);
      refuseOtherForwards(c);
      const numPositions = c.int("max_position_embeddings");
      const ownFirst = kind.isAfterPadding ? c.count("pad_token_id", kind.padId) + 1 : 0;
      const firstPosition = c.count("first_position", ownFirst); // a GGUF file's table begins with it, and says so
      c.check(firstPosition < numPositions, "pad_token_id", `below max_position_embeddings (${numPositions}) less one`);
      return {
        ...sizesOf(c, "num_attention_heads", {
          hiddenSize: c.int("hidden_size"),
          numLayers: c.int("num_hidden_layers", undefined, MAX_LAYERS),
          innerSize: c.int("intermediate_size"),
        }),
        architecture: `${base}Model`,
        maxContext: numPositions - firstPosition,
        eps: c.number("layer_norm_eps"),
        activation: c.activation("hidden_act"),
        names: BERT_NAMES,
        prefix: kind.prefix,
        numTypes: c.count("type_vocab_size"),
        numPositions,
        firstPosition,
        numLabels: readLabels(c, base),
        head: kind.head,
      };
    },
    specOf: bertSpec,
    load,
    ignoredTensors,
  };
}

const BERT_DEFAULTS = {
  hidden_size: 768,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  intermediate_size: 3072,
  hidden_act: "gelu",
  max_position_embeddings: 512,
  type_vocab_size: 2,
  layer_norm_eps: 1e-12,
};

export const bert = bertFamily({ base: "Bert", prefix: "bert.", head: "pooler", isAfterPadding: false, padId: 0 });
const ROBERTA = { prefix: "roberta.", head: "classifier", isAfterPadding: true, padId: 1 } as const;
export const roberta = bertFamily({ base: "Roberta", ...ROBERTA });
export const xlmRoberta = bertFamily({ base: "XLMRoberta", ...ROBERTA });
export const camembert = bertFamily({ base: "Camembert", ...ROBERTA });

export const distilbert: ModelFamily<BertConfig> = {
  architectures: encoderArchitectures("DistilBert"),
  parseConfig(raw, file) {
    const defaults = { dim: 768, n_layers: 6, n_heads: 12, hidden_dim: 3072, activation: "gelu" };
    const c = new ConfigReader({ max_position_embeddings: 512, ...defaults, ...raw }, file);
    refuseOtherForwards(c);
    const numPositions = c.int("max_position_embeddings");
    return {
      ...sizesOf(c, "n_heads", {
        hiddenSize: c.int("dim"),
        numLayers: c.int("n_layers", undefined, MAX_LAYERS),
        innerSize: c.int("hidden_dim"),
      }),
      architecture: "DistilBertModel",
      maxContext: numPositions,
      eps: 1e-12,
      activation: c.activation("activation"),
      names: DISTILBERT_NAMES,
      prefix: "distilbert.",
      numTypes: 0,
      numPositions,
      firstPosition: 0,
      numLabels: readLabels(c, "DistilBert"),
      head: "pre_classifier",
    };
  },
  specOf: bertSpec,
  load,
  ignoredTensors,
};

function refuseOtherForwards(c: ConfigReader): void {
  refuseQuantization(c);
  c.only("is_decoder", false);
  c.only("add_cross_attention", false);
  c.only("position_embedding_type", "absolute");
}

function sizesOf(
  c: ConfigReader,
  headsField: string,
  sizes: { readonly hiddenSize: number; readonly numLayers: number; readonly innerSize: number },
) {
  const { hiddenSize } = sizes;
  const numHeads = c.int(headsField);
  c.check(hiddenSize % numHeads === 0, headsField, `a divisor of the hidden size (${hiddenSize})`);
  const headDim = hiddenSize / numHeads;
  return { ...sizes, numHeads, numKvHeads: numHeads, headDim, vocabSize: c.int("vocab_size"), isTied: true };
}

function cachesOf({ numLayers, numHeads, headDim }: BertConfig): CacheLayout {
  const need = { numHeads, numKvHeads: numHeads, keyDim: headDim, valueDim: headDim, window: 0 };
  return layoutBidirectional(new Array(numLayers).fill(need));
}

function bertSpec(config: BertConfig): ModelSpec {
  return encoderSpec(config, cachesOf(config), []);
}

/** What stands on top of the encoder for other tasks. The pooler belongs to a classifier's head, where it has one. */
function ignoredTensors({ numLabels, head }: BertConfig): readonly RegExp[] {
  const others = [/^cls\./, /^lm_head\./, /^vocab_/, /(^|\.)embeddings\.position_ids$/];
  return numLabels > 0 && head === "pooler" ? others : [...others, /(^|\.)pooler\.dense\./];
}

function load(config: BertConfig, context: LoadContext): Model {
  const loader = new Loader(context);
  const { hiddenSize, vocabSize, names, numTypes, numPositions, firstPosition, numHeads } = config;
  const root = loader.has("embeddings.word_embeddings.weight") ? "" : config.prefix;
  const style = layerNormStyle(config.eps);
  const attention = { ...PLAIN_ATTENTION, qkvBias: true, outBias: true, qkv: names.qkv, out: names.out };
  const mlp = { gateUp: null, up: names.up, down: names.down, hasBias: true, isTransposed: false, innerNorm: null };
  const { places } = cachesOf(config);
  const layers = places.flatMap((place, layer) => {
    const name = `${root}${names.layers}.${layer}`;
    const weights = loadAttention(loader, `${name}.${names.attention}`, config, attention, style, ADD);
    const heads = new SelfAttention(loader, config, weights, {
      place: place!,
      rotary: null,
      params: { numHeads, scale: 1 / Math.sqrt(config.headDim), softcap: 0, sinks: null },
      isNormedAfterRotary: false,
      queryScale: null,
      keyScale: 1,
    });
    const norm = (part: string) => loadBertNorm(loader, `${name}.${part}`, hiddenSize, style);
    return [
      new PostNorm(heads, norm(names.attentionNorm)),
      new PostNorm(loadMlp(loader, name, config, mlp, ADD), norm(names.mlpNorm)),
    ];
  });
  const table = (part: string, rows: number, rowOf?: (row: number) => number) =>
    loader.smallTable({ name: `${root}embeddings.${part}.weight`, rows, cols: hiddenSize, ...(rowOf && { rowOf }) });
  return new EncoderFrame(loader, {
    spec: bertSpec(config),
    words: loader.table(`${root}embeddings.word_embeddings.weight`, vocabSize, hiddenSize),
    types: numTypes === 0 ? null : table("token_type_embeddings", numTypes),
    // Turned so that position 0 is the first row.
    positions: table("position_embeddings", numPositions, (row) => (row + firstPosition) % numPositions),
    embeddingNorm: loadBertNorm(loader, `${root}embeddings.LayerNorm`, hiddenSize, style),
    rotaries: null,
    layers,
    finalNorm: null,
    scorer: config.numLabels === 0 ? null : loadScorer(loader, config, root),
  });
}

/** The oldest checkpoints call the weights and biases of norms gamma and beta. */
function loadBertNorm(loader: Loader, name: string, size: number, style: NormStyle): Norm {
  if (!loader.has(`${name}.gamma`)) return loadNorm(loader, name, size, style);
  return new Norm(loader.device, loader.vector(`${name}.gamma`, size), loader.vector(`${name}.beta`, size), style.eps);
}

/** Of the first token: a dense layer, then one number for each label. */
function loadScorer(loader: Loader, { head, hiddenSize, numLabels }: BertConfig, root: string): HostLayer {
  const dense = { pooler: `${root}pooler.dense`, classifier: "classifier.dense", pre_classifier: "pre_classifier" }[
    head
  ];
  const out = head === "classifier" ? "classifier.out_proj" : "classifier";
  const layers = [
    loader.hostLinear(dense, hiddenSize, hiddenSize),
    hostActivation(head === "pre_classifier" ? "relu" : "tanh"),
    loader.hostLinear(out, numLabels, hiddenSize),
  ];
  return inOrder(layers);
}
