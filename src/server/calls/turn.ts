// One answer of one sample as it comes, in OpenAI's deltas: what the APIs with a single answer (Responses, Anthropic's, Ollama's) write
// down each in its own way.

import type { AnswerOptions } from "../../chat/answer.js";
import type { PositionLogprobs } from "../../core/sampling.js";
import { type AnswerEnd, answerParts } from "../../engine/client/chat/answer-parts.js";
import type { Generation, OutputChunk } from "../../engine/types.js";
import { type AnswerDelta, deltaOf } from "./answer-delta.js";

export interface TurnPart {
  readonly delta: AnswerDelta;
  /** Of the tokens behind this part, when asked for. */
  readonly logprobs: readonly PositionLogprobs[];
}

export type TurnEnd = AnswerEnd;

/** `chunks`: the generation's, or the same on their way through a meter. Yields parts as they are certain; returns how it ended. */
export async function* turnParts(
  chunks: AsyncIterable<OutputChunk>,
  generation: Generation,
  options: AnswerOptions,
): AsyncGenerator<TurnPart, TurnEnd> {
  const parts = answerParts(chunks, generation, options);
  let next = await parts.next();
  for (; next.done !== true; next = await parts.next())
    yield { delta: deltaOf(next.value.part), logprobs: next.value.logprobs };
  return next.value;
}

/** The same, all at once. */
export async function wholeTurn(
  parts: AsyncGenerator<TurnPart, TurnEnd>,
): Promise<{ parts: TurnPart[]; end: TurnEnd }> {
  const all: TurnPart[] = [];
  for (;;) {
    const next = await parts.next();
    if (next.done === true) return { parts: all, end: next.value };
    all.push(next.value);
  }
}
