// Random models of each kind of cache: full attention, windows, latent, mixtures of experts, states; and heads and draft models that guess for them. All
// have the same tokenizer of bytes.

import type { EngineOptions } from "../../src/engine/client/engine.js";
import { EAGLE_FORMATS, EAGLE_MAIN, writeEagle } from "./eagle.js";
import { DEEPSEEK, ERNIE, GLM, HeadSource, QWEN_NEXT, QWEN35, type RawConfig, writeWithHead } from "./head-source.js";
import { withByteTokenizer } from "./tiny-checkpoint.js";

const VOCAB = 320;
const BASE: RawConfig = { ...EAGLE_MAIN, num_hidden_layers: 3, vocab_size: VOCAB };
const LLAMA: RawConfig = { ...EAGLE_MAIN, vocab_size: VOCAB };
const GEMMA3: RawConfig = {
  ...{
    ...BASE,
    architectures: ["Gemma3ForCausalLM"],
    hidden_activation: "gelu_pytorch_tanh",
    tie_word_embeddings: true,
  },
  ...{ query_pre_attn_scalar: 16, sliding_window: 24, layer_types: ["sliding", "sliding", "full"].map(attention) },
  rope_parameters: { full_attention: { rope_theta: 1e6 }, sliding_attention: { rope_theta: 1e4 } },
};
const MAMBA2: RawConfig = {
  ...{ ...BASE, architectures: ["Mamba2ForCausalLM"], num_heads: 8, expand: 2, n_groups: 1, state_size: 16 },
  ...{ conv_kernel: 4, use_conv_bias: true, use_bias: false, chunk_size: 32, layer_norm_epsilon: 1e-5 },
};

const RAW = {
  "full attention": LLAMA,
  "windows beside full attention": GEMMA3,
  "windows alone": { ...BASE, architectures: ["MistralForCausalLM"], sliding_window: 24 },
  latent: DEEPSEEK,
  mixture: { ...BASE, architectures: ["MixtralForCausalLM"], num_local_experts: 4, num_experts_per_tok: 2 },
  "delta nets beside full attention": QWEN_NEXT,
  "state spaces": MAMBA2,
} as const satisfies Record<string, RawConfig>;
export type Kind = keyof typeof RAW;
export const KINDS = Object.keys(RAW) as Kind[];

/** Kinds whose norms are stored as what they differ from one. */
const STORED_LESS_ONE = /^(windows beside|delta nets)/;
const folders = new Map<Kind, string>();

/** The folder of a random model, the same for all who ask. */
export function modelOf(kind: Kind): string {
  const folder = folders.get(kind) ?? write(RAW[kind], /^backbone\.embeddings/, STORED_LESS_ONE.test(kind) ? 0 : 1);
  folders.set(kind, folder);
  return folder;
}

/** What guesses with weights, by name: the engine that has it. */
export interface Guesser {
  readonly name: string;
  readonly method: "draft" | "mtp" | "eagle3";
  readonly options: () => EngineOptions;
}

export const GUESSERS: readonly Guesser[] = [
  draft("full attention", "full attention"),
  draft("full attention", "windows alone"),
  draft("windows beside full attention", "windows beside full attention"),
  draft("latent", "windows beside full attention"),
  draft("mixture", "mixture"),
  draft("state spaces", "full attention"),
  mtp("DeepSeek-V3", DEEPSEEK, /^model\.layers\.4\.eh_proj/),
  mtp("GLM-4.5", GLM, /^model\.layers\.4\.eh_proj/),
  mtp("Qwen3-Next", QWEN_NEXT, /^mtp\.fc/, 0),
  mtp("Qwen3.5", QWEN35, /^mtp\.fc/, 0),
  mtp("ERNIE 4.5", ERNIE, /^model\.mtp_linear_proj/),
  ...EAGLE_FORMATS.map((format): Guesser => {
    const options = (): EngineOptions => ({ model: modelOf("full attention"), draftModel: writeEagle(format) });
    return { name: `EAGLE-3 as ${format} writes it`, method: "eagle3", options };
  }),
];

function draft(kind: Kind, small: Kind): Guesser {
  const name = kind === small ? `${kind}, guessed by itself` : `${kind}, guessed by ${small}`;
  return { name, method: "draft", options: () => ({ model: modelOf(kind), draftModel: modelOf(small) }) };
}

function mtp(name: string, raw: RawConfig, names: RegExp, normMean = 1): Guesser {
  let folder: string | null = null;
  const options = (): EngineOptions => {
    folder ??= write(raw, names, normMean);
    return { model: folder };
  };
  return { name: `the head of ${name}`, method: "mtp", options };
}

function write(raw: RawConfig, names: RegExp, normMean: number): string {
  return withByteTokenizer(writeWithHead(raw, new HeadSource(6, names, normMean)), VOCAB);
}

function attention(kind: string): string {
  return `${kind}_attention`;
}
