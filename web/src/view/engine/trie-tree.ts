// The cached prefixes as a tree: a run of pages that branches nowhere is one line, its pages cells, its text beside them. Children hang
// where their parent ends. Keyboard as in any tree: up and down walk the lines.

import { count, oneLine, plural } from "../../data/format.js";
import { type TrieRun, toRuns } from "../../data/trie-runs.js";
import type { CacheView } from "../../data/wire.js";
import { byId, h, sectionHead, setText } from "../dom.js";
import { hideTip, showTip, type Tip } from "../tooltip.js";

const CELL = 9; // pixels a page
const MAX_CELLS = 24; // longer runs are told by their number
const MAX_LINES = 300;
const EXCERPT = 90;

export class TrieTree {
  readonly #tree = h("ul", { class: "trie panel", role: "tree", "aria-labelledby": "prefixes-title" });
  readonly #summary = h("div", { class: "legend" });
  #shown = "";
  #linesLeft = 0;

  constructor() {
    const note =
      "Prompts and answers that begin alike share their pages. A line is a run of pages, its continuations hang below it; a red number says how many requests use it now.";
    byId("prefixes").append(sectionHead("prefixes", "Prefixes", note), this.#tree, this.#summary);
    this.#tree.addEventListener("keydown", (event) => this.#onKey(event));
    this.#tree.addEventListener("mouseleave", hideTip);
    this.#tree.addEventListener("scroll", hideTip);
    this.#tree.append(h("li", { class: "empty", role: "none" }, "Nothing is cached yet."));
  }

  show({ nodes, pageSize }: CacheView): void {
    // What somebody looks at stands still; and most pictures are of the same tree.
    if (this.#tree.matches(":hover, :focus-within")) return;
    const signature = nodes.map(({ id, parent, refs }) => `${id},${parent},${refs}`).join(";");
    if (signature === this.#shown) return;
    this.#shown = signature;
    const runs = toRuns(nodes, pageSize);
    this.#linesLeft = MAX_LINES;
    const items = runs.map((run) => this.#item(run, pageSize, 1)).filter((item) => item !== null);
    this.#tree.replaceChildren(
      ...(items.length > 0 ? items : [h("li", { class: "empty", role: "none" }, "Nothing is cached yet.")]),
    );
    this.#items()[0]?.setAttribute("tabindex", "0");
    const shared = nodes.filter(({ refs }) => refs > 1).length;
    const more = this.#linesLeft <= 0 ? `; the first ${MAX_LINES} lines are shown` : "";
    setText(this.#summary, `${plural(nodes.length, "page")}, ${count(shared)} of them shared now${more}`);
  }

  #item(run: TrieRun, pageSize: number, level: number): HTMLElement | null {
    const number = this.#linesLeft--;
    if (number <= 0) return null;
    const numCells = Math.min(run.pages.length, MAX_CELLS);
    const cells = h("span", { class: `cells${run.refs > 0 ? " used" : ""}`, "aria-hidden": "true" });
    cells.style.width = `${numCells * CELL - 2}px`;
    const tip = tipOf(run, pageSize);
    // Its name is what it contains: the words of the tip for who hears them, an excerpt for who sees it.
    const line = h(
      "div",
      { class: "run", role: "treeitem", tabindex: "-1", "aria-level": level },
      cells,
      h("span", { class: "sr-only" }, [tip.title, ...tip.lines, tip.text ?? ""].join(", ")),
    );
    const seen = (kind: string, text: string): void =>
      line.append(h("span", { class: kind, "aria-hidden": "true" }, text));
    if (run.pages.length > MAX_CELLS) seen("soft", `× ${count(run.pages.length)}`);
    if (run.refs > 0) seen("refs", count(run.refs));
    seen("excerpt", run.text === null ? "" : oneLine(run.text, EXCERPT));
    line.addEventListener("mousemove", (event) => showTip(event.clientX, event.clientY, tip));
    line.addEventListener("mouseleave", hideTip);
    line.addEventListener("focus", () => {
      const { left, bottom } = line.getBoundingClientRect();
      showTip(left, bottom - 12, tip);
    });
    line.addEventListener("blur", hideTip);
    const item = h("li", { role: "none" }, line);
    const children = run.children
      .map((child) => this.#item(child, pageSize, level + 1))
      .filter((child) => child !== null);
    if (children.length > 0) {
      const branch = h("ul", { class: "branch", role: "group", id: `prefix-${number}` }, ...children);
      branch.style.marginLeft = `${numCells * CELL - 6}px`;
      item.append(branch);
      line.setAttribute("aria-owns", branch.id);
      line.setAttribute("aria-expanded", "true");
    }
    return item;
  }

  #items(): HTMLElement[] {
    return [...this.#tree.querySelectorAll<HTMLElement>('[role="treeitem"]')];
  }

  #onKey(event: KeyboardEvent): void {
    const items = this.#items();
    const at = items.indexOf(document.activeElement as HTMLElement);
    const item = items[at]?.parentElement;
    const parent = item?.parentElement?.closest("li")?.querySelector<HTMLElement>('[role="treeitem"]');
    const targets: Readonly<Record<string, HTMLElement | null | undefined>> = {
      ArrowDown: items[at + 1],
      ArrowUp: items[at - 1],
      ArrowRight: item?.querySelector<HTMLElement>('.branch [role="treeitem"]'),
      ArrowLeft: parent,
      Home: items[0],
      End: items.at(-1),
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    const target = targets[event.key];
    if (target == null || at < 0) return;
    items[at]!.setAttribute("tabindex", "-1");
    target.setAttribute("tabindex", "0");
    target.focus();
  }
}

function tipOf(
  { pages, refs, start, text, saltHash }: TrieRun,
  pageSize: number,
): Tip & { readonly lines: readonly string[] } {
  const end = start + pages.length * pageSize;
  const names = pages.length > 8 ? `${pages.slice(0, 8).join(", ")}, …` : pages.join(", ");
  const lines = [`tokens ${count(start)} to ${count(end)}, ${pages.length === 1 ? "page" : "pages"} ${names}`];
  if (saltHash !== "") lines.push(`shared within tenant ${saltHash} only`);
  return { title: refs > 0 ? `In use by ${plural(refs, "request")}` : "Cached", lines, text };
}
