// What an answer says: reasoning folded, text as markdown, tool calls as cards. Used while it comes and when it is read again.

import type { ToolCall } from "../../data/conversation.js";
import { prettyJson } from "../../data/conversation-file.js";
import type { Span } from "../../data/guess-spans.js";
import { h, setText } from "../dom.js";
import { GuessTint } from "../engine/guess-tint.js";
import { codeBlock, Markdown } from "./markdown.js";

export interface AnswerParts {
  readonly content: string;
  readonly reasoning?: string | undefined;
  readonly toolCalls?: readonly ToolCall[] | undefined;
  /** Parts of the content that were guessed ahead and came true. */
  readonly guessed?: readonly Span[] | undefined;
}

export class AnswerBody {
  readonly element = h("div", { class: "body" });
  readonly #markdown = new Markdown();
  readonly #tint = new GuessTint(this.#markdown.element);
  readonly #calls = h("div", { class: "calls" });
  #reasoning: { readonly summary: HTMLElement; readonly text: HTMLElement } | null = null;
  #shownCalls = "";

  constructor() {
    this.element.append(this.#markdown.element, this.#calls);
  }

  show({ content, reasoning, toolCalls = [], guessed = [] }: AnswerParts, isWhole: boolean): void {
    if (reasoning) this.#showReasoning(reasoning, !isWhole && content === "");
    this.#markdown.show(content, isWhole);
    this.#tint.show(content, guessed);
    const calls = JSON.stringify(toolCalls);
    if (calls === this.#shownCalls) return;
    this.#shownCalls = calls;
    this.#calls.replaceChildren(...toolCalls.map(callCard));
  }

  #showReasoning(text: string, isNow: boolean): void {
    if (this.#reasoning === null) {
      this.#reasoning = { summary: h("summary", {}), text: h("div", { class: "text" }) };
      const fold = h("details", { class: "reasoning" }, this.#reasoning.summary, this.#reasoning.text);
      this.element.prepend(fold);
    }
    setText(this.#reasoning.summary, isNow ? "Reasoning …" : "Reasoning");
    setText(this.#reasoning.text, text);
  }
}

function callCard({ name, arguments: text }: ToolCall): HTMLElement {
  return h(
    "div",
    { class: "call" },
    h("div", { class: "call-name" }, "Calls ", h("code", {}, name)),
    codeBlock(prettyJson(text), "arguments", "json"),
  );
}
