# A Llama of the given shape in plain PyTorch, random f16 weights: tok/s of prefills, and of decode steps over a filled KV cache, captured as a
# CUDA graph where there is a GPU. What a user gets who writes the model down; no serving engine.
#   python3 torch-llama.py '{"hidden": 2048, ..., "lengths": [512], "many": [32, 512], "rows": [1, 32], "context": 512, "steps": 64, "repeat": 3, "device": "cuda"}'
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

given = json.loads(sys.argv[1])
device = torch.device(given["device"])
is_gpu = device.type == "cuda"
dtype = torch.float16 if is_gpu else torch.float32
H, L, A, K, I, V = (given[k] for k in ("hidden", "layers", "heads", "kvHeads", "ffn", "vocab"))
D = H // A


def random(*shape):
    return torch.randn(*shape, device=device, dtype=dtype) * 0.02


layers = [
    {"norm1": random(H), "qkv": random((A + 2 * K) * D, H), "o": random(H, A * D), "norm2": random(H), "gu": random(2 * I, H), "down": random(H, I)}
    for _ in range(L)
]
table, norm = random(V, H), random(H)
inv_freq = 1.0 / given["ropeTheta"] ** (torch.arange(0, D, 2, device=device).float() / D)


def rotate(x, position):  # x [R, heads, T, D], position [T]
    angle = position[:, None].float() * inv_freq
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def forward(tokens, position, cache, end):  # tokens [R, T]; cache [L] of [2, R, K, context, D]; keys [0, end) are seen
    R, T = tokens.shape
    x = table[tokens]
    for layer, kv in zip(layers, cache):
        qkv = F.linear(F.rms_norm(x, (H,), layer["norm1"]), layer["qkv"]).view(R, T, A + 2 * K, D).transpose(1, 2)
        q, k, v = qkv.split((A, K, K), 1)
        kv[0].index_copy_(2, position, rotate(k, position))
        kv[1].index_copy_(2, position, v)
        out = F.scaled_dot_product_attention(rotate(q, position), kv[0, :, :, :end], kv[1, :, :, :end], is_causal=T > 1, enable_gqa=True)
        x = x + F.linear(out.transpose(1, 2).reshape(R, T, A * D), layer["o"])
        gate, up = F.linear(F.rms_norm(x, (H,), layer["norm2"]), layer["gu"]).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, layer["down"])
    return F.linear(F.rms_norm(x[:, -1], (H,), norm), table).argmax(-1)


def seconds(run):
    times = []
    for i in range(given["repeat"] + 1):
        if is_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if is_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def caches(rows, length):
    return [torch.zeros(2, rows, K, length, D, device=device, dtype=dtype) for _ in range(L)]


rates = {}
with torch.inference_mode():
    for length in given["lengths"]:
        tokens = torch.randint(V, (1, length), device=device)
        position, cache = torch.arange(length, device=device), caches(1, length)
        rates[f"prefill {length}"] = length / seconds(lambda: forward(tokens, position, cache, length))
    prompts, length = given["many"]
    tokens = torch.randint(V, (prompts, length), device=device)
    position, cache = torch.arange(length, device=device), caches(prompts, length)
    rates[f"prefill {prompts} x {length}"] = prompts * length / seconds(lambda: forward(tokens, position, cache, length))
    for rows in given["rows"]:
        end = given["context"] + 1
        tokens = torch.randint(V, (rows, 1), device=device)
        position, cache = torch.tensor([end - 1], device=device), caches(rows, end)
        step = lambda: forward(tokens, position, cache, end)
        if is_gpu:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                step()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            step = graph.replay

        def steps():
            for _ in range(given["steps"]):
                step()

        rates[f"decode {rows}"] = rows * given["steps"] / seconds(steps)
print(json.dumps(rates))
