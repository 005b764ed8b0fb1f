// One answer of a conversation on its way: the engine's text, taken apart into typed parts.

import { Answer, type AnswerPart } from "../../../chat/answer.js";
import type { AssistantMessage, ChatAnswer, ChatGeneration, ChatPart, ToolCall } from "../../chat-types.js";
import type { GenerateResult } from "../../types.js";
import { LiveAnswer } from "../live-answer.js";
import { answerParts } from "./answer-parts.js";
import type { GivenTools } from "./given-tools.js";
import { CallBook, isInvalidCall, isValidCall } from "./read-calls.js";
import type { StartedChat } from "./start-chat.js";

export class AnswerUnderway extends LiveAnswer<ChatPart, ChatAnswer> implements ChatGeneration {
  readonly id: string;
  readonly #started: StartedChat;
  readonly #calls: CallBook;
  #whole: Promise<ChatAnswer> | null = null;

  constructor(started: StartedChat, tools: GivenTools) {
    super();
    this.id = started.generation.id;
    this.#started = started;
    this.#calls = new CallBook(tools);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChatPart> {
    const { generation, answer } = this.#started;
    yield* this.#calls.read(onlyParts(answerParts(generation, generation, answer)));
  }

  result(): Promise<ChatAnswer> {
    this.#whole ??= this.#started.generation.result().then((result) => this.#read(result));
    return this.#whole;
  }

  abort(): void {
    this.#started.generation.abort();
  }

  protected textOf(part: ChatPart): string {
    return partText(part);
  }

  protected wholeText(answer: ChatAnswer): string {
    return answer.text;
  }

  async #read({ id, samples, trace }: GenerateResult): Promise<ChatAnswer> {
    const sample = samples[0]!;
    const answer = new Answer(this.#started.answer);
    const said: AnswerPart[] = [...answer.push(sample.text, sample.tokenIds), ...answer.flush()];
    const parts: ChatPart[] = [];
    for await (const part of this.#calls.read(inTurn(said))) parts.push(part);
    const joined = (type: "text" | "reasoning"): string =>
      parts.map((part) => (part.type === type ? part.text : "")).join("");
    const text = joined("text");
    const reasoning = joined("reasoning");
    const toolCalls = parts.filter(isValidCall).map(({ type: _, ...call }): ToolCall => call);
    const invalidToolCalls = parts.filter(isInvalidCall).map(({ type: _, ...call }) => call);
    const hasCalls = toolCalls.length + invalidToolCalls.length > 0;
    const isCut = sample.finishReason === "length";
    const asMessage = [
      ...toolCalls,
      ...invalidToolCalls.map(({ id, name, argumentsText }) => ({ id, name, arguments: argumentsText })),
    ];
    const message: AssistantMessage = {
      role: "assistant",
      content: text,
      ...(reasoning === "" ? {} : { reasoning }),
      ...(hasCalls ? { toolCalls: asMessage } : {}),
    };
    return {
      ...{ id, text, reasoning, toolCalls, invalidToolCalls, message, trace },
      finishReason: isCut ? "length" : hasCalls ? "tool-calls" : "stop",
      stopReason: sample.stopReason,
      usage: {
        promptTokens: trace.promptTokens,
        completionTokens: trace.completionTokens,
        cachedTokens: trace.cachedTokens,
        reasoningTokens: answer.numReasoningTokens,
      },
      logprobs: sample.logprobs,
    };
  }
}

export function partText(part: { readonly type: string }): string {
  return part.type === "text" ? (part as { readonly type: string; readonly text: string }).text : "";
}

async function* onlyParts(parts: ReturnType<typeof answerParts>): AsyncGenerator<AnswerPart> {
  for await (const { part } of parts) yield part;
}

async function* inTurn(parts: readonly AnswerPart[]): AsyncGenerator<AnswerPart> {
  yield* parts;
}
