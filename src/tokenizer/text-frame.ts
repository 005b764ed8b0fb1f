// What a tokenizer puts around a text, and around and between the two texts of a pair: [CLS] a [SEP] b [SEP]. Known as ids, so that the
// texts themselves can be encoded as content, in which no control token is ever found, and cut without losing what is around them.

export interface TextFrame {
  readonly before: readonly number[];
  /** Of a pair. */
  readonly between: readonly number[];
  readonly after: readonly number[];
  /** The second text of a pair and what follows it are of another type than what is before. */
  readonly hasTypes: boolean;
}

export interface FramedText {
  readonly ids: number[];
  /** Where tokens are of the second type; left out: nowhere. */
  readonly secondStart?: number;
}

/** One text in its frame, with at most `limit` tokens: the text's end is cut. */
export function frameText({ before, after }: TextFrame, text: readonly number[], limit: number): FramedText {
  const room = Math.max(0, limit - before.length - after.length);
  return { ids: [...before, ...text.slice(0, room), ...after] };
}

/** Two texts, likewise: of the longer one at the time, a token at its end is cut, until they fit. */
export function framePair(
  frame: TextFrame,
  first: readonly number[],
  second: readonly number[],
  limit: number,
): FramedText {
  const { before, between, after, hasTypes } = frame;
  const room = Math.max(0, limit - before.length - between.length - after.length);
  const excess = Math.max(0, first.length + second.length - room);
  // The longer gives first; what both must give after that is shared, the second text giving the odd one.
  const uneven = Math.min(excess, Math.abs(first.length - second.length));
  const rest = excess - uneven;
  const isFirstLonger = first.length > second.length;
  const cutFirst = (isFirstLonger ? uneven : 0) + Math.floor(rest / 2);
  const cutSecond = (isFirstLonger ? 0 : uneven) + Math.ceil(rest / 2);
  const head = [...before, ...first.slice(0, first.length - cutFirst), ...between];
  const ids = [...head, ...second.slice(0, second.length - cutSecond), ...after];
  return hasTypes ? { ids, secondStart: head.length } : { ids };
}

/** The frame that shows when `inner` texts are encoded as `whole`; null: they are not to be found in it. */
export function frameOf(
  whole: readonly number[],
  types: readonly number[],
  inner: readonly (readonly number[])[],
): TextFrame | null {
  const cuts: number[] = [];
  let at = 0;
  for (const text of inner) {
    while (at + text.length <= whole.length && !text.every((id, i) => whole[at + i] === id)) at++;
    if (at + text.length > whole.length) return null;
    cuts.push(at, at + text.length);
    at += text.length;
  }
  const isPair = inner.length === 2;
  return {
    before: whole.slice(0, cuts[0]),
    between: isPair ? whole.slice(cuts[1], cuts[2]) : [],
    after: whole.slice(cuts.at(-1)),
    hasTypes: isPair && types[cuts[2]!] === 1,
  };
}
