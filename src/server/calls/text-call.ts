// What the endpoints that embed, score and rerank share.

import type { Context } from "hono";
import type { TextOptions } from "../../engine/types.js";
import type { AppEnv } from "../context.js";
import { Call } from "./call.js";
import { saltOf } from "./prompt.js";

/** Waits for room in the engine, runs, and gives the place back whatever happens. */
export async function runTexts(
  c: Context<AppEnv>,
  idPrefix: string,
  run: (options: TextOptions, call: Call) => Promise<Response>,
): Promise<Response> {
  const call = new Call(c, `${idPrefix}-`);
  await call.enter(0);
  try {
    const { config, adapter } = c.get("server");
    const limit = config.maxPromptTokens === null ? {} : { maxTokens: config.maxPromptTokens };
    const own = { client: call.client, signal: call.signal, ...(adapter === null ? {} : { adapter }) };
    return await run({ salt: saltOf(c, null), ...own, ...limit }, call);
  } finally {
    call.end();
  }
}

/** As vLLM spells it: -1 is what the model takes. */
export function truncateOf(body: {
  readonly truncate_prompt_tokens?: number | null | undefined;
  readonly truncate?: boolean | null | undefined;
}): boolean | number {
  const tokens = body.truncate_prompt_tokens;
  if (tokens != null) return tokens < 0 ? true : tokens;
  return body.truncate ?? false;
}

export function usageOf(promptTokens: number): { prompt_tokens: number; total_tokens: number } {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens };
}
