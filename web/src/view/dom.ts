// Makes elements. `h("button", { class: "primary", onclick: send }, "Send")`: functions become listeners, true and false become
// present and absent attributes, everything else is an attribute.

type Value = string | number | boolean | null | undefined | ((event: never) => void);
type Child = Node | string | null;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Readonly<Record<string, Value>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`index.html has no #${id}`);
  return element;
}

/** Sets text only when it differs, so that screen readers and layout are left alone. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Calls at most once per frame, however often it is asked, and not more often than every `minMs`. */
export function perFrame(run: () => void, minMs = 0): () => void {
  let isPending = false;
  let lastMs = 0;
  const onFrame = (): void => {
    isPending = false;
    lastMs = performance.now();
    run();
  };
  return () => {
    if (isPending) return;
    isPending = true;
    const waitMs = lastMs + minMs - performance.now();
    if (waitMs <= 0) requestAnimationFrame(onFrame);
    else setTimeout(() => requestAnimationFrame(onFrame), waitMs);
  };
}

/** A small coloured square that stands for a request or a state. */
export function swatch(color: string): HTMLElement {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.background = color;
  return element;
}

/** The heading of a section: title, one line that says what one sees, controls. */
export function sectionHead(id: string, title: string, note: string, ...controls: readonly Node[]): HTMLElement {
  return h(
    "div",
    { class: "section-head" },
    h("h2", { id: `${id}-title` }, title),
    h("div", { class: "controls" }, ...controls),
    h("p", { class: "note" }, note),
  );
}

/** A table that may be wider than the screen: it scrolls within, by keyboard too. */
export function scrollPanel(labelId: string, table: HTMLElement): HTMLElement {
  return h("div", { class: "panel scroll", tabindex: "0", role: "group", "aria-labelledby": labelId }, table);
}

/** A share as words over a bar. */
export function meter(share: number, text: string): HTMLElement {
  const element = h("span", { class: "meter" }, text);
  element.style.setProperty("--share", `${Math.round(100 * Math.min(1, share))}%`);
  return element;
}
