// How texts become vectors or scores, as far as a GGUF file says: pooling, the dense layers of EmbeddingGemma, a reranker's question.

import type { Pooling } from "../../core/pooling.js";
import type { TensorSource } from "../../core/tensor.js";
import { type DenseModule, NO_RECIPE, type TextRecipe } from "../text-recipe.js";
import type { GgufMetadata } from "./gguf.js";

/** Numbers of pooling_type; 4 is that of rerankers, which say by their tensors what they are. */
const POOLINGS: Readonly<Record<number, Pooling>> = { 1: "mean", 2: "first", 3: "last" };

export function ggufRecipe(metadata: GgufMetadata, source: TensorSource): TextRecipe {
  const architecture = String(metadata.get("general.architecture"));
  const question = metadata.get("tokenizer.chat_template.rerank");
  return {
    ...NO_RECIPE,
    pooling: POOLINGS[Number(metadata.get(`${architecture}.pooling_type`) ?? 0)] ?? null,
    dense: ["dense_2", "dense_3"].flatMap((name) => denseOf(source, name)),
    ...(typeof question === "string" ? { isAsked: true, question } : {}),
  };
}

function denseOf(source: TensorSource, name: string): DenseModule[] {
  if (!source.has(`${name}.weight`)) return [];
  const [outputs, inputs] = source.get(`${name}.weight`).shape as [number, number];
  return [{ file: null, name, inputs, outputs, hasBias: false, activation: "identity" }];
}
