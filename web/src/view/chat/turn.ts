// One message in the transcript, with what can be done with it.

import type { Message, Siblings, ToolCall } from "../../data/conversation.js";
import { copyButton } from "../clipboard.js";
import { h, setText } from "../dom.js";
import { AnswerBody } from "./answer-body.js";
import { codeBlock } from "./markdown.js";
import { thumbnail } from "./pictures.js";

export interface TurnActions {
  /** Says it otherwise: a sibling with this text. */
  edit(message: Message, text: string): void;
  /** Asks for another answer in this one's place, or for one to a message that has none. */
  answerAgain(message: Message): void;
  showSibling(message: Message, by: number): void;
  /** Gives the model what the tool returned. */
  returnResult(message: Message, call: ToolCall, text: string): void;
}

/** What is around a turn, on which depends what can be done with it. */
export interface Surroundings {
  readonly siblings: Siblings;
  /** Nothing follows. */
  readonly isLast: boolean;
  /** An answer is on its way. */
  readonly isRunning: boolean;
  /** A call that waits here for its result. */
  readonly pending: ToolCall | null;
}

const SPOKEN: Readonly<Record<Message["role"], string>> = {
  user: "You: ",
  assistant: "Answer: ",
  tool: "Tool result: ",
};

export class Turn {
  readonly element: HTMLElement;
  readonly body = new AnswerBody();
  readonly #content: HTMLElement;
  readonly #facts = h("div", { class: "facts-line" });
  readonly #bar = h("div", { class: "turn-bar" });
  readonly #actions: TurnActions;
  #message: Message | null = null;
  #state = "";

  /** A turn without a message is an answer that is still to come. */
  constructor(role: Message["role"], actions: TurnActions) {
    this.#actions = actions;
    this.#content = role === "assistant" ? this.body.element : h("div", { class: "text" });
    this.element = h(
      "div",
      { class: `turn ${role}`, "aria-busy": role === "assistant" ? "true" : null },
      h("span", { class: "sr-only" }, SPOKEN[role]),
      this.#content,
      this.#facts,
      this.#bar,
    );
  }

  setColor(color: string): void {
    this.element.style.setProperty("--request", color);
  }

  setFacts(facts: readonly string[]): void {
    this.#facts.replaceChildren(...facts.map((fact) => h("span", {}, fact)));
  }

  /** The message is whole: shows it, once, for messages do not change. */
  settle(message: Message): void {
    if (this.#message !== null) return;
    this.#message = message;
    const { role, content, images = [], facts = [], error } = message;
    if (role === "assistant") {
      this.body.show(message, true);
      this.element.setAttribute("aria-busy", "false");
    } else if (role === "tool") this.#content.replaceChildren(codeBlock(content, "tool result", null));
    else setText(this.#content, content);
    if (images.length > 0) this.#content.before(h("div", { class: "pictures" }, ...images.map(thumbnail)));
    this.setFacts(facts);
    if (error !== undefined) this.#facts.before(h("p", { class: "error", role: "alert" }, error));
  }

  offer(around: Surroundings): void {
    const message = this.#message;
    const state = JSON.stringify(around);
    if (message === null || state === this.#state || this.#isEditing) return;
    this.#state = state;
    const focused = this.#bar.contains(document.activeElement) ? document.activeElement?.ariaLabel : null;
    this.#bar.replaceChildren(...this.#buttons(message, around));
    this.element.querySelector(".result-form")?.remove();
    if (around.pending !== null) this.#bar.before(this.#resultForm(message, around.pending));
    if (focused != null) this.#bar.querySelector<HTMLElement>(`[aria-label="${focused}"]`)?.focus();
  }

  #buttons(message: Message, { siblings, isLast, isRunning, pending }: Surroundings): HTMLElement[] {
    const actions = this.#actions;
    const small = (text: string, label: string, onclick: () => void, isOff = false): HTMLElement =>
      h("button", { class: "quiet small", type: "button", "aria-label": label, disabled: isOff, onclick }, text);
    const buttons: HTMLElement[] = [];
    if (siblings.count > 1) {
      const { index, count } = siblings;
      buttons.push(
        h(
          "span",
          { class: "siblings", role: "group", "aria-label": "Versions" },
          small("‹", "Previous version", () => actions.showSibling(message, -1), isRunning || index === 0),
          h("span", { "aria-label": `Version ${index + 1} of ${count}`, role: "img" }, `${index + 1}/${count}`),
          small("›", "Next version", () => actions.showSibling(message, 1), isRunning || index === count - 1),
        ),
      );
    }
    buttons.push(copyButton("Copy message", () => message.content));
    if (isRunning) return buttons;
    if (message.role !== "tool") buttons.push(small("Edit", "Edit message", () => this.startEdit()));
    if (message.role === "assistant")
      buttons.push(small("Regenerate", "Regenerate answer", () => actions.answerAgain(message)));
    else if (isLast && pending === null)
      buttons.push(small("Answer", "Ask for an answer", () => actions.answerAgain(message)));
    return buttons;
  }

  get #isEditing(): boolean {
    return this.element.querySelector(".edit-form") !== null;
  }

  /** The text in a field, in place of the message. */
  startEdit(): void {
    const message = this.#message;
    if (message === null || this.#isEditing) return;
    const text = h("textarea", { "aria-label": "Edited message" });
    text.value = message.content;
    const end = (): void => {
      form.replaceWith(this.#content);
      this.#bar.hidden = false;
      this.#bar.querySelector<HTMLElement>('[aria-label="Edit message"]')?.focus();
    };
    const save = (event: Event): void => {
      event.preventDefault();
      const edited = text.value.trim();
      end();
      if (edited !== "" && edited !== message.content.trim()) this.#actions.edit(message, edited);
    };
    const form = h(
      "form",
      { class: "edit-form", onsubmit: save },
      text,
      h(
        "div",
        { class: "controls" },
        h("button", { class: "primary", type: "submit" }, message.role === "user" ? "Send" : "Keep"),
        h("button", { type: "button", onclick: end }, "Cancel"),
      ),
    );
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") end();
      else if (isSendKey(event)) save(event);
      else return;
      event.stopPropagation();
    });
    this.#content.replaceWith(form);
    this.#bar.hidden = true;
    text.focus();
    text.setSelectionRange(text.value.length, text.value.length);
  }

  #resultForm(message: Message, call: ToolCall): HTMLElement {
    const text = h("textarea", {
      rows: "1",
      "aria-label": `Result of ${call.name}`,
      placeholder: `What ${call.name} returned`,
    });
    const send = (event: Event): void => {
      event.preventDefault();
      if (text.value.trim() !== "") this.#actions.returnResult(message, call, text.value.trim());
    };
    text.addEventListener("keydown", (event) => {
      if (isSendKey(event)) send(event);
    });
    return h("form", { class: "result-form", onsubmit: send }, text, h("button", { type: "submit" }, "Return"));
  }
}

/** Enter sends; with Shift, or while a word is being composed, it does not. */
export function isSendKey(event: KeyboardEvent): boolean {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing;
}
