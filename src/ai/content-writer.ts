// Parts of an answer as the AI SDK's parts: text, reasoning and tool calls, each opened, grown and closed in turn.

import type {
  LanguageModelV3Reasoning,
  LanguageModelV3StreamPart,
  LanguageModelV3Text,
  LanguageModelV3ToolCall,
} from "@ai-sdk/provider";
import type { AnswerPart } from "../chat/answer.js";

type Content = LanguageModelV3Text | LanguageModelV3Reasoning | LanguageModelV3ToolCall;

export class ContentWriter {
  readonly content: Content[] = [];
  #isOpen = false;

  *take(part: AnswerPart): Generator<LanguageModelV3StreamPart> {
    switch (part.type) {
      case "text":
      case "reasoning":
        if (part.text !== "") yield* this.#grow(part.type, part.text);
        return;
      case "call":
        yield* this.end();
        this.#open({ type: "tool-call", toolCallId: part.id, toolName: part.name, input: "" });
        yield { type: "tool-input-start", id: part.id, toolName: part.name };
        return;
      case "arguments": {
        const call = this.content.at(-1) as LanguageModelV3ToolCall;
        call.input += part.text;
        yield { type: "tool-input-delta", id: call.toolCallId, delta: part.text };
      }
    }
  }

  /** Closes the part under way. */
  *end(): Generator<LanguageModelV3StreamPart> {
    const last = this.content.at(-1);
    if (last === undefined || !this.#isOpen) return;
    this.#isOpen = false;
    if (last.type === "tool-call") {
      last.input ||= "{}";
      yield { type: "tool-input-end", id: last.toolCallId };
      yield last;
    } else yield { type: `${last.type}-end`, id: this.#id };
  }

  *#grow(type: "text" | "reasoning", text: string): Generator<LanguageModelV3StreamPart> {
    if (!this.#isOpen || this.content.at(-1)!.type !== type) {
      yield* this.end();
      this.#open({ type, text: "" });
      yield { type: `${type}-start`, id: this.#id };
    }
    (this.content.at(-1) as LanguageModelV3Text).text += text;
    yield { type: `${type}-delta`, id: this.#id, delta: text };
  }

  #open(content: Content): void {
    this.content.push(content);
    this.#isOpen = true;
  }

  get #id(): string {
    return String(this.content.length - 1);
  }
}
