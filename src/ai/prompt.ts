// The AI SDK's prompt as messages for a chat template.

import { type LanguageModelV3Prompt, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import type { ContentPart } from "../engine/chat-types.js";
import type { ImageDetail } from "../engine/client/pictures/seen-picture.js";
import type { PromptMessage } from "../engine/served-engine.js";

type Part = Exclude<LanguageModelV3Prompt[number]["content"], string>[number];
type ToolResult = Extract<Part, { type: "tool-result" }>;

export function messagesOf(prompt: LanguageModelV3Prompt): PromptMessage[] {
  return prompt.flatMap((message): PromptMessage[] => {
    if (message.role === "system") return [{ role: "system", content: message.content }];
    if (message.role === "tool")
      return message.content.flatMap((part) => (part.type === "tool-result" ? [resultMessage(part)] : []));
    const parts: readonly Part[] = message.content;
    if (message.role === "user") return [{ role: "user", content: contentOf(parts) }];
    const text = parts.map(textOf).join("");
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

/** Parts where there are pictures, else their text. */
function contentOf(parts: readonly Part[]): string | ContentPart[] {
  if (!parts.some(isPicture)) return parts.map(textOf).join("");
  return parts.map((part) => (isPicture(part) ? pictureOf(part) : { type: "text", text: textOf(part) }));
}

type FilePart = Extract<Part, { type: "file" }>;

function isPicture(part: Part): part is FilePart {
  return part.type === "file" && part.mediaType.startsWith("image/");
}

/** Its bytes, base64 or a URL. */
function pictureOf({ data, providerOptions }: FilePart): ContentPart {
  const image = typeof data === "string" && !/^(data|https?|file):/i.test(data) ? `data:image;base64,${data}` : data;
  const detail = (providerOptions?.pagoda as { detail?: ImageDetail } | undefined)?.detail;
  return { type: "image", image, ...(detail === undefined ? {} : { detail }) };
}

function textOf(part: Part): string {
  if (part.type === "text") return part.text;
  if (part.type === "file")
    throw new UnsupportedFunctionalityError({ functionality: `files of type ${part.mediaType}` });
  return "";
}

function resultMessage({ toolCallId, toolName, output }: ToolResult): PromptMessage {
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
