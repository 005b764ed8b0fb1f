// Makes a drawn thing explorable: by pointer, and by keyboard like a slider, whose spoken value says what is there.

import { hideTip, showTip, type Tip } from "../tooltip.js";

export interface ExplorerOptions {
  readonly label: string;
  /** The index at a point of the element, in its own pixels; -1 where there is nothing. */
  indexAt(x: number, y: number): number;
  numItems(): number;
  /** How far up and down go. */
  rowLength(): number;
  tipOf(index: number): Tip;
  /** Where the item is, in the element's own pixels: for the tooltip of the keyboard's user. */
  placeOf(index: number): { readonly x: number; readonly y: number };
  /** Index -1: nothing is looked at any more. */
  onLook(index: number): void;
  onChoose?(index: number): void;
}

export class Explorer {
  readonly #element: HTMLElement;
  readonly #options: ExplorerOptions;
  #index = -1;
  #pointer: PointerEvent | null = null;

  constructor(element: HTMLElement, options: ExplorerOptions) {
    this.#element = element;
    this.#options = options;
    element.tabIndex = 0;
    element.setAttribute("role", "slider");
    element.setAttribute("aria-label", options.label);
    element.setAttribute("aria-valuemin", "0");
    element.addEventListener("pointermove", (event) => {
      this.#pointer = event;
      this.#lookAtPointer();
    });
    element.addEventListener("pointerleave", () => {
      this.#pointer = null;
      this.#look(-1, 0, 0);
    });
    element.addEventListener("blur", () => this.#look(-1, 0, 0));
    element.addEventListener("click", (event) => {
      const { x, y } = this.#origin();
      const index = options.indexAt(event.clientX - x, event.clientY - y);
      if (index >= 0) options.onChoose?.(index);
    });
    element.addEventListener("keydown", (event) => this.#onKey(event));
    this.refresh();
  }

  /** After the items have changed. The pointer may be on another one now; the keyboard begins at `start` where nothing is looked at. */
  refresh(start = -1): void {
    const numItems = this.#options.numItems();
    if (this.#index >= numItems || start >= 0) this.#index = start;
    this.#element.setAttribute("aria-valuemax", String(Math.max(0, numItems - 1)));
    if (this.#pointer !== null) this.#lookAtPointer();
    else this.#speak();
  }

  #lookAtPointer(): void {
    const { clientX, clientY } = this.#pointer!;
    const { x, y } = this.#origin();
    this.#look(this.#options.indexAt(clientX - x, clientY - y), clientX, clientY);
  }

  #origin(): { x: number; y: number } {
    const { left, top } = this.#element.getBoundingClientRect();
    return { x: left - this.#element.scrollLeft, y: top - this.#element.scrollTop };
  }

  #onKey(event: KeyboardEvent): void {
    const last = this.#options.numItems() - 1;
    const row = this.#options.rowLength();
    const moves: Readonly<Record<string, number>> = {
      ArrowLeft: this.#index - 1,
      ArrowRight: this.#index + 1,
      ArrowUp: this.#index - row,
      ArrowDown: this.#index + row,
      PageUp: this.#index - 10 * row,
      PageDown: this.#index + 10 * row,
      Home: 0,
      End: last,
    };
    const next = moves[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    const index = Math.min(last, Math.max(0, next));
    this.#options.onChoose?.(index);
    const place = this.#options.placeOf(index);
    const { x, y } = this.#origin();
    this.#look(index, x + place.x, y + place.y);
  }

  #look(index: number, clientX: number, clientY: number): void {
    if (index >= 0) {
      this.#index = index;
      showTip(clientX, clientY, this.#options.tipOf(index));
      this.#speak();
    } else hideTip();
    this.#options.onLook(index);
  }

  #speak(): void {
    const index = this.#index;
    this.#element.setAttribute("aria-valuenow", String(Math.max(0, index)));
    let words = "use the arrow keys to look around";
    if (index >= 0 && index < this.#options.numItems()) {
      const { title, lines = [], text } = this.#options.tipOf(index);
      words = [title, ...lines, text ?? ""].filter((part) => part !== "").join(", ");
    }
    this.#element.setAttribute("aria-valuetext", words);
  }
}
