// One answer of one sample as it comes, taken apart: what the APIs with a single answer (Responses, Anthropic's, Ollama's) write down
// each in its own way.

import type { FinishReason } from "../core/request.js";
import type { PositionLogprobs } from "../core/sampling.js";
import type { Generation, OutputChunk, RequestTrace } from "../engine/types.js";
import { Answer, type AnswerDelta, type AnswerOptions } from "./answer.js";

export interface TurnPart {
  readonly delta: AnswerDelta;
  /** Of the tokens behind this part, when asked for. */
  readonly logprobs: readonly PositionLogprobs[];
}

export interface TurnEnd {
  readonly finishReason: FinishReason;
  readonly stopReason: string | number | null;
  readonly hasCalls: boolean;
  readonly trace: RequestTrace;
}

/** `chunks`: the generation's, or the same on their way through a meter. Yields parts as they are certain; returns how it ended. */
export async function* turnParts(
  chunks: AsyncIterable<OutputChunk>,
  generation: Generation,
  options: AnswerOptions,
): AsyncGenerator<TurnPart, TurnEnd> {
  const answer = new Answer(options);
  let finishReason: FinishReason = "stop";
  let stopReason: string | number | null = null;
  for await (const chunk of chunks) {
    const deltas = answer.push(chunk.text);
    if (chunk.finishReason !== null) {
      finishReason = chunk.finishReason;
      stopReason = chunk.stopReason;
      deltas.push(...answer.flush());
    }
    let logprobs = chunk.logprobs ?? [];
    if (logprobs.length > 0 && deltas.length === 0) deltas.push({ content: "" });
    for (const delta of deltas) {
      yield { delta, logprobs };
      logprobs = [];
    }
  }
  const { trace } = await generation.result();
  return { finishReason, stopReason, hasCalls: answer.numCalls > 0, trace };
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
