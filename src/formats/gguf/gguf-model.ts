// A GGUF file as a model: configuration and tensors as a Hugging Face folder would give them, metadata for the tokenizer.

import { basename } from "node:path";
import type { SamplingParams } from "../../core/sampling.js";
import type { TensorSource } from "../../core/tensor.js";
import { type GgufMetadata, openGguf } from "./gguf.js";
import { ggufConfig } from "./gguf-config.js";
import { ggufTensors } from "./gguf-tensors.js";

export interface GgufModel {
  readonly path: string;
  readonly name: string;
  readonly metadata: GgufMetadata;
  /** In the shape of config.json; `path` stands for its file in errors. */
  readonly config: Record<string, unknown>;
  /** What the model's makers suggest; where the file says nothing, what people are used to with such files. */
  readonly sampling: Partial<SamplingParams>;
  /** Tensors under their Hugging Face names. */
  readonly source: TensorSource;
}

const SAMPLING_KEYS = {
  temp: "temperature",
  top_k: "topK",
  top_p: "topP",
  min_p: "minP",
  penalty_repeat: "repetitionPenalty",
} as const;

/**
 * llama.cpp's and its kin's: models of few bits go astray at temperature 1 over the whole vocabulary, and a GGUF file has no
 * generation_config.json to say so.
 */
const USUAL = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 } as const;

export function openGgufModel(path: string): GgufModel {
  const file = openGguf(path);
  const config = ggufConfig(file.metadata, file.source);
  const source = ggufTensors(file.metadata.get("general.architecture") as string, config, file.source);
  return {
    path: file.path,
    name: basename(file.path).replace(/(-\d{5}-of-\d{5})?\.gguf$/, ""),
    metadata: file.metadata,
    config,
    sampling: readSampling(file.metadata),
    source,
  };
}

function readSampling(metadata: GgufMetadata): Partial<SamplingParams> {
  const sampling: { [name: string]: number } = {};
  for (const [key, name] of Object.entries(SAMPLING_KEYS)) {
    const value = metadata.get(`general.sampling.${key}`);
    if (typeof value === "number" && Number.isFinite(value) && value >= 0) sampling[name] = value;
  }
  return Object.keys(sampling).length === 0 ? USUAL : sampling;
}
