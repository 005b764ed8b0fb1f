// From a request's messages or text to token ids, within limits that are checked before any long work is done.

import type { Context } from "hono";
import type { FunctionTool } from "../../chat/tool.js";
import { withToolsTold } from "../../chat/written-tools.js";
import type { ContentPart } from "../../engine/chat-types.js";
import type { PicturePrompt, PromptMessage, PromptOptions } from "../../engine/served-engine.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";
import type { AppEnv, ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";
import { clientOf } from "../http/auth.js";
import { MOST_MESSAGES } from "../http/parse-body.js";
import { MAX_CHARS_PER_TOKEN, tooLongAtLeast } from "../http/too-long.js";
import type { ChatBody } from "../openai/chat-schema.js";
import type { ImagePartBody } from "../schemas/pictures.js";

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

/** Messages as the engine takes them: one text, or parts where there are pictures; "system" for OpenAI's newer "developer". */
export function toChatMessages(messages: ChatBody["messages"]): PromptMessage[] {
  return messages.map((message, i) => ({
    ...message,
    role: message.role === "developer" ? "system" : message.role,
    content: contentOf(message.content, `messages.${i}.content`),
  }));
}

type Content = ChatBody["messages"][number]["content"];

function contentOf(content: Content, param: string): string | ContentPart[] {
  if (typeof content === "string") return content;
  const parts = (content ?? []).map((part): ContentPart => {
    if (part.type === "image_url") return imageOf(part.image_url);
    if (typeof part.text === "string") return { type: "text", text: part.text };
    throw new ApiError("invalid_value", `${param}: only parts with a text, or a picture, are supported.`, { param });
  });
  if (parts.some(({ type }) => type === "image")) return parts;
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");
}

function imageOf(given: ImagePartBody["image_url"]): ContentPart {
  if (typeof given === "string") return { type: "image", image: given };
  return { type: "image", image: given.url, ...(given.detail == null ? {} : { detail: given.detail }) };
}

/** Characters of a message's texts. */
function textLengthOf({ content }: PromptMessage): number {
  if (typeof content === "string") return content.length;
  return (content ?? []).reduce((sum, part) => sum + (part.type === "text" ? part.text.length : 0), 0);
}

/** `isCounted`: only how many tokens it has is asked for, which may be more than the context holds. */
export async function tokenizeChat(
  c: Context<AppEnv>,
  messages: readonly PromptMessage[],
  options: PromptOptions,
  { isCounted = false } = {},
): Promise<{ text: string; ids: number[]; pictures: PicturePrompt["pictures"] }> {
  const context = c.get("server");
  if (messages.length > MOST_MESSAGES)
    throw new ApiError(
      "invalid_value",
      `A conversation may have ${MOST_MESSAGES} messages; this one has ${messages.length}.`,
      {
        param: "messages",
      },
    );
  // Before it is rendered too: what a template does with megabytes of text holds up everybody.
  const length = messages.reduce((sum, message) => sum + textLengthOf(message), 0);
  if (!isCounted) checkTextLength(context, length, "messages");
  const asker = { signal: c.req.raw.signal, client: clientOf(c) };
  const told = withToolsTold(context.form.toolPlace, messages, (options.tools ?? []) as readonly FunctionTool[]);
  const seen = await context.engine.prepareImages(told.messages as readonly PromptMessage[], asker);
  const { text, content, pictures } = await context.engine.renderAside(seen, { ...options, tools: told.tools }, asker);
  const encoding = { addSpecialTokens: false, content };
  const ids = isCounted
    ? await context.engine.tokenizeAside(text, encoding, asker.signal, asker.client)
    : await tokenizeText(c, text, encoding, "messages");
  return { text, ids, pictures };
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
  const ids = await context.engine.tokenizeAside(text, options, c.req.raw.signal, clientOf(c));
  checkPromptLength(context, ids.length, param, leastAnswer);
  return ids;
}

function checkTextLength({ engine }: ServerContext, length: number, param: string): void {
  const { maxContext } = engine.model;
  if (length > maxContext * MAX_CHARS_PER_TOKEN) throw tooLongAtLeast(length, maxContext, param);
}

/** `leastAnswer`: tokens for which there must be room after it. */
export function checkPromptLength(
  { config, engine }: ServerContext,
  length: number,
  param: string,
  leastAnswer: 0 | 1 = 1,
): void {
  const { maxContext } = engine.model;
  const refuse = (limit: number, message: string): never => {
    throw new ApiError("context_length_exceeded", message, {
      param,
      excess: { tokens: length, limit, isLeast: false },
    });
  };
  if (length + leastAnswer > maxContext) {
    const room = leastAnswer === 0 ? "" : ", at least one of them for the answer";
    const message = `The prompt has ${length} tokens; this model's maximum context length is ${maxContext} tokens${room}. Shorten the prompt.`;
    refuse(maxContext - leastAnswer, message);
  }
  const limit = config.maxPromptTokens;
  if (limit !== null && length > limit)
    refuse(limit, `The prompt has ${length} tokens; this server takes ${limit}. Shorten the prompt.`);
}
