// What is on the screen: the chat, the engine, or both where there is room for both.

import { h, setText } from "./dom.js";

type View = "chat" | "both" | "engine";
const NAMES: Readonly<Record<View, string>> = { chat: "Chat", both: "Both", engine: "Engine" };
const STORED = "pagoda-view";

const isNarrow = matchMedia("(max-width: 62rem)");

/** `name` is what the part beside the chat is called: it tells of an engine or of a cluster. */
export function viewSwitch(): { readonly element: HTMLElement; name(part: string): void } {
  const wish = localStorage.getItem(STORED);
  let wished: View = wish !== null && wish in NAMES ? (wish as View) : "both";
  const buttons = (Object.keys(NAMES) as View[]).map((view) => {
    const onclick = (): void => {
      wished = view;
      localStorage.setItem(STORED, view);
      apply();
    };
    return { view, button: h("button", { class: "quiet", type: "button", onclick }, NAMES[view]) };
  });
  const apply = (): void => {
    const shown = isNarrow.matches && wished === "both" ? "chat" : wished;
    document.body.dataset.view = shown;
    for (const { view, button } of buttons) {
      button.setAttribute("aria-pressed", String(view === shown));
      button.hidden = isNarrow.matches && view === "both";
    }
  };
  isNarrow.addEventListener("change", apply);
  apply();
  const element = h(
    "div",
    { class: "view-switch", role: "group", "aria-label": "View" },
    ...buttons.map(({ button }) => button),
  );
  const skipLink = document.querySelector(".skip-link")!;
  const name = (part: string): void => {
    setText(buttons.find(({ view }) => view === "engine")!.button, part);
    setText(skipLink, `Skip to the ${part.toLowerCase()}`);
  };
  return { element, name };
}
