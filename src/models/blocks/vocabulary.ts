// The two ends of a model that meet in the vocabulary: the embedding of token ids, and the logits of the rows that want them.

import type { Device, MapOp, StagedBatch, Tensor, Weight } from "../../device/device.js";
import type { Loader } from "../loader.js";
import { Linear } from "./linear.js";

export interface VocabularyOptions {
  readonly vocabSize: number; // V
  readonly hiddenSize: number;
  readonly embedding: string;
  /** null: the embedding table is the head. */
  readonly head: string | null;
  /** The head has a bias, also where its matrix is the embedding table; a base model has neither. */
  readonly hasHeadBias?: boolean;
  readonly embeddingScale?: number;
  readonly logitsScale?: number;
  /** cap * tanh(logit / cap); 0 is off. */
  readonly softcap?: number;
}

export class Vocabulary {
  readonly logits: Tensor; // [maxLogitRows, V]
  readonly #device: Device;
  readonly #table: Weight; // [V, hidden]
  readonly #head: Linear; // [V, hidden]
  readonly #rows: Tensor; // [maxLogitRows, hidden]
  readonly #embeddingScale: number;
  readonly #softcap: MapOp | null;

  constructor(loader: Loader, options: VocabularyOptions) {
    const { vocabSize, hiddenSize } = options;
    const { maxLogitRows } = loader.capacity;
    this.#device = loader.device;
    const isTied = options.head === null;
    this.#table = loader.vocabulary(options.embedding, vocabSize, hiddenSize, isTied ? "both" : "table");
    const head = isTied ? this.#table : loader.vocabulary(options.head!, vocabSize, hiddenSize, "head");
    const biasName = (options.head ?? loader.headName()).replace(/weight$/, "bias");
    const hasBias = options.hasHeadBias === true && (options.head !== null || loader.has(biasName));
    const bias = hasBias ? loader.vector(biasName, vocabSize) : null;
    // Of a tied head too: what attaches to the head leaves the embedding as it is.
    const name = (options.head ?? loader.headName()).replace(/\.weight$/, "");
    const scale = options.logitsScale ?? 1;
    this.#head = new Linear(loader.device, head, bias, { scale }, [{ name, rows: vocabSize }]);
    loader.addLinear(this.#head);
    this.#rows = loader.device.allocTensor(maxLogitRows, hiddenSize);
    this.logits = loader.device.allocTensor(maxLogitRows, vocabSize);
    this.#embeddingScale = options.embeddingScale ?? 1;
    const { softcap: cap = 0 } = options;
    this.#softcap = cap > 0 ? loader.device.createMap({ kind: "softcap", cap }) : null;
  }

  /** x[t] = scale * embedding of token t. */
  embed(x: Tensor, batch: StagedBatch): void {
    this.#device.embed(x, this.#table, batch, this.#embeddingScale);
  }

  /** Logits of the batch's logit rows [first, first + n) from the normed hidden states. */
  computeLogits(hidden: Tensor, batch: StagedBatch, first: number, n: number): void {
    const device = this.#device;
    device.gatherLogitRows(this.#rows, hidden, batch, first, n);
    this.#head.run(this.logits, this.#rows, batch, n, first);
    if (this.#softcap !== null) device.map(this.logits, this.#softcap, this.logits, null, n);
  }
}

/** Gemma's: an embedding that may be the head too, and logits with a cap. */
export function cappedVocabulary(
  loader: Loader,
  root: string,
  config: Pick<VocabularyOptions, "vocabSize" | "hiddenSize"> & {
    readonly isTied: boolean;
    readonly finalSoftcap: number;
  },
): Vocabulary {
  const head = config.isTied ? null : loader.headName();
  return new Vocabulary(loader, {
    ...config,
    embedding: `${root}embed_tokens.weight`,
    head,
    softcap: config.finalSoftcap,
  });
}
