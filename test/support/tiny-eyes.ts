// Towers of every family in small odd sizes, for random weights: configs, and sizes of frames that they take.

type Size = readonly [width: number, height: number];

interface TinyEyes {
  readonly config: Record<string, unknown>;
  /** Names of other forms of a checkpoint. */
  readonly absent?: RegExp;
  readonly sizes: readonly Size[];
}

const text_config = { hidden_size: 20, rms_norm_eps: 1e-6 };
const of = (architecture: string, config: Record<string, unknown>, sizes: readonly Size[]): TinyEyes => ({
  config: { architectures: [architecture], text_config, image_token_id: 5, ...config },
  sizes,
});
const CLIP = { hidden_size: 24, intermediate_size: 40, num_attention_heads: 3, num_hidden_layers: 3 };
const SQUARES: readonly Size[] = [
  [42, 42],
  [42, 42],
  [42, 42],
];
const QWEN = { hidden_size: 24, intermediate_size: 40, num_heads: 2, depth: 3, out_hidden_size: 20 };

export const TINY_EYES: Readonly<Record<string, TinyEyes>> = {
  llava: of(
    "LlavaForConditionalGeneration",
    {
      vision_feature_layer: [-1, 1],
      vision_config: { ...CLIP, model_type: "clip_vision_model", image_size: 42, patch_size: 7 },
    },
    SQUARES,
  ),
  gemma3: of(
    "Gemma3ForConditionalGeneration",
    {
      mm_tokens_per_image: 4,
      vision_config: { ...CLIP, model_type: "siglip_vision_model", image_size: 42, patch_size: 7 },
    },
    SQUARES,
  ),
  smolvlm: of(
    "SmolVLMForConditionalGeneration",
    { scale_factor: 3, vision_config: { ...CLIP, image_size: 42, patch_size: 7 } },
    SQUARES,
  ),
  internvl: of(
    "InternVLForConditionalGeneration",
    { vision_config: { ...CLIP, use_qk_norm: true, image_size: [42, 42], patch_size: [7, 7] } },
    SQUARES,
  ),
  mistral3: of(
    "Mistral3ForConditionalGeneration",
    { vision_config: { ...CLIP, head_dim: 12, model_type: "pixtral", image_size: 70, patch_size: 7 } },
    [
      [28, 42],
      [14, 14],
      [42, 28],
    ],
  ),
  gemma4: of(
    "Gemma4ForConditionalGeneration",
    {
      vision_config: {
        ...CLIP,
        num_key_value_heads: 3,
        head_dim: 8,
        patch_size: 7,
        pooling_kernel_size: 3,
        position_embedding_size: 16,
        standardize: true,
      },
    },
    [
      [21, 42],
      [63, 21],
      [42, 42],
    ],
  ),
  llama4: of(
    "Llama4ForConditionalGeneration",
    {
      vision_config: {
        hidden_size: 24,
        num_attention_heads: 3,
        num_hidden_layers: 2,
        intermediate_size: 96,
        image_size: 42,
        patch_size: 7,
        projector_input_dim: 28,
        projector_output_dim: 28,
        vision_output_dim: 28,
      },
    },
    SQUARES,
  ),
  "lfm2-vl": of(
    "Lfm2VlForConditionalGeneration",
    { downsample_factor: 2, projector_hidden_size: 28, vision_config: { ...CLIP, num_patches: 16, patch_size: 7 } },
    [
      [70, 42],
      [28, 28],
      [42, 98],
    ],
  ),
  "qwen2.5-vl": of(
    "Qwen2_5_VLForConditionalGeneration",
    { vision_config: { ...QWEN, patch_size: 7, window_size: 28, fullatt_block_indexes: [1] } },
    [
      [70, 42],
      [28, 28],
      [42, 98],
    ],
  ),
  "qwen3-vl": of(
    "Qwen3VLForConditionalGeneration",
    {
      model_type: "qwen3_vl",
      vision_config: { ...QWEN, patch_size: 7, num_position_embeddings: 25, deepstack_visual_indexes: [2, 0] },
    },
    [
      [70, 42],
      [28, 28],
      [42, 98],
    ],
  ),
};
