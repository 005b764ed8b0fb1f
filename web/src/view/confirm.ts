// Asks before something is lost.

import { h } from "./dom.js";

/** Resolves to whether the deed was agreed to. */
export function confirmDialog(title: string, words: string, deed: string): Promise<boolean> {
  const dialog = h(
    "dialog",
    { "aria-labelledby": "confirm-title" },
    h(
      "form",
      { method: "dialog", class: "dialog-form" },
      h("h2", { id: "confirm-title" }, title),
      h("p", { class: "note" }, words),
      h(
        "div",
        { class: "controls" },
        h("button", { class: "primary", type: "submit", value: "yes" }, deed),
        h("button", { type: "submit", value: "no" }, "Cancel"),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}
