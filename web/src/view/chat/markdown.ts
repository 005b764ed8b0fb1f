// A text of markdown as elements. While it grows only its last block is made again, so a long answer costs no more per token than a
// short one. Nothing of the text is ever markup: HTML is shown as it is written, images are links, links lead to http, https and mail
// only. DOMPurify stands behind it, and lets through what the renderer below writes and nothing else.

import DOMPurify from "dompurify";
import { Marked, type Token } from "marked";
import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";
import { highlight, languageOf } from "./highlight.js";

const TAGS =
  "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr input li ol p pre span strong table tbody td th thead tr ul".split(
    " ",
  );
const ATTRIBUTES = ["href", "target", "rel", "class", "type", "checked", "disabled", "start", "align", "data-language"];
/** Code that is still being written is coloured up to here: beyond it, colouring would be felt. */
const MAX_GROWING = 6000;

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);

function link(href: string, label: string): string {
  if (!/^(https?:\/\/|mailto:)/i.test(href)) return label;
  return `<a href="${escapeHtml(href)}" target="_blank" rel="noopener noreferrer">${label}</a>`;
}

const markdown = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text, block }) => (block ? `<p>${escapeHtml(text)}</p>` : escapeHtml(text)),
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens));
    },
    image: ({ href, text }) => link(href, escapeHtml(text === "" ? "image" : `image: ${text}`)),
    // A heading of the answer is none of the page: the page's own outline stays what it is.
    heading({ depth, tokens }) {
      return `<p class="heading level-${depth}">${this.parser.parseInline(tokens)}</p>`;
    },
    code: ({ text, lang }) => `<pre data-language="${escapeHtml(lang ?? "")}"><code>${escapeHtml(text)}</code></pre>`,
  },
});

interface Block {
  readonly raw: string;
  readonly isPlain: boolean;
  readonly nodes: readonly ChildNode[];
}

export class Markdown {
  readonly element = h("div", { class: "markdown" });
  #blocks: Block[] = [];
  /** Characters and blocks at the beginning that no later text can change. */
  #settledLen = 0;
  #numSettled = 0;

  /** Shows the text. `isWhole`: no more of it will come. */
  show(text: string, isWhole: boolean): void {
    const whole = text.replace(/\r\n?/g, "\n");
    // A definition of a link that came late may change blocks that seemed settled.
    if (isWhole) this.#settledLen = this.#numSettled = 0;
    const tokens = markdown.lexer(whole.slice(this.#settledLen));
    tokens.forEach((token, i) => {
      const isPlain = !isWhole && i === tokens.length - 1 && token.raw.length > MAX_GROWING;
      this.#place(this.#numSettled + i, token, isPlain);
    });
    for (const { nodes } of this.#blocks.splice(this.#numSettled + tokens.length))
      for (const node of nodes) node.remove();
    if (!isWhole) this.#settle(tokens, whole.length);
  }

  #place(index: number, token: Token, isPlain: boolean): void {
    const old = this.#blocks[index];
    if (old?.raw === token.raw && old.isPlain === isPlain) return;
    const nodes = nodesOf(token, isPlain);
    const next = this.#blocks.slice(index + 1).find((block) => block.nodes.length > 0)?.nodes[0] ?? null;
    for (const node of nodes) this.element.insertBefore(node, next);
    for (const node of old?.nodes ?? []) node.remove();
    this.#blocks[index] = { raw: token.raw, isPlain, nodes };
  }

  /** More text can turn the last block into something else, or join it; what is before it stays. */
  #settle(tokens: readonly Token[], length: number): void {
    const total = tokens.reduce((sum, { raw }) => sum + raw.length, this.#settledLen);
    if (total !== length) return; // the lexer rewrote something: no offset can be trusted
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]!.type === "space") last--;
    for (const { raw } of tokens.slice(0, Math.max(0, last))) {
      this.#settledLen += raw.length;
      this.#numSettled++;
    }
  }
}

/** `isPlain`: without colours. */
function nodesOf(token: Token, isPlain: boolean): ChildNode[] {
  if (token.type === "space" || token.type === "def") return [];
  const fragment = purify(markdown.parser([token]), TAGS, ATTRIBUTES);
  for (const pre of fragment.querySelectorAll("pre")) {
    const label = pre.dataset.language ?? "";
    pre.replaceWith(codeBlock(pre.textContent, label, isPlain ? null : languageOf(label)));
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = h("div", { class: "table-frame", tabindex: "0", role: "group", "aria-label": "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const box of fragment.querySelectorAll("input")) box.setAttribute("aria-label", "done");
  return [...fragment.childNodes];
}

function purify(html: string, tags: string[], attributes: string[]): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ...{ ALLOWED_TAGS: tags, ALLOWED_ATTR: attributes, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false },
    RETURN_DOM_FRAGMENT: true,
  });
}

/** Code with the name of its language, its colours where the language is known, and a button that copies it. */
export function codeBlock(text: string, label: string, language: string | null): HTMLElement {
  const code = h("code", {});
  if (language === null) code.textContent = text;
  else code.append(purify(highlight(text, language), ["span"], ["class"]));
  return h(
    "div",
    { class: "code" },
    h(
      "div",
      { class: "code-head" },
      h("span", {}, label),
      copyButton("Copy code", () => text),
    ),
    h("pre", { tabindex: "0", role: "group", "aria-label": label === "" ? "Code" : `Code, ${label}` }, code),
  );
}
