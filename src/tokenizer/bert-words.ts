// The words of a text as BERT's normaliser and pre-tokenizer make them: white space parts, punctuation and Chinese characters stand
// alone, control characters go, case and accents where the vocabulary has none.

const CHINESE =
  /[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{f900}-\u{faff}\u{2f800}-\u{2fa1f}]/u;
const ALONE = /[\p{P}!-/:-@[-`{-~]/u;
const SPACE = /\p{White_Space}/u;
const DROPPED = /[\p{Cc}\p{Cf}\ufffd]/u;

export interface BertCase {
  readonly lowersCase: boolean;
  readonly stripsAccents: boolean;
}

export function bertWords(text: string, { lowersCase, stripsAccents }: BertCase): string[] {
  const words: string[] = [];
  let word = "";
  const end = (): void => {
    if (word !== "") words.push(word);
    word = "";
  };
  for (const char of stripsAccents ? text.normalize("NFD") : text) {
    if (SPACE.test(char)) end();
    else if (DROPPED.test(char) || (stripsAccents && /\p{Mn}/u.test(char))) continue;
    else if (ALONE.test(char) || CHINESE.test(char)) {
      end();
      words.push(char);
    } else word += lowersCase ? char.toLowerCase() : char;
  }
  end();
  return words;
}
