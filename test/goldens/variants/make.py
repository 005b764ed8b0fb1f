"""Makes the checkpoints of this folder with Hugging Face transformers: the options of each family that common checkpoints do not
show (biases, odd head counts, other ropes, windows on some layers, routers of other shapes). Weights bf16, arithmetic float32.

    python -m venv /tmp/hf && /tmp/hf/bin/pip install torch transformers safetensors
    /tmp/hf/bin/python test/goldens/variants/make.py        run from the project's root; rewrites the folders beside this file
                                                            (or those named)
"""

import json
import math
import shutil
import sys
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

hf.logging.set_verbosity_error()
HERE = Path(__file__).parent
VOCAB = 40
PROMPTS = (1, 5, 40)
NUM_GREEDY = 10

COMMON = dict(
    vocab_size=VOCAB,
    hidden_size=20,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=5,
    num_key_value_heads=1,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
WIDE = dict(num_attention_heads=3, num_key_value_heads=3, hidden_size=24)


def rope(**fields):
    return dict(rope_parameters=dict(rope_theta=10000.0) | fields)


LATENT = dict(
    num_attention_heads=3,
    num_key_value_heads=3,
    kv_lora_rank=12,
    qk_nope_head_dim=6,
    qk_rope_head_dim=4,
    n_routed_experts=8,
    moe_intermediate_size=12,
)

VARIANTS = {
    "llama-bias": ("Llama", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=6)),
    "llama-linear": ("Llama", dict(hidden_act="gelu", **rope(rope_type="linear", factor=3.0))),
    "llama-dynamic": ("Llama", dict(hidden_act="relu2", **rope(rope_type="dynamic", factor=3.0))),
    "llama-yarn": (
        "Llama",
        rope(
            rope_type="yarn",
            factor=4.0,
            original_max_position_embeddings=32,
            attention_factor=0.8,
            beta_fast=4.0,
            beta_slow=0.5,
        ),
    ),
    "mistral-window": ("Mistral", dict(sliding_window=7)),
    "mistral-full": ("Mistral", dict(sliding_window=None)),
    "qwen2-window": ("Qwen2", dict(use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    "qwen3-bias": (
        "Qwen3",
        dict(use_sliding_window=True, sliding_window=9, max_window_layers=1, attention_bias=True, head_dim=10),
    ),
    "qwen3-moe-some": (
        "Qwen3Moe",
        dict(
            num_experts=6,
            num_experts_per_tok=3,
            moe_intermediate_size=12,
            norm_topk_prob=False,
            mlp_only_layers=[0],
            attention_bias=True,
            head_dim=4,
        ),
    ),
    "qwen3-moe-step": (
        "Qwen3Moe",
        dict(
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=12,
            norm_topk_prob=True,
            decoder_sparse_step=2,
            head_dim=4,
            use_sliding_window=True,
            sliding_window=10,
        ),
    ),
    "mixtral-window": ("Mixtral", dict(sliding_window=11, num_local_experts=5, num_experts_per_tok=3)),
    "gemma2-uncapped": (
        "Gemma2",
        dict(
            head_dim=6,
            query_pre_attn_scalar=24,
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            attention_bias=True,
            sliding_window=10,
        ),
    ),
    "gemma3-seven": (
        "Gemma3Text",
        dict(
            num_hidden_layers=7,
            head_dim=6,
            query_pre_attn_scalar=10,
            sliding_window=12,
            final_logit_softcapping=8.0,
            rope_parameters={
                "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                "sliding_attention": dict(rope_type="default", rope_theta=1e4),
            },
        ),
    ),
    "phi3-partial": ("Phi3", WIDE | dict(sliding_window=13) | rope(rope_type="default", partial_rotary_factor=0.75)),
    # Two sets of factors, the switch between the two longer prompts.
    "phi3-longrope": (
        "Phi3",
        WIDE
        | dict(original_max_position_embeddings=24)
        | rope(
            rope_type="longrope",
            original_max_position_embeddings=24,
            short_factor=[1.0, 1.1, 1.2, 1.3],
            long_factor=[1.0, 2.0, 4.0, 8.0],
        ),
    ),
    "olmo2-bias": ("Olmo2", dict(attention_bias=True)),
    "smollm3-window": (
        "SmolLM3",
        dict(
            attention_bias=True,
            mlp_bias=True,
            use_sliding_window=True,
            sliding_window=11,
            num_hidden_layers=3,
            no_rope_layers=[1, 0, 1],
            tie_word_embeddings=False,
        ),
    ),
    "granite-bias": (
        "Granite",
        dict(
            attention_bias=True,
            mlp_bias=True,
            embedding_multiplier=2.0,
            attention_multiplier=0.3,
            residual_multiplier=0.7,
            logits_scaling=3.0,
            tie_word_embeddings=True,
        ),
    ),
    "gpt-oss-full": (
        "GptOss",
        dict(
            head_dim=6,
            num_attention_heads=6,
            num_key_value_heads=2,
            num_local_experts=5,
            num_experts_per_tok=3,
            sliding_window=9,
            layer_types=["full_attention", "sliding_attention"],
        )
        | rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=64),
    ),
    # Experts in the 4-bit blocks that the released checkpoints have.
    "gpt-oss-mxfp4": (
        "GptOss",
        dict(
            hidden_size=32,
            intermediate_size=32,
            head_dim=8,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=3,
            num_experts_per_tok=2,
            sliding_window=9,
        ),
    ),
    "deepseek-v3-direct": (
        "DeepseekV3",
        LATENT
        | dict(
            q_lora_rank=None,
            v_head_dim=14,
            n_shared_experts=2,
            n_group=4,
            topk_group=2,
            num_experts_per_tok=3,
            norm_topk_prob=False,
            routed_scaling_factor=1.7,
            first_k_dense_replace=1,
            rope_interleave=False,
            attention_bias=True,
        ),
    ),
    "deepseek-v3-yarn": (
        "DeepseekV3",
        LATENT
        | dict(
            q_lora_rank=10,
            v_head_dim=5,
            n_shared_experts=1,
            n_group=1,
            topk_group=1,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            first_k_dense_replace=0,
        )
        | rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=0.707
        ),
    ),
    "gpt2-relu": (
        "GPT2",
        dict(
            n_embd=20,
            n_layer=2,
            n_head=5,
            n_positions=64,
            n_inner=30,
            activation_function="relu",
            scale_attn_by_inverse_layer_idx=True,
            tie_word_embeddings=False,
        ),
    ),
}


# The text part of models that also see images.
VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=8, patch_size=4)
TEXT_PARTS = {
    "gemma3-with-vision": (
        "Gemma3",
        dict(
            mm_tokens_per_image=4,
            vision_config=VISION,
            text_config=COMMON | dict(head_dim=6, query_pre_attn_scalar=10, sliding_window=12, num_hidden_layers=6),
        ),
    ),
    "mistral3-with-vision": (
        "Mistral3",
        dict(
            vision_config=VISION | dict(model_type="pixtral", head_dim=8),
            text_config=COMMON | dict(model_type="mistral", sliding_window=None, tie_word_embeddings=False),
            image_token_index=3,
        ),
    ),
}


# One of each kind of cache and of recurrent layer.
KINDS = {
    "qwen3.5-delta": (
        "Qwen3_5Text",
        dict(
            head_dim=8,
            layer_types=["linear_attention", "full_attention"],
            linear_conv_kernel_dim=3,
            linear_num_key_heads=2,
            linear_num_value_heads=6,
            linear_key_head_dim=6,
            linear_value_head_dim=10,
        ),
    ),
    "lfm2-conv": (
        "Lfm2",
        dict(conv_L_cache=4, conv_bias=True, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False),
    ),
    "mamba2-groups": (
        "Mamba2",
        dict(num_heads=6, head_dim=8, hidden_size=24, expand=2, n_groups=2, state_size=10, conv_kernel=3, chunk_size=8),
    ),
    "falcon-h1-scaled": (
        "FalconH1",
        dict(
            head_dim=8,
            mamba_d_ssm=24,
            mamba_n_heads=3,
            mamba_d_head=8,
            mamba_d_state=6,
            mamba_n_groups=1,
            mamba_d_conv=3,
            mamba_chunk_size=8,
            embedding_multiplier=1.5,
            attention_in_multiplier=0.8,
            attention_out_multiplier=1.2,
            key_multiplier=0.7,
            ssm_in_multiplier=1.1,
            ssm_out_multiplier=0.9,
            ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 1.05],
            mlp_multipliers=[0.8, 1.3],
            lm_head_multiplier=0.6,
        ),
    ),
    "llama4-chunks": (
        "Llama4Text",
        dict(
            head_dim=8,
            num_hidden_layers=4,
            intermediate_size_mlp=24,
            num_local_experts=3,
            num_experts_per_tok=1,
            interleave_moe_layer_step=2,
            attention_chunk_size=16,
            floor_scale=8,
            attn_scale=0.2,
        ),
    ),
    "gemma3n-shared": (
        "Gemma3nText",
        dict(
            num_hidden_layers=4,
            head_dim=8,
            layer_types=["sliding_attention", "full_attention"] * 2,
            sliding_window=12,
            num_kv_shared_layers=2,
            intermediate_size=[24] * 4,
            activation_sparsity_pattern=[0.9, 0.0, 0.0, 0.0],
            hidden_size_per_layer_input=6,
            vocab_size_per_layer_input=VOCAB,
            laurel_rank=4,
        ),
    ),
    "gemma4-experts": (
        "Gemma4Text",
        dict(
            num_hidden_layers=3,
            head_dim=6,
            global_head_dim=8,
            num_global_key_value_heads=1,
            layer_types=["sliding_attention", "full_attention", "full_attention"],
            sliding_window=12,
            attention_k_eq_v=True,
            enable_moe_block=True,
            num_experts=5,
            top_k_experts=2,
            moe_intermediate_size=10,
            hidden_size_per_layer_input=0,
            vocab_size_per_layer_input=VOCAB,
        ),
    ),
}


# Families that no other golden has.
OTHERS = {
    "gemma-first": ("Gemma", dict(head_dim=6, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True)),
    "glm-partial": ("Glm", dict(head_dim=8, attention_bias=True) | rope(rope_type="default", partial_rotary_factor=0.5)),
    "cohere-normed": ("Cohere", dict(use_qk_norm=True, logit_scale=0.3, tie_word_embeddings=True)),
    "granite-moe-shared": (
        "GraniteMoeShared",
        dict(
            num_local_experts=5,
            num_experts_per_tok=2,
            shared_intermediate_size=14,
            embedding_multiplier=2.0,
            attention_multiplier=0.3,
            residual_multiplier=0.7,
            logits_scaling=3.0,
        ),
    ),
}

# Encoders and rerankers, whose goldens are vectors and scores.
BERT = dict(
    vocab_size=VOCAB,
    hidden_size=20,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=5,
    max_position_embeddings=64,
)
MODERN = BERT | dict(
    global_attn_every_n_layers=2, local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2
)
ENCODERS = {
    "bert-types": ("Bert", BERT | dict(type_vocab_size=3, hidden_act="gelu_new", layer_norm_eps=1e-5)),
    "bert-scores": ("BertForSequenceClassification", BERT | dict(num_labels=3)),
    "xlm-roberta-padded": ("XLMRoberta", BERT | dict(pad_token_id=1, type_vocab_size=1)),
    "xlm-roberta-score": ("XLMRobertaForSequenceClassification", BERT | dict(pad_token_id=1, type_vocab_size=1, num_labels=1)),
    "modernbert-bias": ("ModernBert", MODERN | dict(attention_bias=True, mlp_bias=True, norm_bias=True)),
    "modernbert-mean": (
        "ModernBertForSequenceClassification",
        MODERN | dict(num_labels=2, classifier_pooling="mean", classifier_bias=True, num_hidden_layers=3),
    ),
    "roberta-scores": ("RobertaForSequenceClassification", BERT | dict(pad_token_id=1, type_vocab_size=1, num_labels=2)),
    "distilbert-plain": (
        "DistilBert",
        dict(vocab_size=VOCAB, dim=20, hidden_dim=24, n_layers=2, n_heads=5, max_position_embeddings=64, activation="gelu"),
    ),
    "embeddinggemma-window": (
        "Gemma3Text",
        COMMON | dict(head_dim=6, query_pre_attn_scalar=10, sliding_window=9, num_hidden_layers=3, use_bidirectional_attention=True),
    ),
}


def classes(family):
    if family.endswith("ForSequenceClassification"):
        return getattr(hf, f"{family.removesuffix('ForSequenceClassification')}Config"), getattr(hf, family)
    config = getattr(hf, f"{family}Config")
    if family in ("Bert", "XLMRoberta", "ModernBert", "DistilBert"):
        return config, getattr(hf, f"{family}Model")
    if family in ("Gemma3", "Mistral3"):
        return config, getattr(hf, f"{family}ForConditionalGeneration")
    model = getattr(hf, "GPT2LMHeadModel" if family == "GPT2" else f"{family.removesuffix('Text')}ForCausalLM")
    return config, model


def fill(model, is_gemma, generator):
    """Noise that keeps the size of what goes through it; norm weights near one, or near zero where stored less one."""
    biases = [(n, b) for n, b in model.named_buffers() if "correction_bias" in n]
    for name, tensor in list(model.named_parameters()) + biases:
        noise = torch.randn(tensor.shape, generator=generator)
        if ("norm" in name or "ln_" in name) and not name.endswith("bias"):
            tensor.copy_((0.0 if is_gemma else 1.0) + 0.2 * noise)
        elif tensor.dim() == 1 or name.endswith("bias"):
            tensor.copy_(0.3 * noise)
        else:
            tensor.copy_(noise * 1.3 / math.sqrt(tensor.shape[-1]))


def pack_experts(folder, model, generator):
    """Replaces the experts of a saved gpt-oss by random 4-bit blocks, in the file and in the model."""
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        experts, inputs, outputs = tensor.shape
        shape = (experts, outputs, inputs // 32)
        blocks = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8, generator=generator)
        scales = torch.randint(122, 126, shape, dtype=torch.uint8, generator=generator)
        tensor.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
        del tensors[name]
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = blocks, scales
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def text_case(model, length, generator):
    ids = torch.randint(3, VOCAB, (1, length), generator=generator)
    output = model(ids)
    if "logits" in output:
        return dict(prompt=ids[0].tolist(), scores=[round(float(x), 6) for x in output.logits[0]])
    states = output.last_hidden_state[0]
    vectors = dict(mean=states.mean(0), first=states[0], last=states[-1])
    return dict(prompt=ids[0].tolist()) | {name: [round(float(x), 5) for x in v] for name, v in vectors.items()}


def golden_case(model, length, generator):
    ids = torch.randint(3, VOCAB, (1, length), generator=generator)
    logits = model(ids, use_cache=False).logits[0]
    logprobs = torch.log_softmax(logits, -1)
    tokens, gap = ids, math.inf
    for _ in range(NUM_GREEDY):
        best = torch.topk(model(tokens, use_cache=False).logits[0, -1], 2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        tokens = torch.cat([tokens, best.indices[:1].view(1, 1)], 1)
    return dict(
        prompt=ids[0].tolist(),
        last_logits=[round(float(x), 5) for x in logits[-1]],
        logprob_sum=round(float(sum(logprobs[i, ids[0, i + 1]] for i in range(length - 1))), 5),
        greedy=tokens[0, length:].tolist(),
        min_top2_gap=gap,
    )


@torch.no_grad()
def make(name, family, options, seed):
    config_class, model_class = classes(family)
    is_text = name in ENCODERS
    if name.startswith("embeddinggemma"):
        model_class = hf.Gemma3TextModel
    generator = torch.Generator().manual_seed(seed)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    common = {} if "text_config" in options or is_text else dict(vocab_size=VOCAB) if family == "GPT2" else COMMON
    model = model_class(config_class(**(common | options))).eval()
    fill(model, family in ("Gemma", "Gemma2", "Gemma3", "Gemma3Text", "Qwen3_5Text"), generator)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    if name.endswith("mxfp4"):
        pack_experts(folder, model, generator)
    cases = [(text_case if is_text else golden_case)(model, length, generator) for length in PROMPTS]
    made_with = f"Hugging Face transformers {hf.__version__}, weights bf16, math float32"
    (folder / "golden.json").write_text(json.dumps(dict(family=family, made_with=made_with, cases=cases)) + "\n")


for seed, (name, (family, options)) in enumerate((VARIANTS | TEXT_PARTS | KINDS | ENCODERS | OTHERS).items()):
    if len(sys.argv) == 1 or name in sys.argv[1:]:
        make(name, family, options, seed)
        print(name)
