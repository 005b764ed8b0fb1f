// Light, dark, or as the system says. Canvases cannot read custom properties, so the resolved colours are handed out here.

import { h } from "./dom.js";
import { Signal } from "./signal.js";

type Theme = "auto" | "light" | "dark";
const STORED = "pagoda-theme";
const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const NAMES: Record<Theme, string> = { auto: "System", light: "Light", dark: "Dark" };

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
let theme = stored();
const resolved = new Map<string, string>();
let probe: HTMLElement | null = null;

/** Whether the page is dark now; told again on every change. */
export const isDark = new Signal(computeDark());

function stored(): Theme {
  const value = localStorage.getItem(STORED);
  return value === "light" || value === "dark" ? value : "auto";
}

function computeDark(): boolean {
  return theme === "auto" ? prefersDark.matches : theme === "dark";
}

function apply(): void {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  resolved.clear();
  isDark.set(computeDark());
}

/** The colour of a design token such as "ink", as the theme gives it now. */
export function token(name: string): string {
  let color = resolved.get(name);
  if (color === undefined) {
    if (probe === null) {
      probe = h("span", { hidden: true });
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    color = getComputedStyle(probe).color;
    resolved.set(name, color);
  }
  return color;
}

export function themeButton(): HTMLButtonElement {
  const button = h("button", { class: "quiet", type: "button" });
  const label = (): void => {
    button.replaceChildren("◐", h("span", { class: "label" }, ` ${NAMES[theme]}`));
    button.setAttribute("aria-label", `Theme: ${NAMES[theme]}. Switch to ${NAMES[NEXT[theme]]}.`);
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    if (theme === "auto") localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, theme);
    apply();
    label();
  });
  label();
  return button;
}

prefersDark.addEventListener("change", apply);
apply();
