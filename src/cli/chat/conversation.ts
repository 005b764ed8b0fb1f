// What was said so far, and what may be done with it: turns leave from the front when the context is full, the last answer can be
// asked for again, and the whole can be kept in a file.

import { readFileSync, writeFileSync } from "node:fs";
import type {
  AssistantMessage,
  ChatMessage,
  ContentPart,
  SystemMessage,
  UserMessage,
} from "../../engine/chat-types.js";
import type { Said } from "../picture-files.js";

type Turn = UserMessage | (AssistantMessage & { readonly content: string });

export class Conversation {
  #system: string | null;
  #messages: Turn[] = [];

  constructor(system: string | null) {
    this.#system = system;
  }

  /** What is sent: the system message, then the turns; not those that were stopped before a word came. */
  get messages(): readonly ChatMessage[] {
    const turns = this.#messages.filter((_, i) => this.#messages[i | 1]?.content !== "");
    return this.#system === null ? turns : [{ role: "system", content: this.#system }, ...turns];
  }

  reset(system: string | null = this.#system): void {
    this.#system = system;
    this.#messages = [];
  }

  add(question: Said, answer: string): void {
    this.#messages.push({ role: "user", content: question }, { role: "assistant", content: answer });
  }

  /** Forgets the oldest question and its answer; false when there is none. */
  dropOldest(): boolean {
    return this.#messages.splice(0, 2).length > 0;
  }

  /** Takes the last question back, with its answer; null when there is none. */
  takeLast(): Said | null {
    const [question] = this.#messages.splice(-2, 2);
    return question === undefined ? null : (question.content ?? "");
  }

  save(file: string): void {
    writeFileSync(file, `${JSON.stringify(this.messages, null, 2)}\n`);
  }

  /** Replaces the conversation; a file that is none leaves it as it was. */
  load(file: string): void {
    const found: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (!Array.isArray(found) || !found.every(isMessage)) throw new Error(`${file} holds no saved conversation`);
    const [first, ...rest] = found;
    const hasSystem = first?.role === "system";
    this.#system = hasSystem ? String(first.content) : null;
    this.#messages = (hasSystem ? rest : found) as Turn[];
  }

  get numTurns(): number {
    return this.#messages.length / 2;
  }
}

function isMessage(value: unknown): value is Turn | SystemMessage {
  const { role, content } = (value ?? {}) as Record<string, unknown>;
  const isKnown = role === "system" || role === "user" || role === "assistant";
  return isKnown && (typeof content === "string" || (Array.isArray(content) && content.every(isPart)));
}

function isPart(value: unknown): value is ContentPart {
  const { type, text, image } = (value ?? {}) as Record<string, unknown>;
  return type === "text" ? typeof text === "string" : type === "image" && typeof image === "string";
}
