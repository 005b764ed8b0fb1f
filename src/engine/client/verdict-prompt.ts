// The prompt of a reranker that is a causal model: it is asked for a verdict, and the logits of two tokens are its answer. Its chat
// template may know the roles "query" and "document"; Qwen3-Reranker's does not, and its prompt is written here.

import type { Spans } from "../../tokenizer/tokenizer.js";
import type { ChatCheckpoint } from "./chat-checkpoint.js";

const DEFAULT_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query";
const JUDGE =
  'Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".';

/** Token ids, the document cut so that there are at most `limit`. */
export function verdictPrompt(
  checkpoint: ChatCheckpoint,
  query: string,
  document: string,
  instruction: string = DEFAULT_INSTRUCTION,
  limit = Number.POSITIVE_INFINITY,
): number[] {
  const { chatTemplate } = checkpoint;
  const tokenizer = checkpoint.requireTokenizer();
  const knowsRoles = chatTemplate !== null && /['"]document['"]/.test(chatTemplate.source);
  const { question } = checkpoint.recipe;
  const encode = (shown: string): number[] => {
    const { text, content } =
      question !== null
        ? fill(question.split(/(\{query\}|\{document\})/), { "{query}": query, "{document}": shown })
        : knowsRoles
          ? chatTemplate.renderPrompt([
              { role: "system", content: instruction },
              { role: "query", content: query },
              { role: "document", content: shown },
            ])
          : qwenPrompt(instruction, query, shown);
    return tokenizer.encode(text, { addSpecialTokens: false, content });
  };
  const ids = encode(document);
  if (ids.length <= limit) return ids;
  // What follows the document must stay: of the document, as many tokens as there is room for.
  const kept = tokenizer.encode(document, { addSpecialTokens: false, content: [[0, document.length]] });
  for (let count = kept.length - (ids.length - limit); count > 0; count--) {
    const cut = encode(tokenizer.decode(kept.slice(0, count)));
    if (cut.length <= limit) return cut;
  }
  return ids;
}

function qwenPrompt(instruction: string, query: string, document: string): ContentPrompt {
  const pieces = [
    `<|im_start|>system\n${JUDGE}<|im_end|>\n<|im_start|>user\n<Instruct>: `,
    "{instruction}",
    "\n<Query>: ",
    "{query}",
    "\n<Document>: ",
    "{document}",
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
  ];
  return fill(pieces, { "{instruction}": instruction, "{query}": query, "{document}": document });
}

interface ContentPrompt {
  readonly text: string;
  readonly content: Spans;
}

/** The pieces as one text, those that are named in `values` as content. */
function fill(pieces: readonly string[], values: Readonly<Record<string, string>>): ContentPrompt {
  const content: [number, number][] = [];
  let text = "";
  for (const piece of pieces) {
    const value = values[piece];
    if (value !== undefined && value !== "") content.push([text.length, text.length + value.length]);
    text += value ?? piece;
  }
  return { text, content };
}
