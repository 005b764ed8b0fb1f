// One answer in the transcript: text as it comes, then what it cost.

import { count, milliseconds, plural, rate, shortId } from "../data/format.js";
import type { Usage } from "../data/wire.js";
import { h, setText } from "./dom.js";

export class AnswerTurn {
  readonly element: HTMLElement;
  readonly #text = h("div", { class: "text" });
  readonly #facts = h("div", { class: "facts-line" });
  #requestId = "";
  #reasoning: HTMLElement | null = null;
  readonly #startMs = performance.now();
  #firstMs = 0;
  #lastMs = 0;
  #numPieces = 0;
  text = "";

  constructor() {
    this.element = h(
      "div",
      { class: "turn assistant", "aria-busy": "true" },
      h("span", { class: "sr-only" }, "Answer: "),
      this.#text,
      this.#facts,
    );
  }

  /** The request that gives this answer, so that one finds it in the other views. */
  setRequest(id: string, color: string): void {
    this.#requestId = id;
    this.element.style.setProperty("--request", color);
  }

  addReasoning(piece: string): void {
    this.#count();
    if (this.#reasoning === null) {
      this.#reasoning = h("div", { class: "text" });
      this.element.insertBefore(h("details", {}, h("summary", {}, "Reasoning"), this.#reasoning), this.#text);
    }
    this.#reasoning.append(piece);
  }

  addText(piece: string): void {
    this.#count();
    this.text += piece;
    this.#text.append(piece);
  }

  #count(): void {
    this.#lastMs = performance.now();
    if (this.#numPieces++ === 0) this.#firstMs = this.#lastMs;
    // Pieces are about as many as tokens; the usage at the end has the exact number.
    if (this.#numPieces > 4) setText(this.#facts, `${rate(this.#rateOf(this.#numPieces))} tokens/s`);
  }

  #rateOf(numTokens: number): number {
    return ((numTokens - 1) * 1000) / Math.max(this.#lastMs - this.#firstMs, 1);
  }

  /** What the answer cost. `ending` says why it ended, where that is worth saying. */
  finish(usage: Usage | null, ending: string | null): void {
    this.element.setAttribute("aria-busy", "false");
    const facts: string[] = [];
    if (usage !== null) {
      const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      facts.push(plural(usage.completion_tokens, "token"));
      if (usage.completion_tokens > 1) facts.push(`${rate(this.#rateOf(usage.completion_tokens))} tokens/s`);
      if (this.#numPieces > 0) facts.push(`first after ${milliseconds(this.#firstMs - this.#startMs)}`);
      facts.push(`prompt ${count(usage.prompt_tokens)}, ${count(cached)} cached`);
    } else if (this.#numPieces > 1) {
      facts.push(`${rate(this.#rateOf(this.#numPieces))} tokens/s`);
    }
    if (ending !== null) facts.push(ending);
    if (this.#requestId !== "") facts.push(`request ${shortId(this.#requestId)}`);
    this.#facts.replaceChildren(...facts.map((fact) => h("span", {}, fact)));
  }

  fail(message: string): void {
    this.finish(null, null);
    this.element.append(h("p", { class: "error", role: "alert" }, message));
  }
}
