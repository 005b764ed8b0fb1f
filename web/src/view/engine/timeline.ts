// The step timeline: follows the newest step, or stands still and scrolls back through the last thousand.

import { count, milliseconds, plural, shortId } from "../../data/format.js";
import type { RequestColors } from "../../data/request-colors.js";
import { StepHistory } from "../../data/step-history.js";
import type { StepRecord } from "../../data/wire.js";
import { Canvas } from "../canvas.js";
import { byId, h, perFrame, sectionHead, setText } from "../dom.js";
import { Signal } from "../signal.js";
import type { Tip } from "../tooltip.js";
import { Explorer } from "./explorer.js";
import { GUTTER, laneAt, paintTimeline, TIMELINE_HEIGHT } from "./timeline-paint.js";

const WIDTHS = [2, 4, 8, 14]; // of a column
/** Steps may come by the hundred a second, from an engine that shares this machine's cores: painting them is to cost it little. */
const FOLLOW_MS = 80;

export class Timeline {
  /** The step whose plan is shown: the chosen one, or the newest. */
  readonly chosen = new Signal<StepRecord | null>(null);
  readonly panel = h("div", { class: "panel" });

  readonly #log = new StepHistory();
  readonly #colors: RequestColors;
  readonly #scroller = h("div", { class: "timeline" });
  readonly #spacer = h("div", { class: "spacer" });
  readonly #pause = h("button", { type: "button", "aria-pressed": "false" }, "Pause");
  readonly #behind = h("span", { class: "soft" });
  readonly #canvas: Canvas;
  readonly #explorer: Explorer;
  #columnWidth = 8;
  #chosenStep = -1; // by number; -1 follows the newest
  #looked = -1;
  #focus: string | null = null;

  constructor(colors: RequestColors) {
    this.#colors = colors;
    this.#canvas = new Canvas(this.#scroller, TIMELINE_HEIGHT, (context, width) => {
      const steps = this.#log.view;
      paintTimeline(context, width, {
        steps,
        columnWidth: this.#columnWidth,
        scrollLeft: this.#scroller.scrollLeft,
        chosen: steps.findIndex(({ record }) => record.step === this.#chosenStep),
        looked: this.#looked,
        focus: this.#focus,
        colors,
      });
    });
    this.#spacer.append(this.#canvas.element);
    this.#scroller.append(this.#spacer);
    this.#explorer = new Explorer(this.#scroller, {
      label: "Steps, oldest first",
      numItems: () => this.#log.view.length,
      rowLength: () => 10,
      indexAt: (x, y) => this.#indexAt(x, y),
      placeOf: (index) => ({ x: GUTTER + (index + 1) * this.#columnWidth, y: 140 }),
      tipOf: (index) => this.#tipOf(index),
      onLook: (index) => {
        this.#looked = index;
        if (index < 0) this.#focus = null;
        this.#canvas.repaint();
      },
      onChoose: (index) => this.#choose(index),
    });
    this.#scroller.addEventListener("scroll", this.#onScroll);
    this.#scroller.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#resume();
      if (event.key === " ") {
        event.preventDefault();
        this.#toggle();
      }
    });
    this.#pause.addEventListener("click", () => this.#toggle());
    new ResizeObserver(() => this.#refresh()).observe(this.#scroller);
    this.panel.append(this.#scroller);
    byId("steps").append(
      sectionHead(
        "steps",
        "Steps",
        "A column is a step: one forward pass over a batch without padding. Above, its tokens by request, prompts full and " +
          "decodes pale. In the middle, a lane per request: thick while it computes its prompt, thin while it decodes, a ring " +
          "where it began behind a cached prefix. Then tokens guessed ahead, those that came true red. Below, the time it took.",
        this.#behind,
        this.#zoomButton("Narrower", "−", -1),
        this.#zoomButton("Wider", "+", 1),
        this.#pause,
      ),
      this.panel,
    );
  }

  reset(history: readonly StepRecord[]): void {
    this.#log.reset(history);
    for (const { rows } of history) for (const { id } of rows) this.#colors.colorOf(id, false); // numbered in order of arrival
    this.#refresh();
  }

  add(step: StepRecord): void {
    this.#log.add(step);
    this.#refresh();
  }

  readonly #refresh = perFrame(() => {
    const { view, latest, isPaused } = this.#log;
    if (isPaused) {
      const numBehind = (latest?.step ?? 0) - (view.at(-1)?.record.step ?? 0);
      setText(this.#behind, numBehind > 0 ? `${plural(numBehind, "newer step")}` : "");
    } else {
      setText(this.#behind, "");
      this.#spacer.style.width = `${GUTTER + view.length * this.#columnWidth}px`;
      this.#scroller.scrollLeft = this.#scroller.scrollWidth;
      const newest = view.at(-1)?.record ?? null;
      if (newest !== this.chosen.value) this.chosen.set(newest);
      this.#explorer.refresh(view.length - 1);
    }
    this.#canvas.repaint();
  }, FOLLOW_MS);

  readonly #onScroll = (): void => {
    const { scrollLeft, scrollWidth, clientWidth } = this.#scroller;
    // Following keeps the end in view: anywhere else is where somebody scrolled to.
    if (!this.#log.isPaused && scrollWidth - clientWidth - scrollLeft > 4) this.#halt();
    this.#canvas.repaint();
  };

  #halt(): void {
    this.#log.pause();
    setText(this.#pause, "Follow");
    this.#pause.setAttribute("aria-pressed", "true");
  }

  #resume(): void {
    this.#log.resume();
    this.#chosenStep = -1;
    setText(this.#pause, "Pause");
    this.#pause.setAttribute("aria-pressed", "false");
    this.#refresh();
  }

  #toggle(): void {
    if (this.#log.isPaused) this.#resume();
    else this.#halt();
    this.#refresh();
  }

  #choose(index: number): void {
    this.#halt();
    const { record } = this.#log.view[index]!;
    this.#chosenStep = record.step;
    this.chosen.set(record);
    const left = index * this.#columnWidth;
    const room = this.#scroller.clientWidth - GUTTER - this.#columnWidth;
    // What is out of sight comes in with something of what is before and after it.
    if (left < this.#scroller.scrollLeft) this.#scroller.scrollLeft = left - room / 2;
    else if (left > this.#scroller.scrollLeft + room) this.#scroller.scrollLeft = left - room / 2;
    this.#canvas.repaint();
  }

  #zoomButton(label: string, sign: string, by: number): HTMLElement {
    const zoom = (): void => {
      const at = WIDTHS.indexOf(this.#columnWidth) + by;
      const width = WIDTHS[at];
      if (width === undefined) return;
      const middle = (this.#scroller.scrollLeft + this.#scroller.clientWidth / 2) / this.#columnWidth;
      this.#columnWidth = width;
      this.#spacer.style.width = `${GUTTER + this.#log.view.length * width}px`;
      this.#scroller.scrollLeft = middle * width - this.#scroller.clientWidth / 2;
      this.#refresh();
    };
    return h("button", { type: "button", "aria-label": `${label} columns`, onclick: zoom }, sign);
  }

  #indexAt(x: number, y: number): number {
    const { view } = this.#log;
    const { scrollLeft, clientWidth } = this.#scroller;
    const index = Math.floor((x - GUTTER) / this.#columnWidth);
    if (x - scrollLeft < GUTTER || index < 0 || index >= view.length) return -1;
    const first = Math.floor(scrollLeft / this.#columnWidth);
    const last = Math.min(view.length, Math.ceil((scrollLeft + clientWidth - GUTTER) / this.#columnWidth));
    const lane = laneAt(view, first, last, y);
    const { record, lanes } = view[index]!;
    this.#focus = record.rows[lanes.indexOf(lane)]?.id ?? null;
    return index;
  }

  #tipOf(index: number): Tip {
    const { step, tokens, budget, rows, durationMs, waiting, preempted, paddingAvoided } =
      this.#log.view[index]!.record;
    const numPrefill = rows.filter(({ isPrefill }) => isPrefill).length;
    const row = rows.find(({ id }) => id === this.#focus);
    const lines = [
      `${plural(numPrefill, "prompt")}, ${plural(rows.length - numPrefill, "decode")}; ${count(tokens)} of ${count(budget)} tokens`,
      `${milliseconds(durationMs)}; ${count(paddingAvoided)} tokens of padding avoided`,
    ];
    if (waiting > 0) lines.push(`${plural(waiting, "request")} waiting`);
    if (preempted.length > 0) lines.push(`preempted: ${preempted.map(shortId).join(", ")}`);
    if (row !== undefined) {
      const what = row.isPrefill
        ? `prompt tokens ${row.start} to ${row.contextLen}`
        : `decodes token ${row.contextLen - (row.drafted ?? 0)}${guessesOf(row)}`;
      lines.push(`${shortId(row.id)}: ${what}`);
    }
    return { title: `Step ${count(step)}`, lines };
  }
}

function guessesOf({ drafted = 0, accepted = 0 }: StepRecord["rows"][number]): string {
  return drafted === 0 ? "" : `, ${accepted} of ${drafted} guesses right`;
}
