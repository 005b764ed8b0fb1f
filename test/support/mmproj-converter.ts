// Turns the eyes of a small Hugging Face folder into the mmproj file that a converter would make of them, for tests. What a converter changes is
// written here on its own, as loops over elements, and shared with nothing in src/.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import { f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import { ModelFolder } from "../../src/formats/hf/model-folder.js";
import { type GgufTensor, type GgufValue, writeGguf } from "./gguf-writer.js";

// biome-ignore lint/suspicious/noExplicitAny: config.json as it is
type Raw = Record<string, any>;

interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

const TYPES: Readonly<Record<string, string>> = {
  LlavaForConditionalGeneration: "mlp",
  Mistral3ForConditionalGeneration: "pixtral",
  InternVLForConditionalGeneration: "internvl",
  SmolVLMForConditionalGeneration: "idefics3",
  Gemma3ForConditionalGeneration: "gemma3",
  Gemma4ForConditionalGeneration: "gemma4v",
  Qwen2_5_VLForConditionalGeneration: "qwen2.5vl_merger",
  Qwen3VLForConditionalGeneration: "qwen3vl_merger",
  Qwen3_5ForConditionalGeneration: "qwen3vl_merger",
};

/** Parts of a layer, of all families. */
const LAYER: readonly (readonly [RegExp, string])[] = [
  [/^(self_attn|attention|attn)\.([qkv])_(proj|norm)(\.linear)?/, ""],
  [/^attn\.qkv/, "attn_qkv"],
  [/^(self_attn\.(out|o)_proj(\.linear)?|attention\.(projection_layer|o_proj)|attn\.proj)/, "attn_out"],
  [/^(layer_norm1|layernorm_before|attention_norm|norm1|input_layernorm)/, "ln1"],
  [/^(layer_norm2|layernorm_after|ffn_norm|norm2|pre_feedforward_layernorm)/, "ln2"],
  [/^post_attention_layernorm/, "attn_post_norm"],
  [/^post_feedforward_layernorm/, "ffn_post_norm"],
  [/^lambda_1/, "ls1"],
  [/^lambda_2/, "ls2"],
  [/^(mlp|feed_forward)\.gate_proj(\.linear)?/, "ffn_gate"],
  [/^(mlp|feed_forward)\.(up_proj(\.linear)?|fc1|linear_fc1)/, "ffn_up"],
  [/^(mlp|feed_forward)\.(down_proj(\.linear)?|fc2|linear_fc2)/, "ffn_down"],
];

/** What is not in a layer. */
const OTHERS: readonly (readonly [RegExp, string])[] = [
  [
    /embeddings\.patch_embeddings?(\.projection)?\.|patch_conv\.|patch_embed\.proj\.|patch_embedder\.input_proj\./,
    "v.patch_embd.",
  ],
  [
    /embeddings\.position_embeddings?(\.weight)?$|pos_embed\.weight$|position_embedding_table$/,
    "v.position_embd.weight",
  ],
  [/embeddings\.(class_embedding|cls_token)$/, "v.class_embd"],
  [/(pre_layrnorm|ln_pre)\./, "v.pre_ln."],
  [/post_layernorm\.|merger\.(ln_q|norm)\./, "v.post_ln."],
  [/mm_soft_emb_norm\./, "mm.soft_emb_norm."],
  [/mm_input_projection_weight$|embedding_projection\.weight$/, "mm.input_projection.weight"],
  [/modality_projection\.proj\./, "mm.model.fc."],
  [/patch_merger\.merging_layer\./, "mm.patch_merger."],
  [/multi_modal_projector\.norm\./, "mm.input_norm."],
  [/merger\.(mlp\.0|linear_fc1)\./, "mm.0."],
  [/merger\.(mlp\.2|linear_fc2)\./, "mm.2."],
  [/std_bias$/, "v.std_bias"],
  [/std_scale$/, "v.std_scale"],
];

export function convertToMmproj(folder: string, dtype: "f32" | "f16" = "f32"): Buffer {
  const model = new ModelFolder(folder);
  const raw: Raw = model.config;
  const type = TYPES[raw.architectures[0]]!;
  const source = model.openTensors();
  const tensors: GgufTensor[] = [];
  for (const name of source.names()) {
    if (!/^(model\.)?(vision_tower|vision_model|visual|multi_modal_projector|connector|embed_vision)\./.test(name))
      continue;
    if (/\.head\.|position_ids$/.test(name)) continue;
    const tensor = source.get(name);
    for (const [own, values] of convert(type, raw, name, { shape: tensor.shape, values: toFloat32(tensor) }))
      tensors.push(encode(own, values, dtype));
  }
  source.close();
  return writeGguf(metadataOf(type, raw, model.readProcessor()!.raw), tensors);
}

function metadataOf(type: string, raw: Raw, processor: Raw): Record<string, GgufValue> {
  const v: Raw = raw.vision_config;
  const edge = (value: number | number[]): number => (Array.isArray(value) ? value[0]! : value);
  const size: Raw = processor.size ?? {};
  const activation = v.hidden_act ?? v.hidden_activation;
  const positions = Math.sqrt(v.num_position_embeddings ?? 0);
  return {
    "general.architecture": "clip",
    "general.type": "mmproj",
    "clip.has_vision_encoder": true,
    ...(type === "gemma4v" ? { "clip.vision.projector_type": type } : { "clip.projector_type": type }),
    "clip.vision.embedding_length": v.hidden_size,
    "clip.vision.feed_forward_length": v.intermediate_size,
    "clip.vision.block_count": v.num_hidden_layers ?? v.depth,
    "clip.vision.attention.head_count": v.num_attention_heads ?? v.num_heads,
    "clip.vision.attention.layer_norm_epsilon":
      v.layer_norm_eps ?? v.rms_norm_eps ?? (type === "pixtral" ? 1e-5 : 1e-6),
    "clip.vision.projection_dim": raw.text_config.hidden_size,
    "clip.vision.image_size": v.image_size === undefined ? positions * v.patch_size || 224 : edge(v.image_size),
    "clip.vision.patch_size": edge(v.patch_size),
    "clip.vision.image_mean": processor.image_mean,
    "clip.vision.image_std": processor.image_std,
    ...(/^gelu/.test(activation) ? { "clip.use_gelu": true } : {}),
    ...(activation === "silu" ? { "clip.use_silu": true } : {}),
    ...((raw.spatial_merge_size ?? v.spatial_merge_size)
      ? { "clip.vision.spatial_merge_size": raw.spatial_merge_size ?? v.spatial_merge_size }
      : {}),
    ...{
      mlp: () => ({ "clip.vision.feature_layer": [v.num_hidden_layers + 1 + raw.vision_feature_layer] }),
      pixtral: () => ({
        "clip.vision.preproc_image_size": size.longest_edge,
        "clip.vision.attention.head_dim": v.head_dim,
      }),
      internvl: () => ({
        "clip.vision.projector.scale_factor": 1 / raw.downsample_ratio,
        "clip.vision.preproc_max_tiles": processor.crop_to_patches ? processor.max_patches : 1,
      }),
      idefics3: () => ({
        "clip.vision.projector.scale_factor": raw.scale_factor,
        "clip.vision.preproc_image_size": size.longest_edge,
      }),
      gemma3: () => ({
        "clip.vision.projector.scale_factor": v.image_size / v.patch_size / Math.sqrt(raw.mm_tokens_per_image),
      }),
      gemma4v: () => ({
        "clip.vision.projector.scale_factor": v.pooling_kernel_size,
        "clip.vision.image_max_pixels": processor.max_soft_tokens * (v.patch_size * v.pooling_kernel_size) ** 2,
      }),
      "qwen2.5vl_merger": () => ({
        "clip.vision.n_wa_pattern": v.fullatt_block_indexes[0] + 1,
        "clip.vision.window_size": v.window_size,
        "clip.vision.image_min_pixels": size.shortest_edge,
        "clip.vision.image_max_pixels": size.longest_edge,
      }),
      qwen3vl_merger: () => ({
        "clip.vision.is_deepstack_layers": Array.from({ length: v.depth }, (_, i) =>
          (v.deepstack_visual_indexes ?? []).includes(i),
        ),
        "clip.vision.image_min_pixels": size.shortest_edge,
        "clip.vision.image_max_pixels": size.longest_edge,
      }),
    }[type]!(),
  };
}

function* convert(type: string, raw: Raw, name: string, tensor: Values): Generator<[string, Values]> {
  const v: Raw = raw.vision_config;
  const [, layer, rest] = /\.(?:layers|layer|blocks)\.(\d+)\.(.*)$/.exec(name) ?? [];
  if (layer !== undefined) {
    if (type === "mlp" && Number(layer) >= v.num_hidden_layers + 1 + raw.vision_feature_layer) return;
    yield* convertLayer(type, v, `v.blk.${layer}`, rest!, tensor);
    return;
  }
  const deep = /deepstack_merger_list\.(\d+)\.(norm|linear_(fc\d))\.(\w+)$/.exec(name);
  if (deep !== null) {
    yield [`v.deepstack.${v.deepstack_visual_indexes[Number(deep[1])]}.${deep[3] ?? "norm"}.${deep[4]}`, tensor];
    return;
  }
  const own = /multi_modal_projector\.(layer_norm|linear_(\d))\.(\w+)$/.exec(name);
  if (own !== null) {
    const number = own[2] === undefined ? 0 : Number(own[2]);
    const stem = { mlp: `mm.${2 * number - 2}`, pixtral: `mm.${number}` }[type] ?? `mm.model.mlp.${[0, 1, 3][number]}`;
    yield [`${stem}.${own[3]}`, tensor];
    return;
  }
  const found = OTHERS.find(([pattern]) => pattern.test(name));
  if (found === undefined) throw new Error(`what is ${name}?`);
  if (type === "mlp" && found[1] === "v.post_ln.") return;
  const to = found[1].endsWith(".") ? found[1] + name.split(".").at(-1)! : found[1];
  if (to === "v.patch_embd.weight") yield* patches(type, to, tensor, v.patch_size);
  else if (to === "mm.soft_emb_norm.weight") yield [to, { ...tensor, values: tensor.values.map((w) => w + 1) }];
  else if (to === "v.class_embd") yield [to, { ...tensor, shape: [tensor.values.length] }];
  else if (to === "v.position_embd.weight" && type === "internvl")
    yield [to, { ...tensor, shape: tensor.shape.slice(1) }];
  else yield [to, tensor];
}

function* convertLayer(type: string, v: Raw, stem: string, part: string, tensor: Values): Generator<[string, Values]> {
  const suffix = part.split(".").at(-1)!;
  const scalar = /put_m/.test(suffix) ? { ...tensor, shape: [1] } : tensor;
  const heads = /^(?:self_attn|attention|attn)\.([qkv])_(proj|norm)/.exec(part);
  if (heads !== null) {
    const name = `${stem}.attn_${heads[1]}${heads[2] === "norm" ? "_norm" : ""}.${suffix}`;
    const isTurned = type === "pixtral" && heads[1] !== "v";
    yield [name, isTurned ? paired(scalar, v.num_attention_heads) : scalar];
    return;
  }
  const own = LAYER.find(([pattern, name]) => name !== "" && pattern.test(part))![1];
  if (own === "attn_qkv" && type === "qwen2.5vl_merger") {
    const third = tensor.values.length / 3;
    const shape = [tensor.shape[0]! / 3, ...tensor.shape.slice(1)];
    for (const [i, letter] of ["q", "k", "v"].entries())
      yield [`${stem}.attn_${letter}.${suffix}`, { shape, values: tensor.values.slice(i * third, (i + 1) * third) }];
    return;
  }
  yield [/^ls/.test(own) ? `${stem}.${own}.weight` : `${stem}.${own}.${suffix}`, scalar];
}

/** First and second numbers of a pair side by side. */
function paired({ shape, values }: Values, numHeads: number): Values {
  const [rows, cols] = shape as [number, number];
  const dim = rows / numHeads;
  const out = new Float32Array(values.length);
  for (let head = 0; head < numHeads; head++) {
    for (let i = 0; i < dim / 2; i++) {
      for (const half of [0, 1]) {
        const from = (head * dim + half * (dim / 2) + i) * cols;
        out.set(values.subarray(from, from + cols), (head * dim + 2 * i + half) * cols);
      }
    }
  }
  return { shape, values: out };
}

function* patches(type: string, name: string, { shape, values }: Values, size: number): Generator<[string, Values]> {
  const hidden = shape[0]!;
  if (type === "gemma4v") {
    const out = new Float32Array(values.length);
    for (let h = 0; h < hidden; h++)
      for (let i = 0; i < size * size; i++)
        for (let c = 0; c < 3; c++) out[(h * 3 + c) * size * size + i] = values[(h * size * size + i) * 3 + c]!;
    yield [name, { shape: [hidden, 3, size, size], values: out }];
  } else if (type.startsWith("qwen")) {
    for (const frame of [0, 1]) {
      const out = new Float32Array(values.length / 2);
      for (let i = 0; i < hidden * 3; i++) {
        const from = (2 * i + frame) * size * size;
        out.set(values.subarray(from, from + size * size), i * size * size);
      }
      yield [frame === 0 ? name : `${name}.1`, { shape: [hidden, 3, size, size], values: out }];
    }
  } else yield [name, { shape, values }];
}

/** Matrices of layers and projectors in `dtype`, the rest in f32. */
function encode(name: string, { shape, values }: Values, dtype: "f32" | "f16"): GgufTensor {
  const isMatrix = shape.length === 2 && name.endsWith(".weight") && !name.includes("position_embd");
  if (dtype === "f32" || !isMatrix)
    return { name, dtype: "f32", shape, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
  return { name, dtype, shape, bytes: new Uint8Array(Uint16Array.from(values, f32ToF16).buffer) };
}
