// The metadata of a GGUF file as the config.json of the same model on Hugging Face, so that a model family reads one shape of
// configuration only. An architecture not listed, and a key not read, is refused by name.

import { FormatError } from "../../core/errors.js";
import type { TensorSource } from "../../core/tensor.js";
import { ENCODERS } from "./architectures/encoders.js";
import { GEMMA } from "./architectures/gemma.js";
import { LATENT } from "./architectures/latent.js";
import { LAYER_NORM } from "./architectures/layer-norm.js";
import { MAMBA } from "./architectures/mamba.js";
import { MIXTURES } from "./architectures/mixtures.js";
import { PLAIN } from "./architectures/plain.js";
import { RECURRENT } from "./architectures/recurrent.js";
import type { GgufMetadata } from "./gguf.js";
import type { Config, GgufArchitectures } from "./gguf-architecture.js";
import { GgufKeys } from "./gguf-keys.js";

export const GGUF_ARCHITECTURES: GgufArchitectures = {
  ...PLAIN,
  ...LAYER_NORM,
  ...GEMMA,
  ...MIXTURES,
  ...LATENT,
  ...RECURRENT,
  ...MAMBA,
  ...ENCODERS,
};

/** The config.json that the metadata amounts to. `source` holds the file's tensors under their GGUF names. */
export function ggufConfig(metadata: GgufMetadata, source: TensorSource): Config {
  const architecture = metadata.get("general.architecture");
  const known = Object.keys(GGUF_ARCHITECTURES).join(", ");
  if (typeof architecture !== "string" || !Object.hasOwn(GGUF_ARCHITECTURES, architecture)) {
    throw new FormatError("unsupported_architecture", { value: String(architecture), known: `${known} (GGUF)` });
  }
  const keys = new GgufKeys(metadata, architecture, source.path);
  const config = GGUF_ARCHITECTURES[architecture]!.config(keys, source);
  // What is made of the states of a text (gguf-recipe.ts), and the names of its labels.
  keys.value("pooling_type");
  keys.value("classifier.output_labels");
  if (keys.value("attention.causal") === false && !Object.hasOwn(ENCODERS, architecture))
    throw keys.refuse("attention.causal", "true");
  keys.checkAllRead();
  return Object.hasOwn(ENCODERS, architecture) ? config : withLabels(config, source);
}

/** A decoder with a head for labels, as converters write Qwen3-Reranker: its two outputs are one score (gguf-tensors.ts). */
function withLabels(config: Config, source: TensorSource): Config {
  if (!source.has("cls.output.weight")) return config;
  const [outputs] = source.get("cls.output.weight").shape;
  const names = config.architectures as readonly string[];
  return {
    ...config,
    architectures: names.map((name) => name.replace("ForCausalLM", "ForSequenceClassification")),
    num_labels: outputs === 2 ? 1 : outputs,
  };
}
