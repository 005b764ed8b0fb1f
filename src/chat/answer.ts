// The text of one sample taken apart as it comes: reasoning, content, tool calls.

import { randomBytes } from "node:crypto";
import { ReasoningSplitter, type ReasoningTags, type SplitPart } from "./reasoning.js";
import type { ToolEvent, ToolFormat, ToolParser, ToolSet } from "./tools/tool-format.js";

/** A piece of an answer. A call's arguments, JSON text, follow it in pieces. */
export type AnswerPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "call"; readonly index: number; readonly id: string; readonly name: string }
  | { readonly type: "arguments"; readonly index: number; readonly text: string };

export interface AnswerOptions {
  /** null: think tags are text like any other. */
  readonly reasoning: {
    readonly tags: ReasoningTags;
    readonly isThinking: boolean;
    /** The token of the closing tag, where it is one: thoughts are counted up to it. */
    readonly closeId?: number;
  } | null;
  readonly tools: { readonly format: ToolFormat; readonly set: ToolSet } | null;
}

export class Answer {
  readonly #splitter: ReasoningSplitter | null;
  readonly #parser: ToolParser | null;
  readonly #makeId: () => string;
  readonly #closeId: number;
  numCalls = 0;
  /** Tokens of its thoughts, their tags among them. */
  numReasoningTokens = 0;

  constructor({ reasoning, tools }: AnswerOptions) {
    this.#splitter = reasoning === null ? null : new ReasoningSplitter(reasoning.tags, reasoning.isThinking);
    this.#closeId = reasoning?.closeId ?? -1;
    this.#parser = tools === null ? null : tools.format.createParser(tools.set);
    this.#makeId = tools?.format.name === "mistral" ? shortId : longId;
  }

  /** What is certain now. `ids`: the tokens that have the text. */
  push(text: string, ids: readonly number[] = []): AnswerPart[] {
    if (this.#splitter === null) return this.#content(text);
    const wasThinking = this.#splitter.isThinking;
    const hadThought = this.#splitter.hasThought;
    const parts = this.#splitter.push(text);
    if (this.#splitter.isThinking) this.numReasoningTokens += ids.length;
    else if (wasThinking || hadThought !== this.#splitter.hasThought)
      this.numReasoningTokens += ids.indexOf(this.#closeId) + 1;
    return parts.flatMap((part) => this.#split(part));
  }

  /** The rest, when the sample has ended. */
  flush(): AnswerPart[] {
    const parts = (this.#splitter?.flush() ?? []).flatMap((part) => this.#split(part));
    if (this.#parser !== null) parts.push(...this.#parts(this.#parser.flush()));
    return parts;
  }

  #split({ kind, text }: SplitPart): AnswerPart[] {
    return kind === "reasoning" ? [{ type: "reasoning", text }] : this.#content(text);
  }

  #content(text: string): AnswerPart[] {
    if (text === "") return [];
    return this.#parser === null ? [{ type: "text", text }] : this.#parts(this.#parser.push(text));
  }

  #parts(events: readonly ToolEvent[]): AnswerPart[] {
    return events.map((event) => this.#part(event));
  }

  #part(event: ToolEvent): AnswerPart {
    switch (event.kind) {
      case "text":
      case "reasoning":
        return { type: event.kind, text: event.text };
      case "arguments":
        return { type: "arguments", index: event.index, text: event.text };
      case "call":
        this.numCalls++;
        return { type: "call", index: event.index, id: this.#makeId(), name: event.name };
    }
  }
}

function longId(): string {
  return `call_${randomBytes(12).toString("hex")}`;
}

/** Mistral's template takes nine characters. */
function shortId(): string {
  return randomBytes(5).toString("hex").slice(0, 9);
}
