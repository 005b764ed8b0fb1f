// From a request's messages or text to token ids, within limits that are checked before any long work is done.

import type { Context } from "hono";
import { RequestError } from "../core/errors.js";
import type { ChatMessage, TemplateOptions } from "../engine/types.js";
import type { EncodeOptions } from "../tokenizer/tokenizer.js";
import { ApiError } from "./api-error.js";
import type { AppEnv, ServerContext } from "./context.js";
import type { ChatBody } from "./schemas/chat.js";

/** No tokenizer writes this many characters a token on average; longer texts are refused without tokenising them. */
export const MAX_CHARS_PER_TOKEN = 32;

/** The model a request names must be the one that is served. */
export function checkModel({ modelNames, house }: ServerContext, model: string | undefined): void {
  if (model === undefined || model === "" || modelNames.includes(model)) return;
  if (modelNames.includes(model.replace(/:latest$/, ""))) return; // as Ollama's clients may spell it
  throw new ApiError(
    "model_not_found",
    `The model ${JSON.stringify(model)} is not served here. Served: ${house.names.join(", ")}.`,
    {
      param: "model",
    },
  );
}

/** The tenant's salt and the request's own: prefixes are shared within both. */
export function saltOf(c: Context<AppEnv>, cacheSalt: string | null | undefined): string {
  const { salt } = c.get("tenant");
  return cacheSalt ? `${salt}/${cacheSalt}` : salt;
}

/** Messages as templates expect them: text content, "system" for OpenAI's newer "developer". */
export function toChatMessages(messages: ChatBody["messages"]): ChatMessage[] {
  return messages.map((message, i) => ({
    ...message,
    role: message.role === "developer" ? "system" : message.role,
    content: textOf(message.content, `messages.${i}.content`),
  }));
}

function textOf(content: ChatBody["messages"][number]["content"], param: string): string {
  if (typeof content === "string") return content;
  return (content ?? [])
    .map((part) => {
      if (typeof part.text === "string") return part.text;
      throw new ApiError("invalid_value", `${param}: only text parts are supported.`, { param });
    })
    .join("\n");
}

export async function tokenizeChat(
  c: Context<AppEnv>,
  messages: readonly ChatMessage[],
  options: TemplateOptions,
): Promise<{ text: string; ids: number[] }> {
  const context = c.get("server");
  // Before it is rendered too: what a template does with megabytes of text holds up everybody.
  checkTextLength(
    context,
    messages.reduce((sum, { content }) => sum + (content?.length ?? 0), 0),
    "messages",
  );
  const { text, content } = context.engine.renderPrompt(messages, options);
  return { text, ids: await tokenizeText(c, text, { addSpecialTokens: false, content }, "messages") };
}

/** Long texts elsewhere: other requests of this thread go on. */
export async function tokenizeText(
  c: Context<AppEnv>,
  text: string,
  options: EncodeOptions,
  param: string,
  leastAnswer: 0 | 1 = 1,
): Promise<number[]> {
  const context = c.get("server");
  checkTextLength(context, text.length, param);
  const ids = await context.engine.tokenizeAside(text, options, c.req.raw.signal);
  checkPromptLength(context, ids.length, param, leastAnswer);
  return ids;
}

function checkTextLength({ engine }: ServerContext, length: number, param: string): void {
  const { maxContext } = engine.model;
  if (length <= maxContext * MAX_CHARS_PER_TOKEN) return;
  const message = `The prompt has ${length} characters, more than this model's context of ${maxContext} tokens can hold. Shorten the prompt.`;
  throw new ApiError("prompt_too_long", message, { param });
}

/** `leastAnswer`: tokens for which there must be room after it. */
export function checkPromptLength(
  { config, engine }: ServerContext,
  length: number,
  param: string,
  leastAnswer: 0 | 1 = 1,
): void {
  const { maxContext } = engine.model;
  if (length + leastAnswer > maxContext)
    throw new RequestError("prompt_too_long", { value: length, limit: maxContext, param });
  const limit = config.maxPromptTokens;
  if (limit === null || length <= limit) return;
  throw new ApiError(
    "prompt_too_long",
    `The prompt has ${length} tokens; this server takes ${limit}. Shorten the prompt.`,
    { param },
  );
}
