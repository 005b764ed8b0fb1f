// The page map: every page a cell, in the order of their ids; each cache group of the model is a band of rows. Free cells are faint, cached ones grey, used ones have
// the colour of their request; a page that requests share has a band for each, four at most.

import { count, plural, shortId } from "../../data/format.js";
import { type PageMapView, viewPages } from "../../data/page-owners.js";
import type { RequestColors } from "../../data/request-colors.js";
import type { CacheView } from "../../data/wire.js";
import { Canvas } from "../canvas.js";
import { byId, h, sectionHead, swatch } from "../dom.js";
import { isDark, token } from "../theme.js";
import type { Tip } from "../tooltip.js";
import { Explorer } from "./explorer.js";

const MAX_CELL = 15;
const MIN_CELL = 3;
/** Cells shrink to keep the map below this height; then it scrolls. */
const WANTED_HEIGHT = 232;
const MAX_BANDS = 4;

export class PageMap {
  readonly #colors: RequestColors;
  readonly #frame = h("div", { class: "page-map panel" });
  readonly #legend = h("div", { class: "legend" });
  readonly #canvas: Canvas;
  readonly #explorer: Explorer;
  #view: PageMapView = { pageSize: 1, groups: [], pages: [], counts: { free: 0, cached: 0, used: 0, shared: 0 } };
  #looked = -1;

  constructor(colors: RequestColors) {
    this.#colors = colors;
    this.#canvas = new Canvas(this.#frame, 60, (context, width) => this.#paint(context, width));
    this.#frame.append(this.#canvas.element);
    this.#explorer = new Explorer(this.#frame, {
      label: "Pages of the KV cache, by id",
      numItems: () => this.#view.pages.length,
      rowLength: () => this.#columns(this.#canvas.width),
      indexAt: (x, y) => this.#indexAt(x, y),
      placeOf: (page) => {
        const { x, y } = this.#placeOf(page, this.#canvas.width);
        return { x: x + this.#padding(), y: y + this.#padding() };
      },
      tipOf: (page) => this.#tipOf(page),
      onLook: (page) => {
        this.#looked = page;
        this.#canvas.repaint();
      },
    });
    const note =
      "Each cell is a page of the KV cache. Point at one to see whose it is and to bring out what else they own.";
    byId("pages").append(sectionHead("pages", "Pages", note), this.#frame, this.#legend);
  }

  show(cache: CacheView): void {
    this.#view = viewPages(cache);
    const { counts, pageSize, groups } = this.#view;
    this.#canvas.setHeight(this.#heightOf(this.#canvas.width));
    this.#canvas.repaint();
    this.#explorer.refresh();
    const entry = (mark: HTMLElement, value: number, name: string): HTMLElement =>
      h("span", {}, mark, " ", h("b", {}, count(value)), ` ${name}`);
    this.#legend.replaceChildren(
      entry(swatch("var(--cell-free)"), counts.free, "free"),
      entry(swatch("var(--cell-cached)"), counts.cached, "cached, owned by nobody"),
      entry(
        h("span", { class: "swatch any", "aria-hidden": "true" }),
        counts.used,
        "in use, in their request's colour",
      ),
      h("span", {}, "of them ", h("b", {}, count(counts.shared)), " shared"),
      h("span", {}, `${plural(pageSize, "token")} a page`),
      ...(groups.length > 1 ? [h("span", {}, `groups: ${groups.map(({ name }) => name).join(", ")}`)] : []),
    );
  }

  #padding(): number {
    return Number.parseFloat(getComputedStyle(this.#frame).paddingLeft);
  }

  #cell(width: number): number {
    let cell = MAX_CELL;
    while (cell > MIN_CELL && this.#numRows(Math.floor(width / cell)) * cell > WANTED_HEIGHT) cell--;
    return cell;
  }

  /** Rows of cells; groups begin with a row of their own, one row apart. */
  #numRows(columns: number): number {
    const { groups } = this.#view;
    return groups.reduce((rows, { numPages }) => rows + Math.ceil(numPages / columns), Math.max(0, groups.length - 1));
  }

  /** The row and column of a cell; -1, -1 when there is none. */
  #gridOf(index: number, columns: number): { row: number; column: number } {
    let row = 0;
    for (const { start, numPages } of this.#view.groups) {
      const at = index - start;
      if (at < numPages) return { row: row + Math.floor(at / columns), column: at % columns };
      row += Math.ceil(numPages / columns) + 1;
    }
    return { row: -1, column: -1 };
  }

  #columns(width: number): number {
    return Math.max(1, Math.floor(width / this.#cell(width)));
  }

  #heightOf(width: number): number {
    return Math.max(1, this.#numRows(this.#columns(width))) * this.#cell(width);
  }

  #placeOf(page: number, width: number): { x: number; y: number } {
    const cell = this.#cell(width);
    const { row, column } = this.#gridOf(page, this.#columns(width));
    return { x: column * cell, y: row * cell };
  }

  #indexAt(x: number, y: number): number {
    const { width } = this.#canvas;
    const cell = this.#cell(width);
    const column = Math.floor((x - this.#padding()) / cell);
    const row = Math.floor((y - this.#padding()) / cell);
    const columns = this.#columns(width);
    if (column < 0 || row < 0 || column >= columns) return -1;
    let top = 0;
    for (const { start, numPages } of this.#view.groups) {
      const at = (row - top) * columns + column;
      if (row >= top && at < numPages) return start + at;
      top += Math.ceil(numPages / columns) + 1;
    }
    return -1;
  }

  #paint(c: CanvasRenderingContext2D, width: number): void {
    this.#canvas.setHeight(this.#heightOf(width));
    const { pages } = this.#view;
    const columns = this.#columns(width);
    const cell = this.#cell(width);
    const size = cell - (cell > 5 ? 2 : 1);
    const focus = new Set(pages[this.#looked]?.owners ?? []);
    for (let page = 0; page < pages.length; page++) {
      const { state, owners } = pages[page]!;
      const { row, column } = this.#gridOf(page, columns);
      const x = column * cell;
      const y = row * cell;
      if (state === "used" && owners.length > 0) {
        const isFocus = focus.size === 0 || owners.some((id) => focus.has(id));
        const bands = Math.min(owners.length, MAX_BANDS);
        for (let b = 0; b < bands; b++) {
          c.fillStyle = this.#colors.colorOf(owners[b]!, isDark.value, isFocus ? 1 : 0.25);
          c.fillRect(x, y + (b * size) / bands, size, size / bands);
        }
      } else {
        c.fillStyle = token(state === "cached" ? "cell-cached" : state === "used" ? "ink-faint" : "cell-free");
        c.fillRect(x, y, size, size);
        if (state === "null") paintNull(c, x, y, size);
      }
    }
    if (this.#looked < 0 || this.#looked >= pages.length) return;
    const { x, y } = this.#placeOf(this.#looked, width);
    c.strokeStyle = token("ink");
    c.lineWidth = 1.5;
    c.strokeRect(x - 0.75, y - 0.75, size + 1.5, size + 1.5);
  }

  #tipOf(page: number): Tip {
    const { state, owners, numOwners, node, group, page: id } = this.#view.pages[page]!;
    const { groups } = this.#view;
    const title = `Page ${count(id)}${groups.length > 1 ? ` of ${groups[group]!.name}` : ""}`;
    const text = node?.text ?? null;
    if (state === "null") return { title, lines: ["the null page: belongs to nobody, padding points here"] };
    if (state === "free") return { title, lines: ["free"] };
    if (state === "cached") return { title, lines: ["cached: kept for prompts that begin the same way"], text };
    const names = owners.slice(0, 6).map(shortId).join(", ") + (owners.length > 6 ? ", …" : "");
    const owned = numOwners > 1 ? `shared by ${count(numOwners)}: ${names}` : `owned by ${names || "a request"}`;
    return { title, lines: [owned, node === null ? "not cached yet" : "published for others"], text };
  }
}

function paintNull(c: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  c.strokeStyle = token("ink-faint");
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(x, y + size);
  c.lineTo(x + size, y);
  c.stroke();
}
