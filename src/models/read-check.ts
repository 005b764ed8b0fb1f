// Every tensor of a checkpoint is read by some part of the model, or named here or by the family as one that needs no reading. A
// tensor nobody reads means that the forward is not the one the checkpoint was made for: silently wrong answers.

import { FormatError } from "../core/errors.js";
import type { HostTensor, TensorSource } from "../core/tensor.js";

/** Buffers that checkpoints carry and every engine computes itself: rotary frequencies, causal masks. */
const BUFFERS = [/\.rotary_emb\.inv_freq$/, /\.attn(\.attention)?\.(masked_)?bias$/, /\.attention\.(masked_)?bias$/];

/** The parts of larger models that are not the decoder of text. */
export const OTHER_MODALITIES = [
  /^(model\.)?(vision_tower|vision_model|visual|vision_embed_tokens|multi_modal_projector|mm_projector|connector)\./,
  /^(model\.)?(audio_tower|embed_audio|embed_vision|image_newline|vit_large_projector|patch_merger|resampler_model)\b/,
];

/** Where the embedding table is the head, some checkpoints hold it twice. */
export const COPIED_HEAD = /^(language_model\.)?lm_head\.weight$/;

/** The tensors of layers `first` and beyond, which some checkpoints append to predict further tokens. */
export function layersFrom(first: number): RegExp {
  const numbers = Array.from({ length: 16 }, (_, i) => first + i).join("|");
  return new RegExp(`^(model\\.)?layers\\.(${numbers})\\.`);
}

/** A source that remembers what was asked of it. */
export class ReadCheck implements TensorSource {
  readonly #inner: TensorSource;
  readonly #read = new Set<string>();

  constructor(inner: TensorSource) {
    this.#inner = inner;
  }

  get path(): string {
    return this.#inner.path;
  }

  has(name: string): boolean {
    return this.#inner.has(name);
  }

  get(name: string, shape?: readonly number[]): HostTensor {
    this.#read.add(name);
    return this.#inner.get(name, shape);
  }

  names(): Iterable<string> {
    return this.#inner.names();
  }

  close(): void {
    this.#inner.close();
  }

  /** Refuses by name what nothing has read and `ignored` does not name. */
  finish(architecture: string, ignored: readonly RegExp[]): void {
    const patterns = [...BUFFERS, ...ignored];
    const unread = [...this.names()].filter(
      (name) => !this.#read.has(name) && !patterns.some((pattern) => pattern.test(name)),
    );
    if (unread.length === 0) return;
    const others = unread.length === 1 ? "" : ` (and ${unread.length - 1} more)`;
    throw new FormatError("tensor_unread", { file: this.path, tensor: `${unread[0]}${others}`, architecture });
  }
}
