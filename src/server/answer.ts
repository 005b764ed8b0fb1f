// The text of one sample taken apart as it comes: reasoning, content, tool calls.

import { randomBytes } from "node:crypto";
import { ReasoningSplitter, type ReasoningTags } from "./reasoning.js";
import type { ToolEvent, ToolFormat, ToolParser, ToolSet } from "./tools/tool-format.js";

/** A piece of an answer, in the shape of a chat chunk's delta. */
export interface AnswerDelta {
  reasoning_content?: string;
  content?: string;
  tool_calls?: ToolCallDelta[];
}

export interface ToolCallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: "function";
  readonly function: { readonly name?: string; readonly arguments: string };
}

export interface AnswerOptions {
  /** null: think tags are text like any other. */
  readonly reasoning: { readonly tags: ReasoningTags; readonly isThinking: boolean } | null;
  readonly tools: { readonly format: ToolFormat; readonly set: ToolSet } | null;
}

export class Answer {
  readonly #splitter: ReasoningSplitter | null;
  readonly #parser: ToolParser | null;
  readonly #makeId: () => string;
  numCalls = 0;

  constructor({ reasoning, tools }: AnswerOptions) {
    this.#splitter = reasoning === null ? null : new ReasoningSplitter(reasoning.tags, reasoning.isThinking);
    this.#parser = tools === null ? null : tools.format.createParser(tools.set);
    this.#makeId = tools?.format.name === "mistral" ? shortId : longId;
  }

  /** What is certain now. */
  push(text: string): AnswerDelta[] {
    if (this.#splitter === null) return this.#content(text);
    return this.#splitter
      .push(text)
      .flatMap((part) => (part.kind === "reasoning" ? [{ reasoning_content: part.text }] : this.#content(part.text)));
  }

  /** The rest, when the sample has ended. */
  flush(): AnswerDelta[] {
    const deltas: AnswerDelta[] = [];
    for (const part of this.#splitter?.flush() ?? []) {
      if (part.kind === "reasoning") deltas.push({ reasoning_content: part.text });
      else deltas.push(...this.#content(part.text));
    }
    if (this.#parser !== null) deltas.push(...this.#deltas(this.#parser.flush()));
    return deltas;
  }

  #content(text: string): AnswerDelta[] {
    if (text === "") return [];
    return this.#parser === null ? [{ content: text }] : this.#deltas(this.#parser.push(text));
  }

  #deltas(events: readonly ToolEvent[]): AnswerDelta[] {
    return events.map((event): AnswerDelta => {
      if (event.kind === "text") return { content: event.text };
      if (event.kind === "reasoning") return { reasoning_content: event.text };
      const { index } = event;
      if (event.kind === "arguments") return { tool_calls: [{ index, function: { arguments: event.text } }] };
      this.numCalls++;
      const call = {
        index,
        id: this.#makeId(),
        type: "function" as const,
        function: { name: event.name, arguments: "" },
      };
      return { tool_calls: [call] };
    });
  }
}

function longId(): string {
  return `call_${randomBytes(12).toString("hex")}`;
}

/** Mistral's template takes nine characters. */
function shortId(): string {
  return randomBytes(5).toString("hex").slice(0, 9);
}

interface MessageCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { name: string; arguments: string };
}

/** Deltas put together to a whole message. */
export function messageOf(deltas: readonly AnswerDelta[]): {
  role: "assistant";
  content: string | null;
  reasoning_content?: string;
  tool_calls?: MessageCall[];
} {
  let content = "";
  let reasoning = "";
  const calls: MessageCall[] = [];
  for (const delta of deltas) {
    content += delta.content ?? "";
    reasoning += delta.reasoning_content ?? "";
    for (const call of delta.tool_calls ?? []) {
      if (call.id !== undefined)
        calls[call.index] = { id: call.id, type: "function", function: { name: call.function.name!, arguments: "" } };
      calls[call.index]!.function.arguments += call.function.arguments;
    }
  }
  for (const call of calls) call.function.arguments ||= "{}";
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}
