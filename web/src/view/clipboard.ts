// Copies text, and says that it did.

import { h, setText } from "./dom.js";

const SAID_MS = 1500;

export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = h("button", { class: "quiet small", type: "button", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    const isCopied = await copy(text());
    setText(button, isCopied ? "Copied" : "Not copied");
    setTimeout(() => setText(button, "Copy"), SAID_MS);
  });
  return button;
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

/** For a page that came over plain HTTP from another machine: such pages have no clipboard of their own. */
function copySelected(text: string): boolean {
  const area = h("textarea", { class: "sr-only", "aria-hidden": "true" });
  area.value = text;
  const focused = document.activeElement as HTMLElement | null;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isCopied;
}
