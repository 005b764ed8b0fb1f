// A conversation is a tree of messages: editing and regenerating add a sibling, so nothing that was said is lost. What is shown is one
// path through it, from the root along the chosen children. Messages never change once they are in, so two tabs that hold the same
// conversation can be merged.

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

export interface Message {
  readonly id: string;
  /** "" for the first. */
  readonly parent: string;
  readonly role: "user" | "assistant" | "tool";
  readonly content: string;
  /** data: URLs, shown to the model before the text. */
  readonly images?: readonly string[];
  readonly createdMs: number;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** Of a tool's message: the call it answers. */
  readonly toolCallId?: string;
  /** Who gave the answer, and what it cost in a few words each. */
  readonly model?: string;
  readonly facts?: readonly string[];
  /** Parts of the content that were guessed ahead and came true. */
  readonly guessed?: readonly (readonly [start: number, end: number])[];
  readonly error?: string;
}

export interface Conversation {
  readonly id: string;
  readonly createdMs: number;
  updatedMs: number;
  /** null: what was said first is its title. */
  name: string | null;
  model: string | null;
  /** What the fields of the settings say, as typed. */
  settings: Readonly<Record<string, string>>;
  readonly messages: Message[];
  /** Parent id -> the child that is shown; without an entry, the newest. */
  readonly chosen: Record<string, string>;
}

const TITLE_CHARS = 60;
export const UNTITLED = "New chat";

export function newConversation(id: string, nowMs: number): Conversation {
  return {
    ...{ id, createdMs: nowMs, updatedMs: nowMs },
    ...{ name: null, model: null, settings: {}, messages: [], chosen: {} },
  };
}

/** Those with the same parent, in the order they came. */
export function childrenOf({ messages }: Conversation, parent: string): Message[] {
  return messages.filter((message) => message.parent === parent);
}

/** The messages that are shown, first to last. */
export function pathOf(conversation: Conversation): Message[] {
  const path: Message[] = [];
  for (let parent = ""; ; ) {
    const children = childrenOf(conversation, parent);
    const next = children.find(({ id }) => id === conversation.chosen[parent]) ?? children.at(-1);
    if (next === undefined) return path;
    path.push(next);
    parent = next.id;
  }
}

/** The messages from the first down to this one. */
export function lineageOf({ messages }: Conversation, id: string): Message[] {
  const lineage: Message[] = [];
  let at = messages.find((message) => message.id === id);
  for (; at !== undefined; at = messages.find((message) => message.id === at!.parent)) lineage.unshift(at);
  return lineage;
}

/** The first call at the end of the path that no tool has answered yet. */
export function pendingCall(path: readonly Message[]): ToolCall | null {
  const at = path.findLastIndex(({ role }) => role !== "tool");
  const answered = new Set(path.slice(at + 1).map(({ toolCallId }) => toolCallId));
  return path[at]?.toolCalls?.find(({ id }) => !answered.has(id)) ?? null;
}

/** Without its oldest exchange: from the next user's message on. Null when there is but one. */
export function withoutOldest(messages: readonly Message[]): Message[] | null {
  const next = messages.findIndex(({ role }, i) => i > 0 && role === "user");
  return next < 0 ? null : messages.slice(next);
}

/** Adds a message, and shows it. */
export function addMessage(conversation: Conversation, message: Message): void {
  conversation.messages.push(message);
  conversation.chosen[message.parent] = message.id;
  conversation.updatedMs = Math.max(conversation.updatedMs, message.createdMs);
}

export interface Siblings {
  /** From 0. */
  readonly index: number;
  readonly count: number;
}

export function siblingsOf(conversation: Conversation, { id, parent }: Message): Siblings {
  const all = childrenOf(conversation, parent);
  return { index: all.findIndex((message) => message.id === id), count: all.length };
}

/** Shows the sibling so many places further; the way down from there is as it was left. */
export function chooseSibling(conversation: Conversation, { id, parent }: Message, by: number): void {
  const all = childrenOf(conversation, parent);
  const next = all[all.findIndex((message) => message.id === id) + by];
  if (next !== undefined) conversation.chosen[parent] = next.id;
}

export function titleOf({ name, messages }: Conversation): string {
  if (name !== null) return name;
  const first =
    messages
      .find(({ role }) => role === "user")
      ?.content.trim()
      .replace(/\s+/g, " ") ?? "";
  if (first === "") return UNTITLED;
  return first.length > TITLE_CHARS ? `${first.slice(0, TITLE_CHARS - 1).trimEnd()}…` : first;
}

/** The conversations in which every word of the query occurs, in their title or in anything said, the newest first. */
export function searchConversations(all: readonly Conversation[], query: string): Conversation[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (conversation: Conversation): boolean => {
    if (words.length === 0) return true;
    const texts = [titleOf(conversation), ...conversation.messages.map(({ content }) => content)];
    const whole = texts.join("\n").toLowerCase();
    return words.every((word) => whole.includes(word));
  };
  return all.filter(matches).sort((a, b) => b.updatedMs - a.updatedMs);
}

/** What is stored by another tab, with what this tab has added: the union of the messages, this tab's choices. */
export function mergeStored(mine: Conversation, stored: Conversation | undefined): Conversation {
  if (stored === undefined) return mine;
  const known = new Set(mine.messages.map(({ id }) => id));
  const others = stored.messages.filter(({ id }) => !known.has(id));
  if (others.length === 0) return mine;
  const messages = [...mine.messages, ...others].sort((a, b) => a.createdMs - b.createdMs);
  return { ...mine, messages, chosen: { ...stored.chosen, ...mine.chosen } };
}
