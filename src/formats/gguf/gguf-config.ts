// The metadata of a GGUF file as the config.json of the same model on Hugging Face, so that a model family reads one shape of
// configuration only. An architecture not listed, and a key not read, is refused by name.

import { FormatError } from "../../core/errors.js";
import type { TensorSource } from "../../core/tensor.js";
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
  keys.checkAllRead();
  return config;
}
