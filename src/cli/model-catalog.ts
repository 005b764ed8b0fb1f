// What docs/models.md says of each family, by the name in its config.json. The page lists the architectures that the registry
// knows, in this order; one without a row here is listed by its name alone.

export interface CatalogRow {
  readonly title: string;
  /** GGUF architectures it comes under. */
  readonly gguf?: string;
  /** How it writes tool calls (toolParser). */
  readonly tools?: string;
  readonly reasoning?: string;
  /** Tokens of context of the usual checkpoints. */
  readonly context?: string;
  readonly differs: string;
  /** Its golden checkpoints. */
  readonly goldens?: string;
}

export const CATALOG: Readonly<Record<string, CatalogRow>> = {
  LlamaForCausalLM: {
    title: "Llama",
    gguf: "llama",
    tools: "llama3",
    context: "128k",
    differs: "— the plain pre-norm decoder",
    goldens: "llama, llama-tied-rope3",
  },
  Llama4ForCausalLM: {
    title: "Llama 4",
    tools: "llama4",
    context: "1M to 10M",
    differs: "chunked attention on most layers, the others without rotary embedding; experts beside a shared one",
    goldens: "llama4",
  },
  MistralForCausalLM: {
    title: "Mistral",
    gguf: "llama",
    tools: "mistral",
    reasoning: "[THINK]",
    context: "32k to 128k",
    differs: "sliding window on every layer",
    goldens: "mistral-swa",
  },
  Ministral3ForCausalLM: {
    title: "Ministral 3",
    gguf: "mistral3",
    tools: "mistral",
    reasoning: "[THINK]",
    context: "256k",
    differs: "queries scaled by position",
    goldens: "ministral3",
  },
  Mistral4ForCausalLM: {
    title: "Mistral 4",
    tools: "mistral",
    reasoning: "[THINK]",
    context: "256k",
    differs: "latent attention, experts",
    goldens: "mistral4",
  },
  MixtralForCausalLM: {
    title: "Mixtral",
    gguf: "llama",
    tools: "mistral",
    context: "32k to 64k",
    differs: "mixture of experts, weights of the chosen sum to one",
    goldens: "mixtral",
  },
  Qwen2ForCausalLM: {
    title: "Qwen2, Qwen2.5",
    gguf: "qwen2",
    tools: "hermes",
    context: "32k",
    differs: "biases on q, k, v; windows from some layer on",
    goldens: "qwen2",
  },
  Qwen2MoeForCausalLM: {
    title: "Qwen2-MoE",
    gguf: "qwen2moe",
    tools: "hermes",
    context: "32k",
    differs: "Qwen2 with experts beside a gated shared one",
    goldens: "qwen2-moe",
  },
  Qwen3ForCausalLM: {
    title: "Qwen3",
    gguf: "qwen3",
    tools: "hermes",
    reasoning: "<think>",
    context: "40k",
    differs: "norm on each query and key head",
    goldens: "qwen3, qwen3-yarn",
  },
  Qwen3MoeForCausalLM: {
    title: "Qwen3-MoE",
    gguf: "qwen3moe",
    tools: "hermes, qwen3-coder",
    reasoning: "<think>",
    context: "40k to 256k",
    differs: "Qwen3 with experts in most layers",
    goldens: "qwen3-moe",
  },
  Qwen3NextForCausalLM: {
    title: "Qwen3-Next",
    gguf: "qwen3next",
    tools: "hermes",
    reasoning: "<think>",
    context: "256k",
    differs: "gated delta nets in three of four layers, gated attention in the fourth, experts",
    goldens: "qwen3-next",
  },
  Qwen3_5ForCausalLM: {
    title: "Qwen3.5",
    gguf: "qwen35",
    tools: "qwen3-coder",
    reasoning: "<think>",
    context: "256k",
    differs: "as Qwen3-Next with a plain feed-forward",
    goldens: "qwen3.5",
  },
  Qwen3_5MoeForCausalLM: {
    title: "Qwen3.5-MoE",
    gguf: "qwen35moe",
    tools: "qwen3-coder",
    reasoning: "<think>",
    context: "256k",
    differs: "Qwen3.5 with experts",
    goldens: "qwen3.5-moe",
  },
  GemmaForCausalLM: { title: "Gemma", context: "8k", differs: "norm weights less one, gelu, scaled embedding" },
  Gemma2ForCausalLM: {
    title: "Gemma 2",
    gguf: "gemma2",
    context: "8k",
    differs: "norms before and after each half, capped scores and logits, window on every other layer",
    goldens: "gemma2",
  },
  Gemma3ForCausalLM: {
    title: "Gemma 3",
    gguf: "gemma3",
    context: "128k",
    differs: "as Gemma 2 without caps; q/k norms; window layers have a rope of their own",
    goldens: "gemma3",
  },
  Gemma3nForCausalLM: {
    title: "Gemma 3n",
    context: "32k",
    differs: "several residual streams, per-layer embeddings, shared keys and values",
    goldens: "gemma3n",
  },
  Gemma4ForCausalLM: {
    title: "Gemma 4",
    tools: "gemma4",
    reasoning: "thought channel",
    context: "256k",
    differs: "wider heads on full-attention layers, per-layer embeddings and shared keys and values in the small ones",
    goldens: "gemma4, gemma4-e",
  },
  Phi3ForCausalLM: {
    title: "Phi-3, Phi-4-mini",
    gguf: "phi3",
    context: "4k to 128k",
    differs: "fused matrices in the file, partial rotation, longrope",
    goldens: "phi3",
  },
  PhiForCausalLM: {
    title: "Phi-1.5, Phi-2",
    context: "2k",
    differs: "attention and feed-forward side by side, LayerNorm, partial rotation",
    goldens: "phi",
  },
  Olmo2ForCausalLM: {
    title: "OLMo 2",
    gguf: "olmo2",
    context: "4k",
    differs: "norms after each half, none before; q and k normed over all heads",
    goldens: "olmo2",
  },
  Olmo3ForCausalLM: {
    title: "OLMo 3",
    tools: "hermes",
    reasoning: "<think>",
    context: "64k",
    differs: "OLMo 2 with windows on three of four layers",
    goldens: "olmo3",
  },
  OlmoeForCausalLM: {
    title: "OLMoE",
    gguf: "olmoe",
    context: "4k",
    differs: "experts; q and k normed over all heads",
    goldens: "olmoe",
  },
  SmolLM3ForCausalLM: {
    title: "SmolLM3",
    gguf: "smollm3",
    tools: "hermes",
    reasoning: "<think>",
    context: "64k",
    differs: "some layers without rotary embedding",
    goldens: "smollm3",
  },
  GraniteForCausalLM: {
    title: "Granite 3",
    gguf: "granite",
    tools: "granite",
    reasoning: "<think>",
    context: "128k",
    differs: "four multipliers",
    goldens: "granite",
  },
  GraniteMoeForCausalLM: {
    title: "Granite 3 MoE",
    tools: "granite",
    context: "128k",
    differs: "Granite with experts",
    goldens: "granite-moe",
  },
  GraniteMoeSharedForCausalLM: {
    title: "Granite MoE, shared",
    tools: "granite",
    context: "128k",
    differs: "experts beside a shared feed-forward",
  },
  GraniteMoeHybridForCausalLM: {
    title: "Granite 4",
    tools: "hermes",
    context: "128k",
    differs: "Mamba-2 layers beside attention, experts beside a shared one",
    goldens: "granite4-hybrid",
  },
  GptOssForCausalLM: {
    title: "gpt-oss",
    gguf: "gpt-oss",
    tools: "harmony",
    reasoning: "analysis channel",
    context: "128k",
    differs: "sinks, biases, window on every other layer, experts (bf16 or 4-bit)",
    goldens: "gpt-oss",
  },
  DeepseekV2ForCausalLM: {
    title: "DeepSeek-V2",
    tools: "deepseek",
    context: "32k to 160k",
    differs: "latent attention, experts from the best groups by softmax scores",
    goldens: "deepseek-v2",
  },
  DeepseekV3ForCausalLM: {
    title: "DeepSeek-V3, R1",
    gguf: "deepseek2",
    tools: "deepseek, deepseek-v3.2, kimi",
    reasoning: "<think>",
    context: "160k",
    differs: "latent attention (value heads narrower than key heads), grouped routing, shared experts",
    goldens: "deepseek-v3",
  },
  GlmForCausalLM: {
    title: "GLM-4 of 2024",
    context: "128k",
    differs: "partial interleaved rotation, biases on q, k, v",
  },
  Glm4ForCausalLM: {
    title: "GLM-4",
    gguf: "glm4",
    tools: "glm",
    context: "32k",
    differs: "norms before and after each half, partial interleaved rotation",
    goldens: "glm4",
  },
  Glm4MoeForCausalLM: {
    title: "GLM-4.5, 4.6",
    gguf: "glm4moe",
    tools: "glm",
    reasoning: "<think>",
    context: "128k",
    differs: "experts as DeepSeek's, partial rotation",
    goldens: "glm4-moe",
  },
  Glm4MoeLiteForCausalLM: {
    title: "GLM-4.7-Flash",
    tools: "glm",
    reasoning: "<think>",
    context: "200k",
    differs: "as DeepSeek-V3",
    goldens: "glm4-moe-lite",
  },
  Lfm2ForCausalLM: {
    title: "LFM2",
    gguf: "lfm2",
    tools: "lfm2",
    reasoning: "<think>",
    context: "32k",
    differs: "gated short convolutions in most layers",
    goldens: "lfm2",
  },
  Lfm2MoeForCausalLM: {
    title: "LFM2-MoE",
    tools: "lfm2",
    reasoning: "<think>",
    context: "32k",
    differs: "LFM2 with experts",
    goldens: "lfm2-moe",
  },
  NemotronForCausalLM: {
    title: "Nemotron, Minitron",
    context: "4k to 128k",
    differs: "LayerNorm with weights less one, squared relu, partial rotation",
    goldens: "nemotron",
  },
  NemotronHForCausalLM: {
    title: "Nemotron-H, Nemotron 3",
    tools: "qwen3-coder",
    reasoning: "<think>",
    context: "128k to 1M",
    differs: "layers of one half each: Mamba-2, attention or feed-forward",
    goldens: "nemotron-h",
  },
  FalconH1ForCausalLM: {
    title: "Falcon-H1",
    context: "256k",
    differs: "Mamba-2 and attention side by side in every layer, many multipliers",
    goldens: "falcon-h1",
  },
  Mamba2ForCausalLM: {
    title: "Mamba-2",
    context: "any",
    differs: "no attention: state space layers",
    goldens: "mamba2",
  },
  CohereForCausalLM: {
    title: "Command R",
    context: "128k",
    differs: "attention and feed-forward side by side, LayerNorm, scaled logits",
  },
  Cohere2ForCausalLM: {
    title: "Command A, R7B",
    reasoning: "<|START_THINKING|>",
    context: "128k to 256k",
    differs: "as Command R, windows on three of four layers, the fourth without rotary embedding",
    goldens: "cohere2",
  },
  Starcoder2ForCausalLM: {
    title: "StarCoder 2",
    context: "16k",
    differs: "LayerNorm, biases, plain feed-forward, window",
    goldens: "starcoder2",
  },
  Ernie4_5ForCausalLM: {
    title: "ERNIE 4.5",
    gguf: "ernie4_5",
    context: "128k",
    differs: "interleaved rotation",
    goldens: "ernie4.5",
  },
  Ernie4_5_MoeForCausalLM: {
    title: "ERNIE 4.5 MoE",
    context: "128k",
    differs: "ERNIE with experts from some layer on",
    goldens: "ernie4.5-moe",
  },
  HunYuanDenseV1ForCausalLM: {
    title: "Hunyuan",
    gguf: "hunyuan-dense",
    reasoning: "<think>",
    context: "256k",
    differs: "q/k norms after the rotation",
    goldens: "hunyuan",
  },
  Exaone4ForCausalLM: {
    title: "EXAONE 4",
    gguf: "exaone4",
    tools: "hermes",
    reasoning: "<think>",
    context: "128k",
    differs: "norms after each half, windows on three of four layers, the fourth without rotary embedding",
    goldens: "exaone4",
  },
  SeedOssForCausalLM: {
    title: "Seed-OSS",
    gguf: "seed_oss",
    tools: "seed",
    reasoning: "<seed:think>",
    context: "512k",
    differs: "biases on q, k, v",
    goldens: "seed-oss",
  },
  MiniMaxM2ForCausalLM: {
    title: "MiniMax M2",
    tools: "minimax",
    reasoning: "<think>",
    context: "192k",
    differs: "experts by biased sigmoid scores; q and k normed over all heads; partial rotation",
    goldens: "minimax-m2",
  },
  ApertusForCausalLM: { title: "Apertus", context: "64k", differs: "xIELU, q/k norms", goldens: "apertus" },
  ArceeForCausalLM: {
    title: "Arcee",
    gguf: "arcee",
    context: "64k",
    differs: "squared relu without a gate",
    goldens: "arcee",
  },
  StableLmForCausalLM: {
    title: "StableLM 2",
    context: "4k",
    differs: "LayerNorm, partial rotation",
    goldens: "stablelm",
  },
  GPTNeoXForCausalLM: {
    title: "GPT-NeoX, Pythia",
    context: "2k",
    differs: "attention and feed-forward side by side, LayerNorm, fused qkv, partial rotation",
    goldens: "gpt-neox",
  },
  BitNetForCausalLM: {
    title: "BitNet b1.58",
    context: "4k",
    differs: "norms inside each half, squared relu with a gate",
    goldens: "bitnet",
  },
  LLaMAForCausalLM: { title: "Llama", context: "2k", differs: "another name" },
  YiForCausalLM: { title: "Yi", context: "4k to 200k", differs: "another name" },
  AquilaForCausalLM: { title: "Aquila", context: "2k", differs: "another name" },
  Ernie4_5_ForCausalLM: { title: "ERNIE 4.5", context: "128k", differs: "another name of the dense models" },
  GPT2LMHeadModel: {
    title: "GPT-2",
    gguf: "gpt2",
    context: "1k",
    differs: "learned positions, LayerNorm, plain feed-forward",
    goldens: "gpt2",
  },
};

/** The table of docs/models.md. */
export function familiesTable(architectures: readonly string[]): string {
  const order = Object.keys(CATALOG);
  const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  const own = architectures.filter((name) => !name.endsWith("ForConditionalGeneration"));
  const rows = [...own]
    .sort((a, b) => place(a) - place(b))
    .map((name) => {
      const row: CatalogRow = CATALOG[name] ?? { title: name, differs: "—" };
      const cells = [
        `${row.title} (\`${name}\`)`,
        row.gguf,
        row.tools,
        code(row.reasoning),
        row.context,
        row.differs,
        row.goldens,
      ];
      return `| ${cells.map((cell) => (cell ?? "—").replaceAll("|", "\\|")).join(" | ")} |`;
    });
  const head = [
    "family (`architectures`)",
    "GGUF",
    "tool calls",
    "reasoning",
    "context",
    "what differs from Llama",
    "goldens",
  ];
  return [`| ${head.join(" | ")} |`, `|${"---|".repeat(head.length)}`, ...rows].join("\n");
}

function code(text: string | undefined): string | undefined {
  return text === undefined || /^[a-z]/.test(text) ? text : `\`${text}\``;
}
