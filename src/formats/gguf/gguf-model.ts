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
  /** What the model's makers suggest, as far as the file says. */
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
  return sampling;
}
