// Asks for the API key when the server wants one.

import type { Api } from "./api.js";
import { h, setText } from "./dom.js";

/** The button that opens it; the dialog opens by itself when a request is denied. */
export function keyDialog(api: Api): HTMLButtonElement {
  const input = h("input", { type: "password", id: "api-key", autocomplete: "off", spellcheck: "false" });
  const reason = h("p", { class: "note", id: "api-key-reason" });
  input.setAttribute("aria-describedby", reason.id);
  const form = h(
    "form",
    { method: "dialog", class: "dialog-form" },
    h("h2", { id: "api-key-title" }, "API key"),
    reason,
    h("label", { class: "field", for: input.id }, "Key", input),
    h(
      "div",
      { class: "controls" },
      h("button", { class: "primary", type: "submit", value: "use" }, "Use this key"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
    ),
  );
  const dialog = h("dialog", { "aria-labelledby": "api-key-title" }, form);
  const button = h("button", { class: "quiet", type: "button", hidden: !api.hasKey }, "API key");
  document.body.append(dialog);

  const open = (message: string): void => {
    setText(reason, `${message} It is kept in this tab until you close it.`);
    if (!dialog.open) dialog.showModal();
  };
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "use") api.setKey(input.value.trim());
    dialog.returnValue = "";
    input.value = "";
  });
  button.addEventListener("click", () => open("The key that this page sends with its requests."));
  api.onDenied = (message) => {
    button.hidden = false;
    open(message);
  };
  return button;
}
