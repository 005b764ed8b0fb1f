// An engine as the server, the AI provider and the terminal need it: what leads from messages to token ids, one step after the other, for
// callers that serve others meanwhile.

import type { ChatPrompt, TemplateMessage } from "../tokenizer/chat-template.js";
import type { EncodeOptions } from "../tokenizer/tokenizer.js";
import type { ContentPart } from "./chat-types.js";
import type { SeenPicture } from "./client/pictures/seen-picture.js";
import type { Engine, GenerateOptions, Generation } from "./types.js";

/** One message as chat templates see it: further fields (name, tool_calls, ...) reach them as they are. */
export interface PromptMessage extends TemplateMessage {
  readonly content?: string | null | undefined | readonly ContentPart[];
}

/** What a template is given beside the messages. */
export interface PromptOptions {
  readonly tools?: readonly unknown[];
  readonly templateArgs?: Readonly<Record<string, unknown>>;
  readonly continueFinalMessage?: boolean;
}

/** The text of a conversation, and the pictures whose tokens are in it. */
export interface PicturePrompt extends ChatPrompt {
  readonly pictures: readonly SeenPicture[];
}

/** Who waits for a text. */
export interface TextAsker {
  readonly signal?: AbortSignal | undefined;
  readonly client?: string;
}

export interface ServedEngine extends Engine {
  /** The source of the model's chat template. */
  readonly chatTemplate: string | null;
  /** Of a small conversation that is nobody's; throws where the template refuses it. */
  renderProbe(messages: readonly TemplateMessage[], tools: readonly unknown[]): string;
  /** Reads the pictures of messages and prepares them for the model, in a thread of their own. */
  prepareImages(messages: readonly PromptMessage[], asker?: TextAsker): Promise<PromptMessage[]>;
  /** The prompt, and which parts of it came with the messages: tokenize() takes them as plain text when given as `content`. */
  renderPrompt(messages: readonly PromptMessage[], options?: PromptOptions): PicturePrompt;
  /** The same, and what takes more than a moment is rendered in a thread of its own, within limits of time and memory and clients in turns. */
  renderAside(messages: readonly PromptMessage[], options?: PromptOptions, asker?: TextAsker): Promise<PicturePrompt>;
  /** A long text is tokenised in a thread of its own. */
  tokenizeAside(text: string, options?: EncodeOptions, signal?: AbortSignal, client?: string): Promise<number[]>;
  /** Lets the model's memory go until something is asked; false: something is under way. */
  sleep(): Promise<boolean>;
  /** The same by itself, when nothing was asked for so long; null: never; left out: as it is configured. */
  sleepAfter(seconds?: number | null): void;
  /** When that will be, on the clock of performance.now(); null: never, as things are. */
  readonly asleepAtMs: number | null;
  /** generate(), which throws at once what it refuses: a stream that has begun can no longer say so by its status. */
  submit(prompt: readonly number[], options: GenerateOptions & PictureOptions): Generation;
}

export interface PictureOptions {
  /** Of the prompt, in order: as renderPrompt() gives them. */
  readonly pictures?: readonly SeenPicture[];
}

/** Every engine that this package makes is one. */
export function asServed(engine: Engine): ServedEngine {
  return engine as ServedEngine;
}
