// What is said of a text that is too long to be tokenised: it has at least so many tokens.

import { ApiError } from "./api-error.js";

/** No tokenizer writes this many characters a token on average; longer texts are refused without tokenising them. */
export const MAX_CHARS_PER_TOKEN = 32;

/** Of a text that is not tokenised: it has at least so many characters, more than the context can hold. */
export function tooLongAtLeast(chars: number, maxContext: number, param: string | null): ApiError {
  const tokens = Math.floor(chars / MAX_CHARS_PER_TOKEN) + 1;
  const message = `The prompt has at least ${tokens} tokens; this model's maximum context length is ${maxContext} tokens. Shorten the prompt.`;
  return new ApiError("context_length_exceeded", message, {
    param,
    excess: { tokens, limit: maxContext, isLeast: true },
  });
}
