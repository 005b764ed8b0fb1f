// What docs/reference/models.md says of the families that embed and score texts, by the base of their architecture names.

export interface EncoderRow {
  readonly title: string;
  readonly architectures: readonly string[];
  /** GGUF architectures it comes under. */
  readonly gguf?: string;
  readonly context: string;
  readonly differs: string;
  readonly goldens?: string;
}

const of = (base: string): readonly string[] =>
  ["Model", "ForMaskedLM", "ForSequenceClassification"].map((kind) => `${base}${kind}`);

export const ENCODERS: readonly EncoderRow[] = [
  {
    title: "BERT (bge, e5, gte, MiniLM, mxbai, ms-marco cross-encoders)",
    architectures: of("Bert"),
    gguf: "bert",
    context: "512",
    differs: "norms after each half, learned positions, types of tokens",
    goldens: "bert, bert-reranker",
  },
  {
    title: "XLM-RoBERTa (bge-m3, multilingual-e5, bge-reranker-v2-m3)",
    architectures: of("XLMRoberta"),
    gguf: "bert",
    context: "512 to 8k",
    differs: "BERT; positions begin after that of padding",
    goldens: "xlm-roberta, xlm-roberta-reranker",
  },
  {
    title: "RoBERTa",
    architectures: of("Roberta"),
    gguf: "bert",
    context: "512",
    differs: "as XLM-RoBERTa",
    goldens: "roberta-scores",
  },
  {
    title: "CamemBERT",
    architectures: of("Camembert"),
    gguf: "bert",
    context: "512",
    differs: "as XLM-RoBERTa",
    goldens: "— (the code of XLM-RoBERTa)",
  },
  {
    title: "DistilBERT",
    architectures: of("DistilBert"),
    gguf: "bert",
    context: "512",
    differs: "BERT without types of tokens",
    goldens: "distilbert-plain",
  },
  {
    title: "ModernBERT (gte-modernbert, granite-embedding)",
    architectures: of("ModernBert"),
    gguf: "modern-bert",
    context: "8k",
    differs: "pre-norm, rotary positions, gated feed-forward, windows to either side on two of three layers",
    goldens: "modernbert, modernbert-reranker",
  },
  {
    title: "NomicBERT (nomic-embed-text)",
    architectures: ["NomicBertModel"],
    gguf: "nomic-bert",
    context: "2k",
    differs: "BERT with rotary positions and a gated feed-forward, without biases",
    goldens: "— (its definition written out in f64, `test/nomic-bert.test.ts`)",
  },
  {
    title: "EmbeddingGemma",
    architectures: ["Gemma3TextModel"],
    gguf: "gemma-embedding",
    context: "2k",
    differs: "Gemma 3 whose tokens see the text after them too, windows to either side",
    goldens: "embeddinggemma",
  },
];

/** The table of docs/reference/models.md. */
export function encodersTable(): string {
  const rows = ENCODERS.map(({ title, architectures, gguf, context, differs, goldens }) => {
    const cells = [
      `${title} (${architectures.map((name) => `\`${name}\``).join(", ")})`,
      gguf ?? "—",
      context,
      differs,
      goldens ?? "—",
    ];
    return `| ${cells.join(" | ")} |`;
  });
  const head = ["family (`architectures`)", "GGUF", "context", "what differs", "goldens"];
  return [`| ${head.join(" | ")} |`, `|${"---|".repeat(head.length)}`, ...rows].join("\n");
}
