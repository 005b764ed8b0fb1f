// Conversations as files: JSON with every branch, to keep and to import; Markdown with what is shown, to read.

import { type Conversation, type Message, pathOf, type ToolCall, titleOf } from "./conversation.js";

const FORMAT = "pagoda-conversations";
const VERSION = 1;
const ROLES: readonly string[] = ["user", "assistant", "tool"];
const NAMES: Readonly<Record<Message["role"], string>> = { user: "You", assistant: "Answer", tool: "Tool" };

export function toJson(conversations: readonly Conversation[]): string {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 2)}\n`;
}

export function toMarkdown(conversation: Conversation): string {
  const parts = [`# ${titleOf(conversation)}`];
  if (conversation.settings.system) parts.push(`> ${conversation.settings.system.replaceAll("\n", "\n> ")}`);
  for (const { role, content, images = [], model, reasoning, toolCalls = [] } of pathOf(conversation)) {
    parts.push(`## ${NAMES[role]}${model === undefined ? "" : ` (${model})`}`);
    if (reasoning !== undefined)
      parts.push(`<details><summary>Reasoning</summary>\n\n${reasoning.trim()}\n\n</details>`);
    for (const url of images) parts.push(`![picture](${url})`);
    if (content !== "") parts.push(role === "tool" ? fence("json", content) : content.trim());
    for (const { name, arguments: text } of toolCalls) parts.push(`Calls \`${name}\``, fence("json", prettyJson(text)));
  }
  return `${parts.join("\n\n")}\n`;
}

function fence(language: string, text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const ticks = "`".repeat(longest + 1);
  return `${ticks}${language}\n${text}\n${ticks}`;
}

/** JSON indented for reading; what is no JSON, as it is. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A name for a file: what the title has of letters, digits and dashes. */
export function fileName(title: string, extension: string): string {
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${name.slice(0, 60) || "conversation"}.${extension}`;
}

/**
 * The conversations of a file that `toJson` wrote; throws an error that says what is wrong with it. Ids are made anew by `newId`, so
 * that importing twice gives two conversations and never overwrites one. Nothing but the known fields is taken over.
 */
export function fromJson(text: string, newId: () => string): Conversation[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON. Export conversations as JSON to import them.");
  }
  const { format, version, conversations } = record(file, "the file");
  if (format !== FORMAT || !Array.isArray(conversations)) throw new Error("This file has no conversations of Pagoda.");
  if (version !== VERSION) throw new Error(`This file is of version ${String(version)}; this page reads ${VERSION}.`);
  return conversations.map((value, i) => readConversation(value, `conversation ${i + 1}`, newId));
}

function readConversation(value: unknown, where: string, newId: () => string): Conversation {
  const from = record(value, where);
  if (!Array.isArray(from.messages)) throw new Error(`${where} has no messages.`);
  const ids = new Map([["", ""]]); // a parent comes before its children: no circle can pass
  const messages = from.messages.map((message, i) => readMessage(message, `${where}, message ${i + 1}`, ids, newId));
  const chosen: Record<string, string> = {};
  for (const [parent, child] of Object.entries(record(from.chosen ?? {}, where))) {
    const [newParent, newChild] = [ids.get(parent), ids.get(String(child))];
    if (newParent !== undefined && newChild !== undefined) chosen[newParent] = newChild;
  }
  const settings = Object.entries(record(from.settings ?? {}, where)).filter(([, set]) => typeof set === "string");
  return {
    id: newId(),
    createdMs: number(from.createdMs),
    updatedMs: number(from.updatedMs),
    name: typeof from.name === "string" ? from.name : null,
    model: typeof from.model === "string" ? from.model : null,
    settings: Object.fromEntries(settings) as Record<string, string>,
    messages,
    chosen,
  };
}

function readMessage(value: unknown, where: string, ids: Map<string, string>, newId: () => string): Message {
  const from = record(value, where);
  const parent = ids.get(String(from.parent));
  if (parent === undefined) throw new Error(`${where} answers a message that is not before it.`);
  if (typeof from.content !== "string" || typeof from.id !== "string" || ids.has(from.id))
    throw new Error(`${where} has no text, or no id of its own.`);
  if (!ROLES.includes(String(from.role))) throw new Error(`${where} has the role ${JSON.stringify(from.role)}.`);
  const id = newId();
  ids.set(from.id, id);
  const texts = Object.fromEntries(
    ["reasoning", "toolCallId", "model", "error"].flatMap((key) =>
      typeof from[key] === "string" ? [[key, from[key]]] : [],
    ),
  ) as Partial<Message>;
  const facts = Array.isArray(from.facts) ? from.facts.filter((fact) => typeof fact === "string") : [];
  const images = Array.isArray(from.images) ? from.images.filter(isPicture) : [];
  const toolCalls = Array.isArray(from.toolCalls) ? from.toolCalls.map((call) => readCall(call, where)) : [];
  return {
    ...{ id, parent, role: from.role as Message["role"], content: from.content, createdMs: number(from.createdMs) },
    ...texts,
    ...(images.length > 0 ? { images } : {}),
    ...(facts.length > 0 ? { facts } : {}),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
  };
}

/** Only what is in the file itself. */
function isPicture(url: unknown): url is string {
  return typeof url === "string" && /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]*$/.test(url);
}

function readCall(value: unknown, where: string): ToolCall {
  const { id, name, arguments: text } = record(value, where);
  if (typeof id !== "string" || typeof name !== "string" || typeof text !== "string")
    throw new Error(`${where} has a tool call without id, name or arguments.`);
  return { id, name, arguments: text };
}

function record(value: unknown, where: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${where} is no object.`);
  return value as Record<string, unknown>;
}

function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}
