// A checkpoint whose answers are fixed: the chat template chooses a script by the tools that it is shown and by what was said last, and
// the weights give each token exactly one follower. A script is its start, a control token that no prompt text can spell, and a token for
// each piece of the answer. It runs through the real engine: tokenizer, template, prefill, cache, sampler.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type SafetensorsEntry, writeSafetensors } from "./safetensors-writer.js";
import { byteTokenizer } from "./tiny-checkpoint.js";

export interface Script {
  /** A Jinja condition over `tools`, `names` (of the functions), `last` (the last message) and `numResults`. */
  readonly when: string;
  /** Its tokens; no two of a model are the same. */
  readonly answer: readonly string[];
  /** The template writes the first of them: the prompt ends with it. */
  readonly isOpened?: boolean;
}

export interface ScriptedOptions {
  readonly context?: number;
  /** Pieces of answers that are tokens of their own in prompts too: tags. */
  readonly tags?: readonly string[];
  /** What the chat template knows. Default: tools, their results and system messages. */
  readonly knows?: "tools" | "system" | "user";
}

const HEADS = 1;
const HEAD_DIM = 16;
const SPECIAL = ["<bos>", "<eos>", "<|turn|>"];

/** The first script whose condition holds is played; the last one's should always hold. */
export function writeScriptedModel(
  scripts: readonly Script[],
  { context = 131_072, tags = [], knows = "tools" }: ScriptedOptions = {},
): string {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-scripted-"));
  const special = [...SPECIAL, ...scripts.map((_, i) => `<|script${i}|>`)];
  const numPlain = 256 + special.length;
  const pieces = [...tags, ...scripts.flatMap(({ answer }) => answer).filter((piece) => !tags.includes(piece))];
  const idOf = new Map(pieces.map((piece, i) => [piece, numPlain + i]));
  const vocab = numPlain + pieces.length;
  const hidden = Math.ceil(vocab / 32) * 32;
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: hidden,
    intermediate_size: 32,
    num_hidden_layers: 1,
    num_attention_heads: HEADS,
    num_key_value_heads: HEADS,
    head_dim: HEAD_DIM,
    vocab_size: vocab,
    max_position_embeddings: context,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    hidden_act: "silu",
    tie_word_embeddings: false,
    bos_token_id: 256,
    eos_token_id: 257,
  };
  const tokenizer = byteTokenizer(special) as { model: { vocab: Record<string, number> }; added_tokens: object[] };
  for (const piece of pieces) if (!tags.includes(piece)) tokenizer.model.vocab[inBytes(piece)] = idOf.get(piece)!;
  for (const content of tags)
    tokenizer.added_tokens.push({ ...tokenizer.added_tokens[0], id: idOf.get(content), content, special: false });
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  write("config.json", config);
  write("generation_config.json", { temperature: 1, eos_token_id: 257 });
  write("tokenizer.json", tokenizer);
  write("tokenizer_config.json", { bos_token: "<bos>", eos_token: "<eos>", chat_template: templateOf(scripts, knows) });
  const next = new Map<number, number>();
  scripts.forEach(({ answer }, i) => {
    const chain = [256 + SPECIAL.length + i, ...answer.map((piece) => idOf.get(piece)!)];
    for (let at = 0; at + 1 < chain.length; at++) next.set(chain[at]!, chain[at + 1]!);
  });
  const follower = (token: number): number => next.get(token) ?? 257;
  writeSafetensors(join(folder, "model.safetensors"), weights(vocab, hidden, follower));
  return folder;
}

function templateOf(scripts: readonly Script[], knows: string): string {
  const choice = scripts
    .map(({ when, answer, isOpened }, i) => {
      const opened = isOpened === true ? answer[0] : "";
      return `{%- ${i === 0 ? "if" : "elif"} ${when} %}<|script${i}|>${opened}`;
    })
    .join("");
  return [
    "{%- set names = (tools or []) | map(attribute='function') | map(attribute='name') | list %}",
    ...(knows === "tools" ? ["{%- if tools %}{{ tools | tojson }}<|turn|>{% endif %}"] : []),
    "{%- for m in messages %}",
    ...(knows === "user" ? ["{%- if m.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"] : []),
    ...(knows === "tools" ? [] : ["{%- if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"]),
    "{{ m.role }}: {{ m.content }}",
    knows === "tools"
      ? "{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
      : "",
    "<|turn|>{% endfor %}",
    "{%- set last = messages[-1] %}",
    "{%- set numResults = messages | selectattr('role', 'equalto', 'tool') | list | length %}",
    `{%- if add_generation_prompt %}${choice}{%- endif %}{%- endif %}`,
  ].join("");
}

/** As a byte-level vocabulary spells a text. */
function inBytes(text: string): string {
  const { model } = byteTokenizer() as { model: { vocab: Record<string, number> } };
  const letters = new Map(Object.entries(model.vocab).map(([letter, byte]) => [byte, letter]));
  return [...Buffer.from(text)].map((byte) => letters.get(byte)!).join("");
}

/** Each token's hidden state is a dimension of its own; a layer of zeros leaves it as it is. */
function weights(
  vocab: number,
  hidden: number,
  follower: (token: number) => number,
): ReadonlyMap<string, SafetensorsEntry> {
  const filled = (shape: readonly number[], fill = 0): SafetensorsEntry & { data: Float32Array } => ({
    dtype: "F32",
    shape,
    data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(fill),
  });
  const embed = filled([vocab, hidden]);
  const head = filled([vocab, hidden]);
  for (let token = 0; token < vocab; token++) {
    embed.data[token * hidden + token] = 1;
    head.data[follower(token) * hidden + token] = 4; // times the norm of some 17: nothing else is ever drawn
  }
  const at = "model.layers.0.";
  const qkv = HEADS * HEAD_DIM;
  return new Map([
    ["model.embed_tokens.weight", embed],
    ["model.norm.weight", filled([hidden], 1)],
    ["lm_head.weight", head],
    [`${at}input_layernorm.weight`, filled([hidden], 1)],
    [`${at}post_attention_layernorm.weight`, filled([hidden], 1)],
    [`${at}self_attn.q_proj.weight`, filled([qkv, hidden])],
    [`${at}self_attn.k_proj.weight`, filled([qkv, hidden])],
    [`${at}self_attn.v_proj.weight`, filled([qkv, hidden])],
    [`${at}self_attn.o_proj.weight`, filled([hidden, qkv])],
    [`${at}mlp.gate_proj.weight`, filled([32, hidden])],
    [`${at}mlp.up_proj.weight`, filled([32, hidden])],
    [`${at}mlp.down_proj.weight`, filled([hidden, 32])],
  ]);
}
