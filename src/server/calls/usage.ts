// What a request cost, in OpenAI's shape, and its breakdown for who asks for it (x-pagoda-trace: 1).

import type { Context } from "hono";
import type { RequestTrace } from "../../engine/types.js";
import type { AppEnv } from "../context.js";

export function usageOf(traces: readonly RequestTrace[], reasoningTokens = 0): unknown {
  const sum = (pick: (trace: RequestTrace) => number) => traces.reduce((total, trace) => total + pick(trace), 0);
  const prompt = sum((trace) => trace.promptTokens);
  const completion = sum((trace) => trace.completionTokens);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: sum((trace) => trace.cachedTokens) },
    ...details(
      reasoningTokens,
      sum((trace) => trace.draftTokens),
      sum((trace) => trace.acceptedTokens),
    ),
  };
}

/** OpenAI's figures of thoughts and of predicted output, of all guesses that were tried; nothing where there is none. */
function details(reasoning: number, drafted: number, accepted: number): Record<string, unknown> {
  const completion_tokens_details = {
    ...(reasoning === 0 ? {} : { reasoning_tokens: reasoning }),
    ...(drafted === 0 ? {} : { accepted_prediction_tokens: accepted, rejected_prediction_tokens: drafted - accepted }),
  };
  return reasoning + drafted === 0 ? {} : { completion_tokens_details };
}

/** Fields to spread into a response: the trace of each prompt's generation, when asked for. */
export function traceFields(c: Context<AppEnv>, traces: readonly RequestTrace[]): Record<string, unknown> {
  if (c.req.header("x-pagoda-trace") !== "1") return {};
  return { pagoda_trace: traces.length === 1 ? traces[0] : traces };
}
