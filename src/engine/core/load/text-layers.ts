// The layers that a checkpoint puts after pooling, from its files: dense modules of an embedding model, the two rows of the head
// that a reranker's verdict is read from.

import { toFloat32 } from "../../../core/dequantize/dequantize.js";
import { FormatError } from "../../../core/errors.js";
import type { HostTensor, TensorSource } from "../../../core/tensor.js";
import { openSafetensors } from "../../../formats/hf/safetensors.js";
import { sliceOuter } from "../../../formats/tensor-views.js";
import type { DenseModule, VerdictTokens } from "../../../formats/text-recipe.js";
import { type HostLayer, hostActivation, hostLinear, inOrder } from "../../../models/blocks/host-layers.js";

/** null: nothing comes after pooling. `own` holds the model's tensors. */
export function denseLayers(modules: readonly DenseModule[], own: TensorSource): HostLayer | null {
  return modules.length === 0 ? null : inOrder(modules.flatMap((module) => loadDense(module, own)));
}

function loadDense({ file, name, inputs, outputs, hasBias, activation }: DenseModule, own: TensorSource): HostLayer[] {
  const source = file === null ? own : openSafetensors(file);
  try {
    const bias = hasBias ? toFloat32(source.get(`${name}.bias`, [outputs])) : null;
    const linear = hostLinear(toFloat32(source.get(`${name}.weight`, [outputs, inputs])), bias, outputs);
    return activation === "identity" ? [linear] : [linear, hostActivation(activation)];
  } finally {
    if (file !== null) source.close();
  }
}

const HEADS = /^(language_model\.)?lm_head\.weight$/;
const EMBEDDINGS = /(^|\.)(embed_tokens|wte|embeddings)\.weight$/;

/** The logit of `yes`, less that of `no`, of a final hidden state. */
export function verdictLayer(source: TensorSource, { yes, no }: VerdictTokens): HostLayer {
  const names = [...source.names()];
  const head =
    names.find((name) => HEADS.test(name)) ?? names.find((name) => EMBEDDINGS.test(name)) ?? "lm_head.weight";
  const table = source.get(head);
  const weights = rowOf(table, yes);
  if (no !== null) {
    const less = rowOf(table, no);
    for (let i = 0; i < weights.length; i++) weights[i]! -= less[i]!;
  }
  return hostLinear(weights, null, 1);
}

function rowOf(table: HostTensor, row: number): Float32Array {
  const rows = table.shape[0]!;
  if (row < 0 || row >= rows) {
    const expected = `a token id below ${rows}`;
    throw new FormatError("file_corrupt", { file: table.name, what: "verdict token", expected, found: row });
  }
  return toFloat32(sliceOuter(table, `${table.name} row ${row}`, row, 1));
}
