// An answer while it comes: gathers the pieces, shows them once per frame, counts what it cost.

import type { Message, ToolCall } from "../../data/conversation.js";
import { count, milliseconds, plural, rate, shortId } from "../../data/format.js";
import type { Usage } from "../../data/wire.js";
import { perFrame } from "../dom.js";
import type { AnswerEnd, AnswerSink } from "./answer-stream.js";
import type { Turn } from "./turn.js";

/** Between two paintings: markdown is read again from the beginning of its last block each time. */
const PAINT_MS = 50;
const ENDINGS: Readonly<Record<string, string>> = { length: "cut at the limit of tokens", abort: "aborted" };

export class LiveAnswer implements AnswerSink {
  readonly #turn: Turn;
  readonly #colorOf: (requestId: string) => string;
  readonly #onPaint: () => void;
  #requestId = "";
  #text = "";
  readonly #guessed: [number, number][] = [];
  #reasoning = "";
  readonly #calls: ToolCall[] = [];
  #isOver = false;
  readonly #startMs = performance.now();
  #firstMs = 0;
  #lastMs = 0;
  #numPieces = 0;

  constructor(turn: Turn, colorOf: (requestId: string) => string, onPaint: () => void) {
    this.#turn = turn;
    this.#colorOf = colorOf;
    this.#onPaint = onPaint;
  }

  /** The request that gives this answer has one colour in all views. */
  begin(requestId: string): void {
    if (this.#requestId === requestId) return;
    this.#requestId = requestId;
    this.#turn.setColor(this.#colorOf(requestId));
  }

  addReasoning(piece: string): void {
    this.#reasoning += piece;
    this.#count();
  }

  addText(piece: string, isGuessed: boolean): void {
    if (isGuessed) this.#guessed.push([this.#text.length, this.#text.length + piece.length]);
    this.#text += piece;
    this.#count();
  }

  addCall(index: number, piece: Partial<ToolCall>): void {
    const { id, name, arguments: text } = this.#calls[index] ?? { id: "", name: "", arguments: "" };
    this.#calls[index] = {
      id: piece.id ?? id,
      name: name + (piece.name ?? ""),
      arguments: text + (piece.arguments ?? ""),
    };
    this.#count();
  }

  #count(): void {
    this.#lastMs = performance.now();
    if (this.#numPieces++ === 0) this.#firstMs = this.#lastMs;
    this.#paint();
  }

  readonly #paint = perFrame(() => {
    if (this.#isOver) return;
    this.#turn.body.show(this.#parts(), false);
    // Pieces are about as many as tokens; the usage at the end has the exact number.
    if (this.#numPieces > 4) this.#turn.setFacts([`${rate(this.#rateOf(this.#numPieces))} tokens/s`]);
    this.#onPaint();
  }, PAINT_MS);

  #parts(): Pick<Message, "content" | "reasoning" | "toolCalls" | "guessed"> {
    return {
      content: this.#text,
      ...(this.#guessed.length === 0 ? {} : { guessed: [...this.#guessed] }),
      ...(this.#reasoning === "" ? {} : { reasoning: this.#reasoning }),
      ...(this.#calls.length === 0 ? {} : { toolCalls: [...this.#calls] }),
    };
  }

  #rateOf(numTokens: number): number {
    return ((numTokens - 1) * 1000) / Math.max(this.#lastMs - this.#firstMs, 1);
  }

  /** What was said, and what it cost. `end` is null where the answer was broken off, and `why` says by what. */
  finish(end: AnswerEnd | null, why: string | null): Pick<Message, "content" | "facts"> {
    this.#isOver = true;
    const facts = this.#factsOf(end?.usage ?? null);
    const ending = end === null ? why : ENDINGS[end.finish ?? ""];
    if (ending != null) facts.push(ending);
    if (this.#requestId !== "") facts.push(`request ${shortId(this.#requestId)}`);
    return { ...this.#parts(), facts };
  }

  #factsOf(usage: Usage | null): string[] {
    if (usage === null) return this.#numPieces > 1 ? [`${rate(this.#rateOf(this.#numPieces))} tokens/s`] : [];
    const facts = [plural(usage.completion_tokens, "token")];
    if (usage.completion_tokens > 1) facts.push(`${rate(this.#rateOf(usage.completion_tokens))} tokens/s`);
    if (this.#numPieces > 0) facts.push(`first after ${milliseconds(this.#firstMs - this.#startMs)}`);
    const { accepted_prediction_tokens: accepted = 0, rejected_prediction_tokens: rejected = 0 } =
      usage.completion_tokens_details ?? {};
    if (accepted + rejected > 0) facts.push(`${count(accepted)} of ${count(accepted + rejected)} guesses right`);
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    return [...facts, `prompt ${count(usage.prompt_tokens)}, ${count(cached)} cached`];
  }
}
