// Conversations as callers write and read them: messages in, typed parts out.

import type { Schema, SchemaOutput } from "../chat/schema.js";
import type { ImageDetail, SeenPicture } from "./client/pictures/seen-picture.js";
import type { GenerateOptions, RequestTrace, SampleResult, TemplateOptions } from "./types.js";

/** Where a picture is: a data: URL, one of an allowed host or folder, or the bytes of its file (PNG, JPEG, WebP, GIF). */
export type ImageSource = string | URL | Uint8Array | ArrayBuffer | Blob | SeenPicture;

/** A piece of a message's text. */
export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** A picture in a message. */
export interface ImagePart {
  readonly type: "image";
  readonly image: ImageSource;
  /** "low" costs few tokens. Default: "auto", as the model's own processor does. */
  readonly detail?: ImageDetail;
}

/** A piece of a message. */
export type ContentPart = TextPart | ImagePart;

/** Fields that any message may have. */
export interface MessageFields {
  /** Who speaks, where several do; templates may show it. */
  readonly name?: string;
  /** Further fields, for chat templates that know them. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** What the model's instructions are. */
export interface SystemMessage extends MessageFields {
  readonly role: "system" | "developer";
  readonly content: string | readonly TextPart[];
}

/** What a person asks. */
export interface UserMessage extends MessageFields {
  readonly role: "user";
  /** A text; or parts, where there are pictures. */
  readonly content: string | readonly ContentPart[];
}

/** What the model answered. */
export interface AssistantMessage extends MessageFields {
  readonly role: "assistant";
  readonly content?: string | readonly TextPart[] | null;
  /** What it thought; most templates leave earlier thoughts out. */
  readonly reasoning?: string;
  readonly toolCalls?: readonly { readonly id: string; readonly name: string; readonly arguments: unknown }[];
}

/** What a call of a tool gave. */
export interface ToolMessage extends MessageFields {
  readonly role: "tool";
  readonly toolCallId: string;
  readonly content: string | readonly TextPart[];
}

/** One message of a conversation. */
export type ChatMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** What a tool's function gets beside its arguments. */
export interface ToolContext {
  /** Of the call. */
  readonly id: string;
  /** Aborted when the run is. */
  readonly signal: AbortSignal;
}

/** A function that the model may call. */
export interface Tool<S = Schema> {
  /** What it does, for the model. */
  readonly description?: string;
  /** A schema of its arguments, an object. Default: no arguments. */
  readonly parameters?: S;
  /** What `run` calls. The result goes back to the model: texts as they are, other values as JSON. */
  execute?(args: SchemaOutput<S, Record<string, unknown>>, context: ToolContext): unknown;
}

/** Tools by name. */
export type Tools<Schemas> = { readonly [Name in keyof Schemas]: Tool<Schemas[Name]> };

/** The schemas of tools by name: what the types of calls are made from. */
export type ToolSchemas = Readonly<Record<string, Schema>>;

/** A call of a tool, its arguments parsed and checked by their schema. */
export type ToolCall<Schemas = ToolSchemas> = {
  readonly [Name in keyof Schemas & string]: {
    readonly id: string;
    readonly name: Name;
    readonly arguments: SchemaOutput<Schemas[Name], Record<string, unknown>>;
  };
}[keyof Schemas & string];

/** A call that cannot be made: of no tool that was offered, or with other arguments than it takes. */
export interface InvalidToolCall {
  readonly id: string;
  readonly name: string;
  /** As the model wrote them. */
  readonly argumentsText: string;
  /** What is wrong, in words. */
  readonly reason: string;
}

/** A piece of an answer, as soon as it is certain. */
export type ChatPart<Schemas = ToolSchemas> =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | ([keyof Schemas] extends [never]
      ? never
      :
          | ({ readonly type: "tool-call" } & ToolCall<Schemas>)
          | ({ readonly type: "invalid-tool-call" } & InvalidToolCall));

/** What `run` gives: the parts of each answer, and what the tools gave in between. */
export type RunPart<Schemas = ToolSchemas> =
  | ChatPart<Schemas>
  | { readonly type: "tool-result"; readonly id: string; readonly name: string; readonly result: unknown }
  | { readonly type: "tool-error"; readonly id: string; readonly name: string; readonly error: unknown };

/** Tokens of a request. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Of the prompt: not computed again. */
  readonly cachedTokens: number;
  /** Of the answer: its thoughts, where the family's tags are tokens. */
  readonly reasoningTokens: number;
}

/** A whole answer. */
export interface ChatAnswer<Schemas = ToolSchemas> {
  readonly id: string;
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall<Schemas>[];
  readonly invalidToolCalls: readonly InvalidToolCall[];
  /** "length": it was cut; "tool-calls": it ends with calls. */
  readonly finishReason: "stop" | "length" | "tool-calls";
  readonly stopReason: string | number | null;
  readonly usage: Usage;
  readonly logprobs: SampleResult["logprobs"];
  readonly trace: RequestTrace;
  /** The answer as a message, for the next question's conversation. */
  readonly message: AssistantMessage;
}

/** What `run` ends with. */
export interface RunResult<Schemas = ToolSchemas> {
  /** The last answer's text. */
  readonly text: string;
  readonly answers: readonly ChatAnswer<Schemas>[];
  /** All that was said after the messages it began with. */
  readonly messages: readonly ChatMessage[];
  /** Of the last answer: "tool-calls" when `maxAnswers` were given and it wanted more. */
  readonly finishReason: ChatAnswer["finishReason"];
  /** Of all answers together. */
  readonly usage: Usage;
}

/**
 * Something on its way. Iterate it for pieces as they come, or await it for the whole. Leaving the loop early, `abort()` and the end of an
 * `await using` block end the request and free its memory.
 */
export interface Underway<Piece, Whole> extends AsyncIterable<Piece>, PromiseLike<Whole>, AsyncDisposable {
  readonly id: string;
  /** Resolves when all of it is there; rejects when the request failed. The same as awaiting the object itself. */
  result(): Promise<Whole>;
  /** The whole text. */
  text(): Promise<string>;
  /** Its text as bytes, for `new Response(...)`. */
  toReadableStream(): ReadableStream<Uint8Array>;
  /** Ends the request; the loop and `result()` reject with an AbortError (code `aborted`). */
  abort(): void;
}

/** An answer on its way. */
export interface ChatGeneration<Schemas = ToolSchemas> extends Underway<ChatPart<Schemas>, ChatAnswer<Schemas>> {}

/** Answers and calls on their way. */
export interface ChatRun<Schemas = ToolSchemas> extends Underway<RunPart<Schemas>, RunResult<Schemas>> {}

/** How to answer a conversation. */
export interface ChatOptions<Schemas = ToolSchemas>
  extends Omit<GenerateOptions, "n" | "pictures" | "promptLogprobs" | "skipSpecialTokens">,
    TemplateOptions {
  readonly tools?: Tools<Schemas>;
  /** "required": some tool is called; a name: that one. Default: "auto". */
  readonly toolChoice?: "auto" | "none" | "required" | { readonly name: keyof Schemas & string };
  /** false: a forced choice makes one call. Default: true. */
  readonly parallelToolCalls?: boolean;
  /** Thoughts end after this number of tokens. Default: no limit. */
  readonly thinkingBudget?: number;
}

/** How to run a conversation with tools. */
export interface RunOptions<Schemas = ToolSchemas> extends ChatOptions<Schemas> {
  readonly tools: Tools<Schemas>;
  /** The most answers, so that a model that calls for ever ends. Default: 16. */
  readonly maxAnswers?: number;
}

/** What `engine.object` takes: a schema, a prompt or messages, and sampling parameters. */
export interface ObjectRequest<S extends Schema = Schema>
  extends Omit<GenerateOptions, "constraint" | "n" | "pictures" | "promptLogprobs" | "skipSpecialTokens">,
    TemplateOptions {
  /** zod, Valibot, ArkType, any Standard Schema with JSON Schema; or plain JSON schema. */
  readonly schema: S;
  /** A text to continue, or messages to answer: one of the two. */
  readonly prompt?: string | readonly number[];
  readonly messages?: string | readonly ChatMessage[];
  readonly thinkingBudget?: number;
}

/** A value that the schema accepts, and the answer it was read from. */
export interface ObjectResult<Value> {
  readonly object: Value;
  /** The answer as it was written. */
  readonly text: string;
  readonly usage: Usage;
  readonly trace: RequestTrace;
}
