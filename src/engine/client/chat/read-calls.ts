// Calls of tools out of an answer's parts: names and arguments that come in pieces become whole, parsed and checked by their schemas.

import type { AnswerPart } from "../../../chat/answer.js";
import { checkValue, issuesText } from "../../../chat/schema.js";
import type { ChatPart, InvalidToolCall, ToolCall } from "../../chat-types.js";
import type { GivenTools } from "./given-tools.js";

/** A call as its part. */
export type CallPart = Exclude<ChatPart, { readonly type: "text" | "reasoning" }>;

interface OpenCall {
  readonly index: number;
  readonly name: string;
  text: string;
}

/** Reads the calls of one answer. It may be read twice, as it comes and as a whole: a call has one id, and is checked once. */
export class CallBook {
  readonly #tools: GivenTools;
  readonly #ids: string[] = [];
  readonly #checked: Promise<CallPart>[] = [];

  constructor(tools: GivenTools) {
    this.#tools = tools;
  }

  /** Parts as callers know them. */
  async *read(parts: AsyncIterable<AnswerPart>): AsyncGenerator<ChatPart> {
    let open: OpenCall | null = null;
    for await (const part of parts) {
      if (part.type === "arguments") {
        open!.text += part.text;
        continue;
      }
      if (open !== null) yield await this.#whole(open);
      open = part.type === "call" ? { index: part.index, name: part.name, text: "" } : null;
      if (part.type === "call") this.#ids[part.index] ??= part.id;
      else if (part.text !== "") yield part;
    }
    if (open !== null) yield await this.#whole(open);
  }

  #whole({ index, name, text }: OpenCall): Promise<CallPart> {
    this.#checked[index] ??= this.#check(this.#ids[index]!, name, text);
    return this.#checked[index];
  }

  async #check(id: string, name: string, argumentsText: string): Promise<CallPart> {
    const invalid = (reason: string): CallPart => ({ type: "invalid-tool-call", id, name, argumentsText, reason });
    if (!Object.hasOwn(this.#tools, name)) return invalid(`There is no tool ${JSON.stringify(name)}.`);
    let value: unknown;
    try {
      value = JSON.parse(argumentsText || "{}");
    } catch (error) {
      return invalid(`The arguments are not JSON: ${(error as Error).message}`);
    }
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return invalid("The arguments are no JSON object.");
    const checked = await checkValue(this.#tools[name]!.parameters ?? {}, value);
    if (checked.issues !== undefined) return invalid(`The arguments do not fit: ${issuesText(checked.issues)}`);
    return { type: "tool-call", id, name, arguments: checked.value as ToolCall["arguments"] };
  }
}

export function isValidCall(part: ChatPart): part is { readonly type: "tool-call" } & ToolCall {
  return part.type === "tool-call";
}

export function isInvalidCall(part: ChatPart): part is { readonly type: "invalid-tool-call" } & InvalidToolCall {
  return part.type === "invalid-tool-call";
}
