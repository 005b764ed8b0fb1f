// One answer of one sample as it comes, taken apart: what chat() gives, and the APIs with a single answer write down each in its own way.

import { Answer, type AnswerOptions, type AnswerPart } from "../../../chat/answer.js";
import type { FinishReason } from "../../../core/request.js";
import type { PositionLogprobs } from "../../../core/sampling.js";
import type { Generation, OutputChunk, RequestTrace } from "../../types.js";

export interface TakenPart {
  readonly part: AnswerPart;
  /** Of the tokens behind this part, when asked for. */
  readonly logprobs: readonly PositionLogprobs[];
}

export interface AnswerEnd {
  readonly finishReason: FinishReason;
  readonly stopReason: string | number | null;
  readonly hasCalls: boolean;
  /** Tokens of thoughts, where the family's tags are tokens. */
  readonly reasoningTokens: number;
  readonly trace: RequestTrace;
}

/** `chunks`: the generation's, or the same on their way through a meter. Yields parts as they are certain; returns how it ended. */
export async function* answerParts(
  chunks: AsyncIterable<OutputChunk>,
  generation: Generation,
  options: AnswerOptions,
): AsyncGenerator<TakenPart, AnswerEnd> {
  const answer = new Answer(options);
  let finishReason: FinishReason = "stop";
  let stopReason: string | number | null = null;
  for await (const chunk of chunks) {
    const parts = answer.push(chunk.text, chunk.tokenIds);
    if (chunk.finishReason !== null) {
      finishReason = chunk.finishReason;
      stopReason = chunk.stopReason;
      parts.push(...answer.flush());
    }
    let logprobs = chunk.logprobs ?? [];
    if (logprobs.length > 0 && parts.length === 0) parts.push({ type: "text", text: "" });
    for (const part of parts) {
      yield { part, logprobs };
      logprobs = [];
    }
  }
  const { trace } = await generation.result();
  return { finishReason, stopReason, hasCalls: answer.numCalls > 0, reasoningTokens: answer.numReasoningTokens, trace };
}
