// The border of conversations: what a caller wrote becomes messages as chat templates see them, or a RequestError that names the place.

import { RequestError } from "../../../core/errors.js";
import { suggest } from "../../../core/suggest.js";
import type { ChatMessage } from "../../chat-types.js";
import type { PromptMessage } from "../../served-engine.js";

const COMMON = ["role", "content", "name", "fields"];
/** Fields of each role's messages. */
const FIELDS: Readonly<Record<ChatMessage["role"], readonly string[]>> = {
  system: COMMON,
  developer: COMMON,
  user: COMMON,
  assistant: [...COMMON, "reasoning", "toolCalls"],
  tool: [...COMMON, "toolCallId"],
};

/** A text is one message of the user. */
export function promptMessagesOf(messages: string | readonly ChatMessage[]): readonly PromptMessage[] {
  if (typeof messages === "string") return [{ role: "user", content: messages }];
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalid("messages", messages, 'a text, or a list of messages such as { role: "user", content: "..." }');
  }
  return messages.map((message, i) => promptMessageOf(message, `messages.${i}`));
}

function promptMessageOf(message: ChatMessage, param: string): PromptMessage {
  const known = FIELDS[message?.role];
  if (known === undefined) throw invalid(`${param}.role`, message?.role, `one of ${Object.keys(FIELDS).join(", ")}`);
  for (const field of Object.keys(message)) {
    if (known.includes(field)) continue;
    throw new RequestError("unknown_field", { param: `${param}.${field}`, known: suggest(field, known) });
  }
  const { role, fields, name } = message;
  const own = { ...fields, ...(name === undefined ? {} : { name }) };
  const content = contentOf(message, `${param}.content`);
  if (role === "assistant") return { ...own, role, content, ...saidOf(message, param) };
  if (role !== "tool") return { ...own, role: role === "developer" ? "system" : role, content };
  if (typeof message.toolCallId !== "string") throw invalid(`${param}.toolCallId`, message.toolCallId, "a call's id");
  return { ...own, role, content, tool_call_id: message.toolCallId };
}

function contentOf({ role, content }: ChatMessage, param: string): NonNullable<PromptMessage["content"]> {
  if (typeof content === "string") return content;
  if (role === "assistant" && (content === undefined || content === null)) return "";
  const isPart = (part: unknown): boolean => {
    const { type, text, image } = (part ?? {}) as { type?: unknown; text?: unknown; image?: unknown };
    return type === "text" ? typeof text === "string" : type === "image" && role === "user" && image !== undefined;
  };
  if (Array.isArray(content) && content.length > 0 && content.every(isPart)) return content;
  const parts = role === "user" ? "text or image" : "text";
  throw invalid(param, content, `a text, or a list of parts of the type ${parts}`);
}

/** What an assistant's message has beside its text, by the names that templates know. */
function saidOf(
  { reasoning, toolCalls }: Extract<ChatMessage, { role: "assistant" }>,
  param: string,
): Record<string, unknown> {
  const isCall = (call: unknown): boolean => {
    const { id, name } = (call ?? {}) as { id?: unknown; name?: unknown };
    return typeof id === "string" && typeof name === "string";
  };
  if (toolCalls !== undefined && !(Array.isArray(toolCalls) && toolCalls.every(isCall)))
    throw invalid(`${param}.toolCalls`, toolCalls, "a list of calls: { id, name, arguments }");
  const calls = (toolCalls ?? []).map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: call.arguments ?? {} },
  }));
  return {
    ...(reasoning === undefined || reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  const shown = JSON.stringify(value) ?? String(value);
  return new RequestError("invalid_value", { param, value: shown.slice(0, 200), expected });
}
