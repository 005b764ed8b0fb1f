// Tools for models whose chat template has no place for them: told in a message, and calls and results written as text. The form is that
// of Hermes, which many models have seen: docs/guide/tools.md states it.

import type { TemplateMessage } from "../tokenizer/chat-template.js";
import type { ToolPlace } from "./chat-form.js";
import type { FunctionTool } from "./tool.js";

interface Conversation {
  readonly messages: readonly TemplateMessage[];
  /** For the template. */
  readonly tools: readonly FunctionTool[];
}

/** The conversation as the template can show it. */
export function withToolsTold(
  place: ToolPlace,
  messages: readonly TemplateMessage[],
  tools: readonly FunctionTool[],
): Conversation {
  if (place === "template" || place === null) return { messages, tools };
  const written = withCallsWritten(messages);
  return { messages: tools.length === 0 ? written : withNote(written, place, noteOf(tools)), tools: [] };
}

function noteOf(tools: readonly FunctionTool[]): string {
  const lines = tools.map(({ function: { name, description, parameters } }) =>
    JSON.stringify({ name, ...(description ? { description } : {}), parameters: parameters ?? { type: "object" } }),
  );
  return `You can call these tools, each given with a JSON schema of its arguments:
<tools>
${lines.join("\n")}
</tools>
To call one, write this with its name and arguments, and wait for the result:
<tool_call>
{"name": "...", "arguments": {...}}
</tool_call>
Results come as <tool_response>...</tool_response>. Call a tool only if you need it.`;
}

function withNote(
  messages: readonly TemplateMessage[],
  place: "system" | "user",
  note: string,
): readonly TemplateMessage[] {
  const isPlace = ({ role }: TemplateMessage): boolean =>
    place === "user" ? role === "user" : role === "system" || role === "developer";
  const at = messages.findIndex(isPlace);
  if (at < 0) return [{ role: place, content: note }, ...messages];
  const { content } = messages[at]!;
  // Behind what a system message says, before what a user asks.
  const joined = place === "system" ? joinedTo(content, `\n\n${note}`) : joinedTo(`${note}\n\n`, content);
  return messages.with(at, { ...messages[at]!, content: joined });
}

function joinedTo(first: unknown, second: unknown): unknown {
  if (Array.isArray(first)) return [...first, { type: "text", text: second }];
  if (Array.isArray(second)) return [{ type: "text", text: first }, ...second];
  return `${first ?? ""}${second ?? ""}`;
}

interface WrittenCall {
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
}

/** Calls are part of what the assistant said; results, one after another, are what the user says next. */
function withCallsWritten(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
  const written: TemplateMessage[] = [];
  let isResult = false;
  for (const message of messages) {
    const { tool_calls, tool_call_id: _, name: __, ...rest } = message;
    if (message.role === "tool") {
      const text = `<tool_response>\n${textOf(message.content)}\n</tool_response>`;
      const last = isResult ? written.pop()! : null;
      written.push({ role: "user", content: last === null ? text : `${last.content}\n${text}` });
    } else if (message.role === "assistant" && Array.isArray(tool_calls) && tool_calls.length > 0) {
      const calls = (tool_calls as readonly WrittenCall[]).map(callText);
      const said = textOf(message.content);
      written.push({ ...rest, content: [...(said === "" ? [] : [said]), ...calls].join("\n") });
    } else written.push(message);
    isResult = message.role === "tool";
  }
  return written;
}

function callText({ function: called }: WrittenCall): string {
  const given = called?.arguments ?? {};
  const text = typeof given === "string" ? given : JSON.stringify(given);
  return `<tool_call>\n{"name": ${JSON.stringify(called?.name)}, "arguments": ${text}}\n</tool_call>`;
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part: { text?: unknown }) => (typeof part.text === "string" ? part.text : "")).join("\n");
}
