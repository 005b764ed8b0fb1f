// One side of a conversation: asks, streams the answer to the terminal, and keeps both. A question that fails is not kept; of an answer that is stopped, what
// there is of it is. When the context is nearly full the oldest turns leave before the answer begins, and it says so.

import { printable } from "../../core/printable.js";
import type { ChatMessage, ContentPart } from "../../engine/chat-types.js";
import { pictureOf, type Said, withPictures } from "../picture-files.js";
import { dim, wrap } from "../terminal.js";
import type { Conversation } from "./conversation.js";
import { type ChatPartner, isContextFull, type Reply } from "./partner.js";
import { StyledWriter } from "./styled-writer.js";

/** Of the context, for what was said; the rest is the answer's. */
const ROOM_SHARE = 0.75;

export class Talk {
  readonly conversation: Conversation;
  readonly #partner: ChatPartner;
  readonly #pictures: ContentPart[] = [];
  #answering: AbortController | null = null;
  /** By the last answer; 0: not known yet. */
  #tokensPerChar = 0;

  constructor(partner: ChatPartner, conversation: Conversation, pictures: readonly ContentPart[] = []) {
    this.#pictures.push(...pictures);
    this.#partner = partner;
    this.conversation = conversation;
  }

  /** Stops the answer under way; false when there is none. */
  stop(): boolean {
    this.#answering?.abort();
    return this.#answering !== null;
  }

  /** Pictures for the next question. */
  attach(files: readonly string[]): void {
    try {
      if (files.length === 0) throw new Error("/image needs a file name");
      this.#pictures.push(...files.map(pictureOf));
      const count = this.#pictures.length;
      process.stdout.write(`${count} picture${count === 1 ? "" : "s"} for the next question.\n`);
    } catch (error) {
      process.stdout.write(`${(error as Error).message}\n`);
    }
  }

  /** With the pictures that were attached. */
  async ask(text: string): Promise<void> {
    await this.#ask(withPictures(this.#pictures.splice(0), text));
  }

  async #ask(question: Said): Promise<void> {
    this.#answering = new AbortController();
    const { signal } = this.#answering;
    let said = "";
    const hear = (piece: string): void => {
      said += piece;
    };
    try {
      const reply = await this.#answer(question, signal, hear);
      this.conversation.add(question, reply.text);
      this.#tokensPerChar = tokensPerChar(reply, this.conversation);
      process.stdout.write(`\n${note(describe(reply))}`);
    } catch (error) {
      if (signal.aborted) this.conversation.add(question, said);
      process.stdout.write(`\n${signal.aborted ? "[stopped]" : printable((error as Error).message)}\n`);
    } finally {
      this.#answering = null;
    }
  }

  async regenerate(): Promise<void> {
    const question = this.conversation.takeLast();
    if (question === null) process.stdout.write("There is no answer yet.\n");
    else await this.#ask(question);
  }

  keep(command: "/save" | "/load", file: string): void {
    try {
      if (file === "") throw new Error(`${command} needs a file name`);
      if (command === "/save") this.conversation.save(file);
      else this.conversation.load(file);
      const turns = this.conversation.numTurns;
      process.stdout.write(
        `${turns} turn${turns === 1 ? "" : "s"} ${command === "/save" ? "kept in" : "from"} ${file}.\n`,
      );
    } catch (error) {
      process.stdout.write(`${(error as Error).message}\n`);
    }
  }

  async stats(): Promise<void> {
    process.stdout.write(`${await this.#partner.stats()}\n`);
  }

  /** Lets the oldest turns go until a quarter of the context is left for the answer; how many went. */
  #makeRoom(question: Said): number {
    const limit = (this.#partner.maxContext ?? Number.POSITIVE_INFINITY) * ROOM_SHARE;
    let dropped = 0;
    const tokens = (): number => this.#tokensPerChar * lengthOf([...this.conversation.messages, { content: question }]);
    while (tokens() > limit && this.conversation.dropOldest()) dropped++;
    return dropped;
  }

  /** Asks again with fewer turns for as long as the conversation does not fit. */
  async #answer(question: Said, signal: AbortSignal, hear: (piece: string) => void): Promise<Reply> {
    for (let dropped = this.#makeRoom(question); ; dropped++) {
      const writer = new StyledWriter({
        width: process.stdout.isTTY ? process.stdout.columns : 0,
        styled: process.stdout.isTTY === true && process.env.NO_COLOR === undefined,
        write: (text) => process.stdout.write(text),
      });
      try {
        const messages: ChatMessage[] = [...this.conversation.messages, { role: "user", content: question }];
        let isThinking = false;
        const reply = await this.#partner.answer(messages, signal, (piece, isThought) => {
          if (isThinking && !isThought) process.stdout.write("\n\n");
          isThinking = isThought;
          if (isThought) return process.stdout.write(dim(printable(piece)));
          hear(piece);
          writer.push(piece);
        });
        writer.end();
        if (dropped > 0)
          process.stdout.write(`\n${note(`the context was full: the oldest ${turns(dropped)} left`).trimEnd()}`);
        return reply;
      } catch (error) {
        writer.end();
        if (!isContextFull(error) || !this.conversation.dropOldest()) throw error;
      }
    }
  }
}

function turns(count: number): string {
  return count === 1 ? "turn" : `${count} turns`;
}

/** In brackets under an answer, broken between words. */
function note(text: string): string {
  const width = process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY;
  return dim(`${wrap(`[${text}]`, width).join("\n")}\n`);
}

function lengthOf(messages: readonly Pick<ChatMessage, "content">[]): number {
  return messages.reduce((sum, { content }) => sum + textOf(content).length, 0);
}

/** Pictures have a number of tokens of their own, which has little to do with their bytes. */
function textOf(content: ChatMessage["content"]): string {
  if (typeof content === "string" || content == null) return content ?? "";
  return (content as readonly ContentPart[]).map((part) => (part.type === "text" ? part.text : "")).join("");
}

function tokensPerChar({ promptTokens, completionTokens }: Reply, { messages }: Conversation): number {
  const tokens = (promptTokens ?? 0) + (completionTokens ?? 0);
  return tokens / Math.max(1, lengthOf(messages));
}

function describe({ isCut, isContextFull, ...reply }: Reply): string {
  const { promptTokens, cachedTokens, completionTokens, tokensPerSecond } = reply;
  const end = isContextFull ? ", cut: the context is full" : isCut ? ", cut at the length limit" : "";
  return (
    `${promptTokens ?? "?"} prompt tokens, ${cachedTokens ?? "?"} cached; ${completionTokens ?? "?"} generated at ` +
    `${tokensPerSecond.toFixed(1)} tokens/s${end}`
  );
}
