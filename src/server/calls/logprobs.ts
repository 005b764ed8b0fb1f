// Log-probabilities in the shapes of the OpenAI API.

import type { PositionLogprobs, TokenLogprob } from "../../core/sampling.js";
import type { Engine } from "../../engine/types.js";

interface TokenEntry {
  readonly token: string;
  readonly logprob: number;
  /** UTF-8 of the token: several tokens may share a character. */
  readonly bytes: readonly number[];
}

/** JSON has no -Infinity; this is what OpenAI writes for it. NaN, which a broken model gives, is written so too. */
const LEAST = -9999;

function writable(logprob: number): number {
  return logprob > LEAST ? logprob : LEAST;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

function entryOf(engine: Engine, { id, logprob }: TokenLogprob): TokenEntry {
  const bytes = engine.tokenizer.bytes(id);
  return { token: utf8.decode(bytes), logprob: writable(logprob), bytes: [...bytes] };
}

export function chatLogprobs(
  engine: Engine,
  positions: readonly PositionLogprobs[],
): { content: unknown[]; refusal: null } {
  return {
    content: positions.map((position) => ({
      ...entryOf(engine, position),
      top_logprobs: position.top.map((token) => entryOf(engine, token)),
    })),
    refusal: null,
  };
}

/** The length of what tokens spell one by one; characters that several share are counted as often. */
export function textLength(engine: Engine, ids: readonly number[]): number {
  return ids.reduce((length, id) => length + utf8.decode(engine.tokenizer.bytes(id)).length, 0);
}

/**
 * Positions may be null: the first token of a prompt has no probability. `offset` is where their text begins; what would begin before
 * the text, as a token that a tokenizer puts there, begins with it.
 */
export function completionLogprobs(
  engine: Engine,
  positions: readonly { readonly id: number; readonly logprobs: PositionLogprobs | null }[],
  offset: number,
): unknown {
  const tokens: string[] = [];
  const textOffset: number[] = [];
  let at = offset;
  for (const { id } of positions) {
    const text = utf8.decode(engine.tokenizer.bytes(id));
    tokens.push(text);
    textOffset.push(Math.max(0, at));
    at += text.length;
  }
  return {
    tokens,
    token_logprobs: positions.map(({ logprobs }) => (logprobs === null ? null : writable(logprobs.logprob))),
    top_logprobs: positions.map(({ logprobs }) =>
      logprobs === null
        ? null
        : Object.fromEntries(
            logprobs.top.map((token) => {
              const { token: text, logprob } = entryOf(engine, token);
              return [text, logprob];
            }),
          ),
    ),
    text_offset: textOffset,
  };
}

/** vLLM's shape: per prompt token its own and the likeliest alternatives, by id. */
export function promptLogprobs(engine: Engine, positions: readonly (PositionLogprobs | null)[]): unknown {
  return positions.map((position) => {
    if (position === null) return null;
    const entries = [...position.top, position].map((token) => {
      const { token: text, logprob } = entryOf(engine, token);
      return [String(token.id), { logprob, decoded_token: text }];
    });
    return Object.fromEntries(entries);
  });
}
