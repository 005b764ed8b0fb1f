"""Shapes that no committed golden has: for every checkpoint of the given folders, models of the same family with other head counts,
odd sizes, other layer patterns and options, chosen by a seed, each with the logits that Hugging Face transformers computes for prompts
around the chunk boundaries of 64 and 128. Weights bf16, arithmetic float32.

    /tmp/hf/bin/python test/goldens/held-out.py OUT SEEDS GOLDENS...       e.g. /tmp/held-out 3 ../shared/goldens ../shared/goldens2
                                                                           SEEDS: how many, or FIRST:END
    node dist/test/goldens/held-out.js OUT                                 what Pagoda makes of them
"""

import json
import math
import random
import shutil
import sys
from pathlib import Path

import torch
import transformers as hf

hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()
torch.set_num_threads(1)
PROMPTS = (1, 64, 129, 187)
NUM_GREEDY = 4

# What to choose from, by the name of the setting. Heads and widths that depend on each other are in `shape`.
CHOICES = dict(
    vocab_size=[97, 131, 256],
    intermediate_size=[23, 37, 50, 96],
    intermediate_size_mlp=[29, 48],
    n_inner=[None, 50],
    moe_intermediate_size=[12, 19, 33],
    shared_intermediate_size=[12, 31],
    shared_expert_intermediate_size=[11, 40],
    moe_shared_expert_intermediate_size=[11, 40],
    sliding_window=[3, 16, 31, 64, 100],
    attention_chunk_size=[8, 33, 64, 100],
    floor_scale=[8, 64, 100],
    local_attention=[4, 10, 33 * 2],
    hidden_size_per_layer_input=[6, 11],
    laurel_rank=[3, 8],
    altup_num_inputs=[2, 3, 4],
    num_experts=[3, 6, 11],
    num_local_experts=[3, 6, 11],
    moe_num_experts=[3, 6, 11],
    num_experts_per_tok=[1, 2, 3],
    moe_k=[1, 2, 3],
    n_shared_experts=[1, 2],
    moe_num_shared_experts=[1, 2],
    first_k_dense_replace=[0, 1, 2],
    norm_topk_prob=[True, False],
    routed_scaling_factor=[0.7, 1.0, 2.5],
    kv_lora_rank=[7, 12, 40],
    q_lora_rank=[None, 9, 32],
    qk_nope_head_dim=[5, 8, 24],
    qk_rope_head_dim=[2, 6, 16],
    v_head_dim=[3, 10, 28],
    tie_word_embeddings=[True, False],
    attention_bias=[True, False],
    mlp_bias=[True, False],
    use_bias=[True, False],
    use_qkv_bias=[True, False],
    attention_out_bias=[True, False],
    qk_layernorm=[True, False],
    use_qk_norm=[True, False],
    use_parallel_residual=[True, False],
    conv_bias=[True, False],
    use_conv_bias=[True, False],
    mamba_conv_bias=[True, False],
    use_expert_bias=[True, False],
    conv_L_cache=[2, 3, 5],
    conv_kernel=[2, 3, 4],
    mamba_d_conv=[2, 3, 4],
    linear_conv_kernel_dim=[2, 3, 4],
    mamba_d_state=[5, 16, 40],
    state_size=[5, 16, 40],
    ssm_state_size=[5, 16, 40],
    chunk_size=[8, 64, 128],
    mamba_chunk_size=[8, 64, 128],
    mamba_rms_norm=[True, False],
    mamba_norm_before_gate=[True, False],
    attn_logit_softcapping=[None, 7.0],
    final_logit_softcapping=[5.0, 9.0],
    query_pre_attn_scalar=[10, 33],
    logit_scale=[0.25, 1.5],
    logits_scaling=[0.7, 3.0],
    embedding_multiplier=[0.5, 4.0],
    residual_multiplier=[0.3, 1.0],
    attention_multiplier=[0.1, 0.4],
    attn_scale=[0.1, 0.4],
    attn_temperature_tuning=[True, False],
    lm_head_multiplier=[0.6, 1.0],
    key_multiplier=[0.7, 1.0],
    attention_in_multiplier=[0.8, 1.0],
    attention_out_multiplier=[1.2, 1.0],
    ssm_in_multiplier=[1.1, 1.0],
    ssm_out_multiplier=[0.9, 1.0],
    use_double_wide_mlp=[True, False],
    attention_k_eq_v=[True, False],
    type_vocab_size=[1, 2],
    scale_attn_by_inverse_layer_idx=[True, False],
    rms_norm_eps=[1e-6, 1e-5, 1e-3],
)
# Settings that mean something else, or only one thing, in a family.
FIXED = {
    "mamba2": ["intermediate_size"],
    "bitnet": ["tie_word_embeddings"],
    "gemma4_text": ["vocab_size_per_layer_input"],
    "qwen2": ["sliding_window"],
    "deepseek_v2": ["norm_topk_prob"],  # transformers leaves it unread; refused here
    "glm4_moe_lite": ["first_k_dense_replace", "q_lora_rank"],
    "mistral4": ["q_lora_rank"],
}
# Families whose configuration insists on it although heads have a width of their own.
DIVISIBLE = ("llama", "gemma2", "gemma3_text", "arcee", "deepseek_v2", "gemma3n_text")
LATENT = ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4")


def shape(c, rng):
    """Heads, widths and layers, which depend on each other."""
    kind = c["model_type"]
    heads, kv = rng.choice([(1, 1), (2, 1), (3, 1), (3, 3), (5, 1), (5, 5), (6, 2), (6, 3), (8, 2), (9, 3)])
    has_own_dim = c.get("head_dim") is not None and kind not in ("mixtral",)
    head = rng.choice([4, 6, 8, 10, 12, 20, 24, 36])
    if kind == "gpt2":
        c.update(n_embd=heads * head, n_head=heads, n_layer=rng.choice([1, 2, 3]))
        return
    layers = rng.choice([2, 3, 5])
    if kind in LATENT:
        kv = heads
        has_own_dim = True
    c.update(num_attention_heads=heads)
    if "num_key_value_heads" in c:
        c["num_key_value_heads"] = kv
    c["hidden_size"] = rng.choice([20, 36, 52, 72]) if has_own_dim else heads * head
    if kind in DIVISIBLE:
        c["hidden_size"] -= c["hidden_size"] % heads
    if has_own_dim and kind not in LATENT and kind != "mamba2":
        c["head_dim"] = head
    partial(c, head, rng)
    c["num_hidden_layers"] = layers
    if "layers_block_type" in c:
        c["layers_block_type"] = [rng.choice(sorted(set(c["layers_block_type"]))) for _ in range(layers)]
        del c["num_hidden_layers"]
    elif "layer_types" in c and kind not in ("qwen2", "qwen3", "qwen2_moe", "smollm3"):
        kinds = sorted(set(c["layer_types"]))
        c["layer_types"] = [rng.choice(kinds) for _ in range(layers)]
    else:
        c.pop("layer_types", None)
    recurrent(c, rng)
    family(c, kind, layers, rng)


def partial(c, head, rng):
    """A part of the head that is a whole number of pairs."""
    parts = [p for p in (0.25, 0.5, 0.75, 1.0) if (head * p) % 2 == 0]
    rope = c.get("rope_parameters") or {}
    if "rotary_dim" in c:
        c["rotary_dim"] = int(head * rng.choice(parts))
        c["rope_parameters"] = dict(rope_type="default", rope_theta=10000.0)
    if "partial_rotary_factor" in rope and c["model_type"] not in LATENT:
        c["rope_parameters"] = rope | dict(partial_rotary_factor=rng.choice(parts))
        c.pop("partial_rotary_factor", None)


def recurrent(c, rng):
    groups, per_group, dim = rng.choice([1, 2, 3]), rng.choice([1, 2, 3]), rng.choice([4, 8, 10])
    heads = groups * per_group
    if "mamba_n_heads" in c:
        c.update(mamba_n_groups=groups, mamba_n_heads=heads, mamba_d_head=dim)
        if "mamba_d_ssm" in c:
            c["mamba_d_ssm"] = heads * dim
        else:  # expand says how wide it is
            c["mamba_d_head"] = 2 * c["hidden_size"] // heads if 2 * c["hidden_size"] % heads == 0 else 2 * c["hidden_size"]
            c["mamba_n_heads"] = 2 * c["hidden_size"] // c["mamba_d_head"]
            c["mamba_n_groups"] = groups if c["mamba_n_heads"] % groups == 0 else 1
    if "mamba_num_heads" in c:
        c.update(n_groups=groups, mamba_num_heads=heads, mamba_head_dim=dim)
    if c["model_type"] == "mamba2":
        c["head_dim"] = 2 * c["hidden_size"] // heads if 2 * c["hidden_size"] % heads == 0 else c["hidden_size"]
        c["num_heads"] = 2 * c["hidden_size"] // c["head_dim"]
        c["n_groups"] = groups if c["num_heads"] % groups == 0 else 1
    if "linear_num_key_heads" in c:
        c.update(linear_num_key_heads=groups, linear_num_value_heads=heads)
        c.update(linear_key_head_dim=rng.choice([3, 8, 20]), linear_value_head_dim=rng.choice([5, 8, 20]))


def family(c, kind, layers, rng):
    for name in ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "full_attn_idxs", "moe_layers"):
        c.pop(name, None)
    if "n_group" in c:  # groups of equal size, of at least two experts; as many chosen as there are
        groups = rng.choice([1, 2, 3])
        c.update(n_group=groups, n_routed_experts=groups * rng.choice([2, 3, 4]), topk_group=rng.randint(1, groups))
        c["num_experts_per_tok"] = min(c["num_experts_per_tok"], 2)
    if kind == "mistral4":  # the rotary part, said again as a share of the head
        width = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        c["head_dim"] = width
        c["rope_parameters"]["partial_rotary_factor"] = c["qk_rope_head_dim"] / width
    if kind in ("deepseek_v2", "deepseek_v3"):
        c["head_dim"] = c["qk_rope_head_dim"]
    if kind == "deepseek_v2":  # whose rotation needs even places
        c.update(qk_nope_head_dim=rng.choice([6, 8, 24]), kv_lora_rank=rng.choice([8, 12, 40]))
        c["topk_method"] = rng.choice(["greedy", "group_limited_greedy"])
    if kind == "glm4_moe_lite":
        dense = rng.randint(0, layers)
        c["mlp_layer_types"] = ["dense"] * dense + ["sparse"] * (layers - dense)
        c.pop("first_k_dense_replace", None)
    if kind in ("gemma3n_text", "gemma4_text"):
        c["layer_types"][-1] = "full_attention"
        c["num_kv_shared_layers"] = 0
        first = layers - 1
        if set(c["layer_types"][:first]) >= set(c["layer_types"][first:]) and first > 0:
            c["num_kv_shared_layers"] = rng.choice([0, 1])
        if kind == "gemma3n_text":
            c["intermediate_size"] = [rng.choice([23, 50])] * layers
            c["activation_sparsity_pattern"] = [rng.choice([0.0, 0.5, 0.95]) for _ in range(layers)]
            c["vocab_size_per_layer_input"] = c["vocab_size"]
        else:
            c.pop("per_layer_config", None)
            c["vocab_size_per_layer_input"] = c["vocab_size"]
            c["hidden_size_per_layer_input"] = rng.choice([0, 6, 11])
            c.update(global_head_dim=rng.choice([8, 24, 40]), num_global_key_value_heads=1)
            if rng.random() < 0.4:
                c.update(enable_moe_block=True, num_experts=5, top_k_experts=rng.choice([1, 2, 3]), moe_intermediate_size=13)
    if kind == "llama4_text":
        c["interleave_moe_layer_step"] = rng.choice([1, 2, 3])
        c["no_rope_layers"] = [0 if t == "full_attention" else 1 for t in c["layer_types"]]
    if kind == "smollm3":
        c["no_rope_layers"] = [rng.choice([0, 1]) for _ in range(layers)]
        c["use_sliding_window"] = False
        c["sliding_window"] = None
    if kind in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"):
        c["use_sliding_window"] = rng.random() < 0.5
        c["max_window_layers"] = rng.randint(0, layers)
        if not c["use_sliding_window"]:
            c["sliding_window"] = None
    if kind in ("qwen3_moe", "qwen2_moe", "qwen3_next"):
        c["decoder_sparse_step"] = rng.choice([1, 2])
        c["mlp_only_layers"] = rng.choice([[], [0]])
    if kind == "qwen3_moe":
        c.pop("num_local_experts", None)
        c["num_experts"] = rng.choice([3, 6])
    if kind == "ernie4_5_moe":
        c.update(moe_layer_start_index=rng.randint(0, 1), moe_layer_end_index=layers - 1, moe_layer_interval=rng.choice([1, 2]))
    if kind == "lfm2_moe":
        c["num_dense_layers"] = rng.randint(0, layers)
    if kind == "falcon_h1":
        c["ssm_multipliers"] = [rng.choice([0.8, 1.0, 1.2]) for _ in range(5)]
        c["mlp_multipliers"] = [rng.choice([0.8, 1.2]) for _ in range(2)]
    if kind == "granitemoehybrid":
        c["position_embedding_type"] = rng.choice(["nope", "rope"])
        c["num_local_experts"] = rng.choice([0, 3, 6])
        c["num_experts_per_tok"] = min(c["num_experts_per_tok"], max(1, c["num_local_experts"]))
    if kind == "stablelm" and c.get("use_parallel_residual"):
        c["qk_layernorm"] = False
    if kind == "lfm2":
        c["block_auto_adjust_ff_dim"] = rng.choice([True, False])
        c["block_multiple_of"] = 16
    if kind in ("gpt_oss", "mixtral", "granitemoe") and c["num_experts_per_tok"] > c["num_local_experts"]:
        c["num_experts_per_tok"] = c["num_local_experts"]
    if kind == "llama4_text":
        c["num_experts_per_tok"] = 1
    if kind == "cohere2" and not c["attention_bias"]:
        c["use_qk_norm"] = False


def odd_config(base, seed):
    c = json.loads(base)
    rng = random.Random(f"{c['architectures'][0]} {seed}")
    for name in list(c):
        if name in CHOICES and c[name] is not None and name not in FIXED.get(c["model_type"], []):
            c[name] = rng.choice(CHOICES[name])
    for name in ("time_step_limit", "dtype", "transformers_version", "qk_head_dim"):
        c.pop(name, None)
    shape(c, rng)
    return c


def fill(model, generator):
    """Noise that keeps the size of what goes through it; vectors stay near what the family begins with."""
    for name, tensor in model.named_parameters():
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.dim() == 1:
            tensor.copy_(torch.nan_to_num(tensor) + 0.2 * noise)
        else:
            tensor.copy_(noise * 1.3 / math.sqrt(tensor.shape[-1]))
    for name, tensor in model.named_buffers():
        if "correction_bias" in name or "expert_bias" in name or "layer_scalar" in name:
            tensor.copy_(tensor + 0.3 * torch.randn(tensor.shape, generator=generator))


def causal_case(model, ids, length):
    logits = model(ids, use_cache=False).logits[0]
    logprobs = torch.log_softmax(logits, -1)
    tokens, gap = ids, math.inf
    for _ in range(NUM_GREEDY):
        best = torch.topk(model(tokens, use_cache=False).logits[0, -1], 2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        tokens = torch.cat([tokens, best.indices[:1].view(1, 1)], 1)
    return dict(
        last_logits=[round(float(x), 6) for x in logits[-1]],
        logprob_sum=float(sum(logprobs[i, ids[0, i + 1]] for i in range(length - 1))),
        greedy=tokens[0, length:].tolist(),
        min_top2_gap=gap,
    )


def golden_case(model, length, vocab, generator):
    ids = torch.randint(3, vocab, (1, length), generator=generator)
    if hasattr(model, "generate") and model.get_output_embeddings() is not None:
        numbers = causal_case(model, ids, length)
    elif type(model).__name__.endswith("ForSequenceClassification"):
        numbers = dict(scores=[float(x) for x in model(ids).logits[0]])
    else:
        states = model(ids).last_hidden_state[0]
        vectors = dict(mean=states.mean(0), first=states[0], last=states[-1])
        numbers = {name: [round(float(x), 6) for x in vector] for name, vector in vectors.items()}
    return dict(prompt=ids[0].tolist()) | numbers


@torch.no_grad()
def make(folder, config, seed):
    shutil.rmtree(folder, ignore_errors=True)
    made = hf.AutoConfig.for_model(**config)
    cls = getattr(hf, config["architectures"][0])
    torch.manual_seed(seed)
    model = cls(made).eval()
    generator = torch.Generator().manual_seed(seed)
    fill(model, generator)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    vocab = config["vocab_size"]
    cases = [golden_case(model, length, vocab, generator) for length in PROMPTS]
    text = json.dumps(dict(transformers=hf.__version__, cases=cases), allow_nan=False)
    (folder / "golden.json").write_text(text + "\n")


out = Path(sys.argv[1])
first, last = map(int, sys.argv[2].split(":")) if ":" in sys.argv[2] else (0, int(sys.argv[2]))
for base in sorted(path for root in sys.argv[3:] for path in ([Path(root)] if (Path(root) / "config.json").exists() else Path(root).iterdir())):
    for seed in range(first, last):
        config = odd_config((base / "config.json").read_text(), seed)
        try:
            make(out / f"{base.name}-{seed}", config, seed)
            print(f"{base.name}-{seed}", flush=True)
        except Exception as error:
            shutil.rmtree(out / f"{base.name}-{seed}", ignore_errors=True)
            print(f"{base.name}-{seed}: transformers: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
