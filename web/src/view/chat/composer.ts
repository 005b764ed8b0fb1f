// Where messages are written: Enter sends, Escape stops the answer, the up arrow edits what was said last.

import { h, setText } from "../dom.js";
import { Attachments } from "./pictures.js";
import { isSendKey } from "./turn.js";

export interface ComposerActions {
  /** Whether it can be sent now; else the text is kept. */
  send(text: string, pictures: () => readonly string[]): boolean;
  stop(): void;
  /** False: nothing was said yet, or it cannot be changed now. */
  editLast(): boolean;
}

export class Composer {
  readonly element: HTMLElement;
  readonly #input = h("textarea", { id: "prompt", rows: "1", placeholder: "Write a message", "aria-label": "Message" });
  readonly #send = h("button", { class: "primary", type: "submit" }, "Send");
  readonly #stop = h("button", { type: "button", hidden: true }, "Stop");
  readonly #note = h("span", { class: "context" });
  readonly #pictures = new Attachments();
  readonly #actions: ComposerActions;

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.element = h(
      "form",
      { class: "composer", onsubmit: this.#onSubmit },
      this.#pictures.element,
      this.#input,
      h("div", { class: "actions" }, this.#pictures.control, this.#note, this.#stop, this.#send),
    );
    this.#input.addEventListener("paste", (event) => {
      if (this.#pictures.add(event.clipboardData?.files)) event.preventDefault();
    });
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      if (this.#pictures.add(event.dataTransfer?.files)) event.preventDefault();
    });
    this.#stop.addEventListener("click", () => actions.stop());
    this.#input.addEventListener("keydown", (event) => {
      if (isSendKey(event)) this.#onSubmit(event);
      else if (event.key === "Escape") actions.stop();
      else if (event.key === "ArrowUp" && this.#input.value === "" && actions.editLast()) event.preventDefault();
    });
  }

  readonly #onSubmit = (event: Event): void => {
    event.preventDefault();
    const text = this.#input.value.trim();
    if (text === "" && this.#pictures.isEmpty) return;
    if (this.#actions.send(text, () => this.#pictures.take())) this.#input.value = "";
  };

  /** Whether the model sees: pictures can be added then. */
  setEyes(hasEyes: boolean): void {
    this.#pictures.setOn(hasEyes);
  }

  /** While an answer is on its way there is a button to stop it in place of the one that sends. */
  setRunning(isRunning: boolean): void {
    this.#stop.hidden = !isRunning;
    this.#send.hidden = isRunning;
  }

  /** A few words beside the button. */
  say(words: string): void {
    setText(this.#note, words);
  }

  focus(): void {
    this.#input.focus({ preventScroll: true });
  }
}
