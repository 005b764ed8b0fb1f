// The tensors of a GGUF file under the names, and in the arrangement, that the same model has on Hugging Face.
//
// What a converter changed is undone here, lazily: the rows of llama's q and k (its rope pairs neighbours, Hugging Face's pairs
// halves), the one added to gemma's norms, the stacking of experts. Encodings stay: 4-bit weights stay 4-bit weights.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { FormatError } from "../../core/errors.js";
import type { HostTensor, TensorSource } from "../../core/tensor.js";
import { entryOf, madeTensor, permuteRows, renamed, sliceOuter, TensorTable } from "../tensor-views.js";
import type { Config, Naming } from "./gguf-architecture.js";
import { GGUF_ARCHITECTURES } from "./gguf-config.js";
import { joinLatent } from "./gguf-latent.js";
import { withScales } from "./gguf-scales.js";

/** Read into the configuration (gguf-rope.ts), or computed by the engine itself. */
const NOT_WEIGHTS = /^(rope_freqs|rope_factors_long|rope_factors_short|blk\.\d+\.attn_rot_embd)\.weight$/;

/** Heads that predict several tokens ahead: a layer behind the model's, with parts of its own. */
const NEXTN = /^blk\.(\d+)\.nextn\.(\w+)\.(weight)$/;
const NEXTN_NAMES: Readonly<Record<string, string>> = {
  eh_proj: "eh_proj",
  enorm: "enorm",
  hnorm: "hnorm",
  shared_head_norm: "shared_head.norm",
};
/** The architectures whose heads are read. */
const WITH_HEAD = new Set([
  "DeepseekV3ForCausalLM",
  "Glm4MoeForCausalLM",
  "Glm4MoeLiteForCausalLM",
  "Qwen3NextForCausalLM",
  "Qwen3_5ForCausalLM",
  "Qwen3_5MoeForCausalLM",
]);

/** The matrix that makes keys and values of a latent, in two parts. */
const LATENT_KEYS = /^blk\.(\d+)\.attn_k_b\.weight$/;
const LATENT_VALUES = /^blk\.\d+\.attn_v_b\.weight$/;

/** Parts that have no suffix in a file: those that are bare on Hugging Face too, and a norm of Falcon-H1's. */
const BARE = new Set(["ssm_a", "ssm_d"]);
const UNSUFFIXED_NORM = "ffn_norm";

/** `config` is what ggufConfig made of the same file. */
export function ggufTensors(architecture: string, config: Config, file: TensorSource): TensorSource {
  const { naming: given } = GGUF_ARCHITECTURES[architecture]!;
  const naming = typeof given === "function" ? given(config) : given;
  const source = withScales(file, (name) => ownScale(name, naming) !== null);
  const table = new TensorTable(source.path, () => source.close());
  const withHead =
    (config.architectures as readonly string[] | undefined)?.some((name) => WITH_HEAD.has(name)) ?? false;
  const isCut = config.num_nextn_predict_layers && !withHead;
  const numLayers = isCut ? (config.num_hidden_layers as number) : Number.POSITIVE_INFINITY;
  for (const name of source.names()) {
    if (NOT_WEIGHTS.test(name) || LATENT_VALUES.test(name)) continue;
    if (/^blk\.\d+\.nextn\./.test(name)) {
      if (withHead) addNextn(table, source.get(name), naming, config);
      continue;
    }
    if (Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? -1) >= numLayers) continue;
    const scale = ownScale(name, naming);
    if (scale !== null) {
      table.add(renamed(source.get(name), scale));
      continue;
    }
    const latent = LATENT_KEYS.exec(name);
    if (latent !== null) {
      const values = source.get(`blk.${latent[1]}.attn_v_b.weight`);
      table.add(joinLatent(source.get(name), values, `${naming.layerPrefix}.${latent[1]}.self_attn.kv_b_proj.weight`));
      continue;
    }
    if (name === "cls.output.weight" && !Object.hasOwn(naming.model, "cls.output")) {
      table.add(verdictOf(source.get(name)));
      continue;
    }
    for (const tensor of rename(source.get(name), naming, config)) table.add(tensor);
  }
  for (const tensor of naming.stated?.(config) ?? []) table.add(tensor);
  return table;
}

/** The model's own table and head serve a head's copies of them, too. */
function addNextn(table: TensorTable, tensor: HostTensor, naming: Naming, config: Config): void {
  const [, layer, part = "", suffix] = NEXTN.exec(tensor.name) ?? [];
  if (!Object.hasOwn(NEXTN_NAMES, part)) return;
  const name = `${naming.layerPrefix}.${layer}.${NEXTN_NAMES[part]}.${suffix}`;
  table.add(restored(tensor, name, part, naming, config));
}

/** What a scale that is a parameter of the model's own is called; null for any other tensor. */
function ownScale(name: string, { scales, layerPrefix }: Naming): string | null {
  const [, layer, part = ""] = /^blk\.(\d+)\.(\w+)\.scale$/.exec(name) ?? [];
  return scales !== undefined && Object.hasOwn(scales, part) ? `${layerPrefix}.${layer}.${scales[part]}` : null;
}

/** Rows of two tokens, "yes" and "no", as the matrix of one score: how much the first is more likely. */
function verdictOf(tensor: HostTensor): HostTensor {
  const [outputs, hidden] = tensor.shape as [number, number];
  if (outputs !== 2) return renamed(tensor, "score.weight");
  return madeTensor("score.weight", "f32", [1, hidden], () => {
    const values = toFloat32(tensor);
    return new Uint8Array(values.slice(0, hidden).map((yes, i) => yes - values[hidden + i]!).buffer);
  });
}

function rename(tensor: HostTensor, naming: Naming, config: Config): HostTensor[] {
  const match = /^(?:blk\.(\d+)\.)?((?:shortconv\.|cls\.(?=output|norm))?\w+?)(_exps|\.\d+)?(?:\.(weight|bias))?$/.exec(
    tensor.name,
  );
  const [, layer, part = "", expert, suffix = part === UNSUFFIXED_NORM ? "weight" : undefined] = match ?? [];
  if (suffix === undefined && !BARE.has(part)) throw unknown(tensor);
  if (expert !== undefined) return renameExperts(tensor, naming, config, { layer, part, expert, suffix: suffix! });
  const names = layer === undefined ? naming.model : naming.layer;
  if (!Object.hasOwn(names, part)) throw unknown(tensor);
  const stem = layer === undefined ? names[part]! : `${naming.layerPrefix}.${layer}.${names[part]}`;
  const own = suffix === undefined ? stem : `${stem}.${suffix}`;
  const restore = naming.restore?.[part];
  if (restore !== undefined) return restore(tensor, own, config);
  // The sinks are a bare parameter on Hugging Face, without a suffix.
  return [restored(tensor, part === "attn_sinks" ? stem : own, part, naming, config)];
}

/** Parts whose rows alone were rearranged, by a rule of the family's own. */
const ROWS_MOVED = new Set(["attn_qkv"]);

/**
 * What changes a matrix's rows as the file has them, a tensor called as the matrix, as the same for the matrices that Hugging Face has of it:
 * rows in their order, and apart where they are apart there. Throws for what is no matrix by itself, or whose columns were rearranged too.
 */
export function ggufRows(architecture: string, config: Config, tensor: HostTensor): HostTensor[] {
  const { naming: given } = GGUF_ARCHITECTURES[architecture]!;
  const naming = typeof given === "function" ? given(config) : given;
  const [, part] = /^(?:blk\.\d+\.)?(\w+)\.weight$/.exec(tensor.name) ?? [];
  const isMoved = part !== undefined && Object.hasOwn(naming.restore ?? {}, part);
  if (part === undefined || part.endsWith("_exps") || (isMoved && !ROWS_MOVED.has(part))) throw unknown(tensor);
  return rename(tensor, naming, config);
}

interface ExpertName {
  readonly layer: string | undefined;
  readonly part: string;
  readonly expert: string;
  readonly suffix: string;
}

function renameExperts(tensor: HostTensor, naming: Naming, config: Config, name: ExpertName): HostTensor[] {
  const { layer, part, expert, suffix } = name;
  const matrices =
    part === "ffn_gate_up" ? (["gate", "up"] as const) : [part.replace("ffn_", "") as "gate" | "up" | "down"];
  const isKnown = matrices.every((matrix) => Object.hasOwn(naming.experts, matrix));
  if (layer === undefined || !isKnown || config.num_local_experts === undefined) throw unknown(tensor);
  const nameOf = (matrix: "gate" | "up" | "down", e: number): string =>
    `${naming.layerPrefix}.${layer}.${naming.experts[matrix].replace("{e}", String(e))}.${suffix}`;
  // Older files hold each expert by itself: ffn_gate.0.weight.
  if (expert !== "_exps") return [renamed(tensor, nameOf(matrices[0]!, Number(expert.slice(1))))];
  return Array.from({ length: tensor.shape[0]! }, (_, e) => {
    const whole = entryOf(tensor, nameOf(matrices[0]!, e), e);
    const rows = whole.shape[0]! / matrices.length;
    return matrices.map((matrix, i) => sliceOuter(whole, nameOf(matrix, e), i * rows, rows));
  }).flat();
}

/** The tensor as Hugging Face has it. */
function restored(tensor: HostTensor, name: string, part: string, naming: Naming, config: Config) {
  if (naming.isPermuted && (part === "attn_q" || part === "attn_k")) {
    const heads = (part === "attn_q" ? config.num_attention_heads : config.num_key_value_heads) as number;
    const headDim = tensor.shape[0]! / heads;
    if (!Number.isInteger(headDim / 2)) {
      const found = `[${tensor.shape.join(", ")}]`;
      throw new FormatError("tensor_mismatch", {
        file: tensor.file?.path ?? "",
        tensor: tensor.name,
        expected: `rows of ${heads} heads`,
        found,
      });
    }
    return permuteRows(tensor, name, (row) => pairedRow(row, headDim));
  }
  if (naming.normsPlusOne && part.endsWith("norm") && part !== "ssm_norm" && name.endsWith(".weight")) {
    return madeTensor(name, "f32", tensor.shape, () => new Uint8Array(toFloat32(tensor).map((w) => w - 1).buffer));
  }
  return renamed(tensor, name);
}

/** Where a row of Hugging Face's order (first halves of all pairs, then second halves) lies when pairs are neighbours. */
function pairedRow(row: number, headDim: number): number {
  const inHead = row % headDim;
  const half = headDim / 2;
  return row - inHead + (inHead < half ? 2 * inHead : 2 * (inHead - half) + 1);
}

function unknown(tensor: HostTensor): FormatError {
  return new FormatError("unsupported_model_option", {
    file: tensor.file?.path ?? "",
    param: "tensor",
    value: tensor.name.slice(0, 100),
    known: "the tensors of this architecture",
  });
}
