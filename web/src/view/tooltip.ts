// The one tooltip of the page: a few lines beside the pointer or the focused thing. What it says is also in the accessible name of
// what it belongs to, so it is hidden from screen readers.

import { h } from "./dom.js";

const element = h("div", { class: "tooltip", "aria-hidden": "true", hidden: true });
document.body.append(element);
addEventListener("scroll", hideTip, { passive: true }); // what it belongs to has moved away

/** `text` is shown as it is, below the lines, in the code face. */
export interface Tip {
  readonly title: string;
  readonly lines?: readonly string[];
  readonly text?: string | null;
}

export function showTip(x: number, y: number, { title, lines = [], text = null }: Tip): void {
  element.replaceChildren(h("strong", {}, title), ...lines.map((line) => h("div", {}, line)));
  if (text !== null && text !== "") element.append(h("span", { class: "text" }, text));
  element.hidden = false;
  const { offsetWidth, offsetHeight } = element;
  const left = Math.min(x + 14, innerWidth - offsetWidth - 8);
  const top = y + 18 + offsetHeight > innerHeight ? y - offsetHeight - 12 : y + 18;
  element.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
}

export function hideTip(): void {
  element.hidden = true;
}
