// The AI SDK's prompt as messages for a chat template.

import { type LanguageModelV3Prompt, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import type { ChatMessage } from "../engine/types.js";

type Part = Exclude<LanguageModelV3Prompt[number]["content"], string>[number];
type ToolResult = Extract<Part, { type: "tool-result" }>;

export function messagesOf(prompt: LanguageModelV3Prompt): ChatMessage[] {
  return prompt.flatMap((message): ChatMessage[] => {
    if (message.role === "system") return [{ role: "system", content: message.content }];
    if (message.role === "tool")
      return message.content.flatMap((part) => (part.type === "tool-result" ? [resultMessage(part)] : []));
    const parts: readonly Part[] = message.content;
    const text = parts.map(textOf).join("");
    if (message.role === "user") return [{ role: "user", content: text }];
    const thoughts = parts.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("");
    const calls = parts.flatMap((part) =>
      part.type === "tool-call"
        ? [
            {
              id: part.toolCallId,
              type: "function",
              function: { name: part.toolName, arguments: JSON.stringify(part.input ?? {}) },
            },
          ]
        : [],
    );
    return [
      {
        role: "assistant",
        content: text,
        ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
        ...(calls.length === 0 ? {} : { tool_calls: calls }),
      },
    ];
  });
}

function textOf(part: Part): string {
  if (part.type === "text") return part.text;
  if (part.type === "file")
    throw new UnsupportedFunctionalityError({ functionality: `files of type ${part.mediaType}` });
  return "";
}

function resultMessage({ toolCallId, toolName, output }: ToolResult): ChatMessage {
  return { role: "tool", tool_call_id: toolCallId, name: toolName, content: outputText(output) };
}

function outputText(output: ToolResult["output"]): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "execution-denied":
      return output.reason ?? "The call was not allowed.";
    case "content":
      return output.value.map((part) => (part.type === "text" ? part.text : "")).join("\n");
    default:
      return JSON.stringify(output.value);
  }
}
