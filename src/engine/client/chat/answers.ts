// Answers to conversations: their prompts are made aside, and what is wrong with a request is told to whoever reads its answer.

import { randomUUID } from "node:crypto";
import { chatFormOf } from "../../../chat/chat-form.js";
import { withToolsTold } from "../../../chat/written-tools.js";
import type { ChatAnswer, ChatMessage, ChatOptions, ChatPart } from "../../chat-types.js";
import type { PromptMessage, PromptOptions, ServedEngine } from "../../served-engine.js";
import type { GenerateOptions, GenerateResult, Generation, OutputChunk, TemplateOptions } from "../../types.js";
import { chunkText, type TextGeneration } from "../generation.js";
import { LaterAnswer } from "../live-answer.js";
import { AnswerUnderway, partText } from "./chat-answer.js";
import { type GivenTools, offeredTools } from "./given-tools.js";
import { promptMessagesOf } from "./prompt-messages.js";
import { promptIds, startChat } from "./start-chat.js";

type Submit = (ids: readonly number[], options: GenerateOptions) => TextGeneration;
type Messages = string | readonly ChatMessage[];

/** A conversation in typed parts. */
export function chatAnswer(
  engine: ServedEngine,
  messages: Messages,
  options: ChatOptions,
): LaterAnswer<ChatPart, ChatAnswer> {
  const { id = freshId(), signal, client = "" } = options;
  const start = async (left: AbortSignal) => {
    const started = await startChat(engine, promptMessagesOf(messages), { ...options, id }, { signal: left, client });
    return { answer: new AnswerUnderway(started, (options.tools ?? {}) as GivenTools) };
  };
  return new LaterAnswer(id, start, signal, partText, ({ text }) => text);
}

/** A conversation's answer as the model writes it. */
export function rawAnswer(
  engine: ServedEngine,
  submit: Submit,
  messages: readonly ChatMessage[],
  { templateArgs, continueFinalMessage, ...options }: GenerateOptions & TemplateOptions,
): Generation {
  const { client = "" } = options;
  const template = templateOptionsOf(templateArgs, continueFinalMessage);
  return laterText(options, async (left, id) => {
    const told = withToolsTold(chatFormOf(engine).toolPlace, promptMessagesOf(messages), []).messages;
    const asker = { signal: left, client };
    const { ids, pictures } = await promptIds(engine, told as readonly PromptMessage[], asker, template);
    const shown = pictures.length === 0 ? {} : { pictures };
    return { answer: submit(ids, { ...options, ...shown, id }) };
  });
}

/** A request that cannot be answered. */
export function refusedAnswer(options: GenerateOptions, error: unknown): Generation {
  return laterText(options, () => Promise.reject(error));
}

function laterText(
  { id = freshId(), signal }: GenerateOptions,
  start: (left: AbortSignal, id: string) => Promise<{ answer: TextGeneration }>,
): LaterAnswer<OutputChunk, GenerateResult> {
  return new LaterAnswer(
    id,
    (left) => start(left, id),
    signal,
    chunkText,
    ({ text }) => text,
  );
}

/** The prompt of a conversation without pictures. */
export async function renderedChat(
  engine: ServedEngine,
  messages: Messages,
  options: TemplateOptions & Pick<ChatOptions, "tools">,
): Promise<string> {
  const { tools } = await offeredTools(options);
  const told = withToolsTold(chatFormOf(engine).toolPlace, promptMessagesOf(messages), tools);
  const template = { ...templateOptionsOf(options.templateArgs, options.continueFinalMessage), tools: told.tools };
  const { text } = await engine.renderAside(told.messages as readonly PromptMessage[], template);
  return text;
}

function templateOptionsOf(
  templateArgs: TemplateOptions["templateArgs"] | undefined,
  continueFinalMessage: boolean | undefined,
): PromptOptions {
  return {
    ...(templateArgs === undefined ? {} : { templateArgs }),
    ...(continueFinalMessage === undefined ? {} : { continueFinalMessage }),
  };
}

function freshId(): string {
  return `req-${randomUUID()}`;
}
