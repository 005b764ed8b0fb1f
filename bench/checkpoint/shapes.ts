// Shapes of real Llama models, and the tensors a model of such a shape has under both of its names.

export interface Shape {
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly ffn: number;
  readonly vocab: number;
  readonly context: number;
  readonly ropeTheta: number;
}

/** The head is tied to the embedding in all of them, as in the models they are named after. */
export const SHAPES: Readonly<Record<string, Shape>> = {
  tiny: { hidden: 64, layers: 2, heads: 4, kvHeads: 2, ffn: 160, vocab: 512, context: 2048, ropeTheta: 1e4 },
  // SmolLM2-135M
  "135m": { hidden: 576, layers: 30, heads: 9, kvHeads: 3, ffn: 1536, vocab: 49152, context: 8192, ropeTheta: 1e5 },
  // SmolLM2-360M
  "360m": { hidden: 960, layers: 32, heads: 15, kvHeads: 5, ffn: 2560, vocab: 49152, context: 8192, ropeTheta: 1e5 },
  // Llama-3.1-8B (whose head is not tied; a decode step reads as much)
  "8b": { hidden: 4096, layers: 32, heads: 32, kvHeads: 8, ffn: 14336, vocab: 128256, context: 16384, ropeTheta: 5e5 },
  // Llama-3.2-1B
  "1b": { hidden: 2048, layers: 16, heads: 32, kvHeads: 8, ffn: 8192, vocab: 128256, context: 8192, ropeTheta: 5e5 },
};

export const NORM_EPS = 1e-5;

export interface TensorSpec {
  readonly gguf: string;
  readonly hf: string;
  /** 0: a vector of `cols` ones (a norm). */
  readonly rows: number;
  readonly cols: number;
  /** In a folder, where it is not that of rows and cols. */
  readonly shape?: readonly number[];
  /** Heads whose rows GGUF stores with the two rotary halves interleaved; 0: none. */
  readonly rotaryHeads: number;
}

export function tensorsOf({ hidden, layers, heads, kvHeads, ffn, vocab }: Shape): TensorSpec[] {
  const kvDim = (hidden / heads) * kvHeads;
  const tensors: TensorSpec[] = [];
  const add = (gguf: string, hf: string, rows: number, cols: number, rotaryHeads = 0) =>
    tensors.push({ gguf: `${gguf}.weight`, hf: `model.${hf}.weight`, rows, cols, rotaryHeads });
  add("token_embd", "embed_tokens", vocab, hidden);
  for (let l = 0; l < layers; l++) {
    const [g, h] = [`blk.${l}.`, `layers.${l}.`];
    add(`${g}attn_norm`, `${h}input_layernorm`, 0, hidden);
    add(`${g}attn_q`, `${h}self_attn.q_proj`, hidden, hidden, heads);
    add(`${g}attn_k`, `${h}self_attn.k_proj`, kvDim, hidden, kvHeads);
    add(`${g}attn_v`, `${h}self_attn.v_proj`, kvDim, hidden);
    add(`${g}attn_output`, `${h}self_attn.o_proj`, hidden, hidden);
    add(`${g}ffn_norm`, `${h}post_attention_layernorm`, 0, hidden);
    add(`${g}ffn_gate`, `${h}mlp.gate_proj`, ffn, hidden);
    add(`${g}ffn_up`, `${h}mlp.up_proj`, ffn, hidden);
    add(`${g}ffn_down`, `${h}mlp.down_proj`, hidden, ffn);
  }
  add("output_norm", "norm", 0, hidden);
  return tensors;
}
