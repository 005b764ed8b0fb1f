// Encodes a text whose content must not become control tokens, with the parts of a @huggingface/tokenizers tokenizer: added tokens
// are cut out first, what lies between is normalised, split into words and given to the model. The library does the same, but
// knows no content.

import type { AddedToken, Tokenizer } from "@huggingface/tokenizers";
import { type Fragment, SpecialSplitter } from "./special-splitter.js";
import type { Spans } from "./tokenizer.js";

export class ContentEncoder {
  readonly #tokenizer: Tokenizer;
  readonly #added: ReadonlyMap<number, AddedToken>;
  /** Looked for in the text as it is: control tokens, and the others that are not to be normalised. */
  readonly #early: SpecialSplitter;
  /** Looked for in normalised text. */
  readonly #late: SpecialSplitter;

  constructor(tokenizer: Tokenizer, added: readonly AddedToken[]) {
    this.#tokenizer = tokenizer;
    this.#added = new Map(added.map((token) => [token.id, token]));
    const { normalizer } = tokenizer;
    const isLate = (token: AddedToken): boolean => token.normalized && normalizer !== null && !token.special;
    const isControl = (id: number): boolean => this.#added.get(id)!.special;
    const early = added.filter((token) => !isLate(token)).map((token) => [token.content, token.id] as const);
    this.#early = new SpecialSplitter(early, () => false, isControl);
    const late = added.filter(isLate).map((token) => [normalizer!(token.content), token.id] as const);
    this.#late = new SpecialSplitter(late);
  }

  /** Without special tokens around it. */
  encode(text: string, content: Spans): number[] {
    const { normalizer, pre_tokenizer, model } = this.#tokenizer;
    const ids: number[] = [];
    this.#early.split(text, content).forEach((section, sectionIndex, sections) => {
      if (typeof section === "number") {
        ids.push(section);
        return;
      }
      const stripped = this.#stripped(section, sections, sectionIndex);
      const normalized = normalizer === null || stripped === "" ? stripped : normalizer(stripped);
      this.#late.split(normalized).forEach((part, i, parts) => {
        if (typeof part === "number") {
          ids.push(part);
          return;
        }
        const words = this.#stripped(part, parts, i);
        if (words === "") return;
        const tokens = model!(pre_tokenizer === null ? [words] : pre_tokenizer(words, { section_index: sectionIndex }));
        for (const token of tokens) this.#pushText(token, ids);
      });
    });
    return ids;
  }

  /** Some added tokens take the white space beside them. */
  #stripped(text: string, fragments: readonly Fragment[], index: number): string {
    const before = fragments[index - 1];
    const after = fragments[index + 1];
    let shown = text;
    if (typeof after === "number" && this.#added.get(after)!.lstrip) shown = shown.trimEnd();
    if (typeof before === "number" && this.#added.get(before)!.rstrip) shown = shown.trimStart();
    return shown;
  }

  #pushText(token: string, ids: number[]): void {
    const { model } = this.#tokenizer;
    const id = model!.tokens_to_ids.get(token) ?? model!.unk_token_id;
    if (id === undefined) return;
    const isControl = this.#added.get(id)?.special === true && id !== model!.unk_token_id;
    if (!isControl || token.length <= 1) {
      ids.push(id);
      return;
    }
    // A vocabulary may hold a control token's name as a word (Unigram ones do): its characters stand for it.
    for (const char of token)
      for (const part of model!([char])) ids.push(model!.tokens_to_ids.get(part) ?? model!.unk_token_id!);
  }
}
