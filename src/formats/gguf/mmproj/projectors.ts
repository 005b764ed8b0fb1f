// The kinds of mmproj, by their projector type: which fields of config.json their keys stand for, and how their tensors are called there.

import type { HostTensor, TensorSource } from "../../../core/tensor.js";
import type { GgufKeys } from "../gguf-keys.js";
import { channelsLast, filmPatch, lessOne, withLeadingOnes } from "./tower-tensors.js";

export type VisionFields = Readonly<Record<string, unknown>>;

interface Read {
  readonly config: Record<string, unknown> & { readonly vision_config: VisionFields };
  readonly processor: Record<string, unknown>;
}

export interface Projector {
  /** Texts of the token that stands for each token of a picture, the likeliest first. */
  readonly tokens: readonly string[];
  /** `text`: the text model's fields. */
  read(keys: GgufKeys, source: TensorSource, text: Readonly<Record<string, unknown>>): Read;
  /** Whole names. */
  readonly names: Readonly<Record<string, string>>;
  /** Other names; null: unknown. */
  nameOf?(name: string, v: VisionFields): string | null;
  readonly layerPrefix: string;
  /** Parts of a layer. */
  readonly layers: Readonly<Record<string, string>>;
  /** q, k and v are one matrix on Hugging Face. */
  readonly joinsQkv?: boolean;
  /** Rows of q and k are in the order of neighbouring pairs. */
  readonly isPermuted?: boolean;
  /** Before ".weight" of a layer's matrices. */
  readonly matrixSuffix?: string;
  /** Parts that have no suffix on Hugging Face. */
  readonly bare?: readonly string[];
  readonly ignored?: RegExp;
  restore?(tensor: HostTensor, name: string, v: VisionFields, file: TensorSource): HostTensor | null;
}

const both = (from: string, to: string): Record<string, string> => ({
  [`${from}.weight`]: `${to}.weight`,
  [`${from}.bias`]: `${to}.bias`,
});

/** Fields that all towers have. */
function common(keys: GgufKeys) {
  return {
    hidden_size: keys.size("vision.embedding_length"),
    intermediate_size: keys.size("vision.feed_forward_length"),
    num_hidden_layers: keys.size("vision.block_count", 4096),
    num_attention_heads: keys.size("vision.attention.head_count"),
    image_size: keys.size("vision.image_size"),
    patch_size: keys.size("vision.patch_size"),
    layer_norm_eps: keys.number("vision.attention.layer_norm_epsilon") ?? 1e-6,
  };
}

function colours(keys: GgufKeys) {
  return { image_mean: keys.value("vision.image_mean"), image_std: keys.value("vision.image_std") };
}

const isSet = (keys: GgufKeys, key: string): boolean => keys.value(key) === true;

const CLIP_LAYER = {
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_out: "self_attn.out_proj",
  ln1: "layer_norm1",
  ln2: "layer_norm2",
  ffn_up: "mlp.fc1",
  ffn_down: "mlp.fc2",
};

const clipNames = (root: string): Record<string, string> => ({
  ...both("v.patch_embd", `${root}embeddings.patch_embedding`),
  "v.position_embd.weight": `${root}embeddings.position_embedding.weight`,
  "v.class_embd": `${root}embeddings.class_embedding`,
  ...both("v.pre_ln", `${root}pre_layrnorm`),
  ...both("v.post_ln", `${root}post_layernorm`),
});

const llava: Projector = {
  tokens: ["<image>", "<|image|>", "<image_pad>"],
  read(keys, source) {
    const isClip = source.has("v.class_embd");
    const v = common(keys);
    const activation = isSet(keys, "use_gelu") ? "gelu_pytorch_tanh" : isSet(keys, "use_silu") ? "silu" : "quick_gelu";
    const layers = keys.value("vision.feature_layer") ?? v.num_hidden_layers; // those that nothing needs are not in the file
    const edge = v.image_size;
    return {
      config: {
        architectures: ["LlavaForConditionalGeneration"],
        vision_feature_layer: Array.isArray(layers) && layers.length === 1 ? layers[0] : layers,
        vision_feature_select_strategy: isClip ? "default" : "full",
        multimodal_projector_bias: source.has("mm.0.bias"),
        vision_config: {
          ...v,
          model_type: isClip ? "clip_vision_model" : "siglip_vision_model",
          hidden_act: activation,
        },
      },
      processor: {
        image_processor_type: isClip ? "CLIPImageProcessor" : "SiglipImageProcessor",
        ...colours(keys),
        size: isClip ? { shortest_edge: edge } : { height: edge, width: edge },
        ...(isClip ? { crop_size: { height: edge, width: edge } } : {}),
      },
    };
  },
  names: {
    ...clipNames("vision_tower."),
    ...both("mm.0", "multi_modal_projector.linear_1"),
    ...both("mm.2", "multi_modal_projector.linear_2"),
  },
  layerPrefix: "vision_tower.encoder.layers",
  layers: CLIP_LAYER,
};

const gemma3: Projector = {
  tokens: ["<image_soft_token>"],
  read(keys) {
    const v = common(keys);
    const merge = keys.number("vision.projector.scale_factor") ?? 4;
    const edge = v.image_size;
    return {
      config: {
        architectures: ["Gemma3ForConditionalGeneration"],
        mm_tokens_per_image: Math.floor(Math.floor(edge / v.patch_size) / merge) ** 2,
        vision_config: { ...v, model_type: "siglip_vision_model", hidden_act: "gelu_pytorch_tanh" },
      },
      processor: {
        image_processor_type: "Gemma3ImageProcessor",
        ...colours(keys),
        size: { height: edge, width: edge },
        resample: 2,
      },
    };
  },
  names: {
    ...clipNames("vision_tower."),
    "mm.input_projection.weight": "multi_modal_projector.mm_input_projection_weight",
    "mm.soft_emb_norm.weight": "multi_modal_projector.mm_soft_emb_norm.weight",
  },
  layerPrefix: "vision_tower.encoder.layers",
  layers: CLIP_LAYER,
  restore: (tensor, name) => (name.endsWith("mm_soft_emb_norm.weight") ? lessOne(tensor, name) : null),
};

const idefics3: Projector = {
  tokens: ["<image>"],
  read(keys) {
    const v = common(keys);
    const longest = keys.number("vision.preproc_image_size") ?? v.image_size;
    return {
      config: {
        architectures: ["Idefics3ForConditionalGeneration"],
        scale_factor: keys.number("vision.projector.scale_factor") ?? 2,
        vision_config: { ...v, hidden_act: "gelu_pytorch_tanh" },
      },
      processor: {
        image_processor_type: "Idefics3ImageProcessor",
        ...colours(keys),
        size: { longest_edge: longest },
        max_image_size: { longest_edge: v.image_size },
      },
    };
  },
  names: { ...clipNames("vision_model."), "mm.model.fc.weight": "connector.modality_projection.proj.weight" },
  layerPrefix: "vision_model.encoder.layers",
  layers: CLIP_LAYER,
};

const pixtral: Projector = {
  tokens: ["[IMG]"],
  read(keys, source, text) {
    const v = common(keys);
    const merge = keys.number("vision.spatial_merge_size") ?? 1;
    const isMerged = source.has("mm.patch_merger.weight");
    const patch = v.patch_size * merge;
    return {
      config: {
        architectures: [isMerged ? "Mistral3ForConditionalGeneration" : "LlavaForConditionalGeneration"],
        ...(isMerged ? { spatial_merge_size: merge } : { vision_feature_select_strategy: "full" }),
        vision_feature_layer: -1,
        multimodal_projector_bias: source.has("mm.1.bias"),
        vision_config: {
          ...v,
          model_type: "pixtral",
          hidden_act: isSet(keys, "use_silu") ? "silu" : "gelu",
          ...(keys.number("vision.attention.head_dim") === null
            ? {}
            : { head_dim: keys.number("vision.attention.head_dim") }),
        },
        rms_norm_eps: text.rms_norm_eps,
      },
      processor: {
        image_processor_type: "PixtralImageProcessor",
        ...colours(keys),
        size: { longest_edge: keys.number("vision.preproc_image_size") ?? v.image_size },
        patch_size: { height: patch, width: patch },
      },
    };
  },
  names: {
    "v.patch_embd.weight": "vision_tower.patch_conv.weight",
    "v.pre_ln.weight": "vision_tower.ln_pre.weight",
    "mm.input_norm.weight": "multi_modal_projector.norm.weight",
    "mm.patch_merger.weight": "multi_modal_projector.patch_merger.merging_layer.weight",
    ...both("mm.1", "multi_modal_projector.linear_1"),
    ...both("mm.2", "multi_modal_projector.linear_2"),
  },
  layerPrefix: "vision_tower.transformer.layers",
  layers: {
    attn_q: "attention.q_proj",
    attn_k: "attention.k_proj",
    attn_v: "attention.v_proj",
    attn_out: "attention.o_proj",
    ln1: "attention_norm",
    ln2: "ffn_norm",
    ffn_gate: "feed_forward.gate_proj",
    ffn_up: "feed_forward.up_proj",
    ffn_down: "feed_forward.down_proj",
  },
  isPermuted: true,
};

const internvl: Projector = {
  tokens: ["<IMG_CONTEXT>"],
  read(keys, source) {
    const v = common(keys);
    const most = keys.number("vision.preproc_max_tiles") ?? 12;
    // The largest of the family norms in another way, and nothing in the file says so.
    const isLarge = v.hidden_size === 3200 && v.num_hidden_layers === 45;
    return {
      config: {
        architectures: ["InternVLForConditionalGeneration"],
        downsample_ratio: 1 / (keys.number("vision.projector.scale_factor") ?? 2),
        vision_config: {
          ...v,
          image_size: [v.image_size, v.image_size],
          patch_size: [v.patch_size, v.patch_size],
          hidden_act: isSet(keys, "use_silu") ? "silu" : "gelu",
          attention_bias: source.has("v.blk.0.attn_q.bias"),
          use_qk_norm: source.has("v.blk.0.attn_q_norm.weight"),
          norm_type: isLarge ? "rms_norm" : "layer_norm",
        },
      },
      processor: {
        image_processor_type: "GotOcr2ImageProcessor",
        ...colours(keys),
        size: { height: v.image_size, width: v.image_size },
        crop_to_patches: most > 1,
        min_patches: keys.number("vision.preproc_min_tiles") ?? 1,
        max_patches: most,
      },
    };
  },
  names: {
    ...both("v.patch_embd", "vision_tower.embeddings.patch_embeddings.projection"),
    "v.position_embd.weight": "vision_tower.embeddings.position_embeddings",
    "v.class_embd": "vision_tower.embeddings.cls_token",
    "v.class_embd.weight": "vision_tower.embeddings.cls_token",
    ...both("mm.model.mlp.0", "multi_modal_projector.layer_norm"),
    ...both("mm.model.mlp.1", "multi_modal_projector.linear_1"),
    ...both("mm.model.mlp.3", "multi_modal_projector.linear_2"),
  },
  layerPrefix: "vision_tower.encoder.layer",
  layers: {
    attn_q: "attention.q_proj",
    attn_k: "attention.k_proj",
    attn_v: "attention.v_proj",
    attn_out: "attention.projection_layer",
    attn_q_norm: "attention.q_norm",
    attn_k_norm: "attention.k_norm",
    ln1: "layernorm_before",
    ln2: "layernorm_after",
    ls1: "lambda_1",
    ls2: "lambda_2",
    ffn_up: "mlp.fc1",
    ffn_down: "mlp.fc2",
  },
  bare: ["ls1", "ls2"],
  restore: (tensor, name) => (/(cls_token|position_embeddings)$/.test(name) ? withLeadingOnes(tensor, name, 3) : null),
};

/** Least and most pixels of Qwen's pictures, by the size of their patches. */
function qwenProcessor(keys: GgufKeys, patch: number, merge: number, least: number, most: number) {
  return {
    image_processor_type: "Qwen2VLImageProcessor",
    ...colours(keys),
    patch_size: patch,
    merge_size: merge,
    size: {
      shortest_edge: keys.number("vision.image_min_pixels") ?? least,
      longest_edge: keys.number("vision.image_max_pixels") ?? most,
    },
  };
}

const QWEN_LAYER = { attn_qkv: "attn.qkv", attn_out: "attn.proj", ln1: "norm1", ln2: "norm2" };

const qwenPatch = (tensor: HostTensor, name: string, file: TensorSource): HostTensor | null =>
  name.endsWith("patch_embed.proj.weight") && file.has("v.patch_embd.weight.1")
    ? filmPatch(tensor, file.get("v.patch_embd.weight.1"), name)
    : null;

const QWEN_TOKENS = ["<|image_pad|>"];

const qwen25: Projector = {
  tokens: QWEN_TOKENS,
  read(keys, _source, text) {
    const { image_size: _, patch_size, ...v } = common(keys);
    const merge = keys.number("vision.spatial_merge_size") ?? 2;
    const period = keys.size("vision.n_wa_pattern");
    const full = Array.from({ length: v.num_hidden_layers }, (_, i) => i).filter((i) => (i + 1) % period === 0);
    return {
      config: {
        architectures: ["Qwen2_5_VLForConditionalGeneration"],
        model_type: "qwen2_5_vl",
        vision_config: {
          ...v,
          depth: v.num_hidden_layers,
          num_heads: v.num_attention_heads,
          patch_size,
          hidden_act: isSet(keys, "use_gelu") ? "gelu" : "silu",
          spatial_merge_size: merge,
          fullatt_block_indexes: full,
          window_size: keys.number("vision.window_size") ?? 112,
          out_hidden_size: text.hidden_size,
        },
      },
      processor: qwenProcessor(keys, patch_size, merge, 56 * 56, 14 * 14 * 4 * 16384),
    };
  },
  names: {
    "v.patch_embd.weight": "visual.patch_embed.proj.weight",
    "v.post_ln.weight": "visual.merger.ln_q.weight",
    ...both("mm.0", "visual.merger.mlp.0"),
    ...both("mm.2", "visual.merger.mlp.2"),
  },
  layerPrefix: "visual.blocks",
  layers: { ...QWEN_LAYER, ffn_gate: "mlp.gate_proj", ffn_up: "mlp.up_proj", ffn_down: "mlp.down_proj" },
  joinsQkv: true,
  restore: (tensor, name, _v, file) => qwenPatch(tensor, name, file),
};

const qwen3: Projector = {
  tokens: QWEN_TOKENS,
  read(keys, source, text) {
    const { image_size: _, patch_size, ...v } = common(keys);
    const merge = keys.number("vision.spatial_merge_size") ?? 2;
    const marks = keys.value("vision.is_deepstack_layers");
    const deepstack = Array.isArray(marks) ? marks.flatMap((isDeep, i) => (isDeep === true ? [i] : [])) : [];
    return {
      config: {
        architectures: ["Qwen3VLForConditionalGeneration"],
        model_type: "qwen3_vl",
        vision_config: {
          ...v,
          depth: v.num_hidden_layers,
          num_heads: v.num_attention_heads,
          patch_size,
          hidden_act: "gelu_pytorch_tanh",
          spatial_merge_size: merge,
          num_position_embeddings: source.get("v.position_embd.weight").shape[0],
          deepstack_visual_indexes: deepstack,
          out_hidden_size: text.hidden_size,
        },
      },
      processor: qwenProcessor(keys, patch_size, merge, 256 * 256, 4096 * 4096),
    };
  },
  names: {
    ...both("v.patch_embd", "visual.patch_embed.proj"),
    "v.position_embd.weight": "visual.pos_embed.weight",
    ...both("v.post_ln", "visual.merger.norm"),
    ...both("mm.0", "visual.merger.linear_fc1"),
    ...both("mm.2", "visual.merger.linear_fc2"),
  },
  nameOf(name, v) {
    const [, layer, part, suffix] = /^v\.deepstack\.(\d+)\.(norm|fc1|fc2)\.(\w+)$/.exec(name) ?? [];
    const index = (v.deepstack_visual_indexes as number[]).indexOf(Number(layer));
    if (layer === undefined || index < 0) return null;
    return `visual.deepstack_merger_list.${index}.${part === "norm" ? "norm" : `linear_${part}`}.${suffix}`;
  },
  layerPrefix: "visual.blocks",
  layers: { ...QWEN_LAYER, ffn_up: "mlp.linear_fc1", ffn_down: "mlp.linear_fc2" },
  restore: (tensor, name, _v, file) => qwenPatch(tensor, name, file),
};

const gemma4: Projector = {
  tokens: ["<|image|>", "<image_soft_token>"],
  read(keys, source) {
    const { image_size: _, patch_size, layer_norm_eps, ...v } = common(keys);
    const merge = keys.number("vision.projector.scale_factor") ?? 3;
    const most = keys.number("vision.image_max_pixels");
    const position = source.get("v.position_embd.weight").shape;
    return {
      config: {
        architectures: ["Gemma4ForConditionalGeneration"],
        vision_config: {
          ...v,
          patch_size,
          rms_norm_eps: layer_norm_eps,
          num_key_value_heads: keys.number("vision.attention.head_count_kv") ?? v.num_attention_heads,
          head_dim: keys.number("vision.attention.head_dim") ?? v.hidden_size / v.num_attention_heads,
          pooling_kernel_size: merge,
          position_embedding_size: position[1],
          standardize: source.has("v.std_bias"),
          use_clipped_linears: source.has("v.blk.0.attn_q.input_max"),
        },
      },
      processor: {
        image_processor_type: "Gemma4ImageProcessor",
        patch_size,
        pooling_kernel_size: merge,
        max_soft_tokens: most === null ? 280 : Math.floor(most / (patch_size * merge) ** 2),
      },
    };
  },
  names: {
    "v.patch_embd.weight": "vision_tower.patch_embedder.input_proj.weight",
    "v.position_embd.weight": "vision_tower.patch_embedder.position_embedding_table",
    "v.std_bias": "vision_tower.std_bias",
    "v.std_scale": "vision_tower.std_scale",
    "mm.input_projection.weight": "embed_vision.embedding_projection.weight",
  },
  layerPrefix: "vision_tower.encoder.layers",
  layers: {
    attn_q: "self_attn.q_proj",
    attn_k: "self_attn.k_proj",
    attn_v: "self_attn.v_proj",
    attn_out: "self_attn.o_proj",
    attn_q_norm: "self_attn.q_norm",
    attn_k_norm: "self_attn.k_norm",
    attn_post_norm: "post_attention_layernorm",
    ffn_post_norm: "post_feedforward_layernorm",
    ln1: "input_layernorm",
    ln2: "pre_feedforward_layernorm",
    ffn_gate: "mlp.gate_proj",
    ffn_up: "mlp.up_proj",
    ffn_down: "mlp.down_proj",
  },
  matrixSuffix: ".linear",
  restore: (tensor, name) => (name.endsWith("input_proj.weight") ? channelsLast(tensor, name) : null),
};

export const projectors: Readonly<Record<string, Projector>> = {
  mlp: llava,
  gemma3,
  idefics3,
  pixtral,
  internvl,
  "qwen2.5vl_merger": qwen25,
  qwen3vl_merger: qwen3,
  gemma4v: gemma4,
};
