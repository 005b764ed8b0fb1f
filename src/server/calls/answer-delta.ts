// Parts of an answer in the shape of a chat chunk's delta, and deltas put together to a message: OpenAI's form, which the other APIs are
// written from.

import type { AnswerPart } from "../../chat/answer.js";

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

export function deltaOf(part: AnswerPart): AnswerDelta {
  switch (part.type) {
    case "text":
      return { content: part.text };
    case "reasoning":
      return { reasoning_content: part.text };
    case "arguments":
      return { tool_calls: [{ index: part.index, function: { arguments: part.text } }] };
    case "call": {
      const { index, id, name } = part;
      return { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] };
    }
  }
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
