// The chosen step: its rows, and how attention was planned for them: how the keys of each query tile are cut and merged.

import { count, milliseconds, plural, shortId } from "../../data/format.js";
import { type PlanView, viewPlan } from "../../data/plan-view.js";
import type { RequestColors } from "../../data/request-colors.js";
import type { StepPlan, StepRecord } from "../../data/wire.js";
import type { Api } from "../api.js";
import { h, swatch } from "../dom.js";
import { isDark } from "../theme.js";
import { PlanCanvas } from "./plan-canvas.js";

/** While following, plans are fetched this often at most. */
const FOLLOW_MS = 700;

export class StepDetail {
  readonly element = h("div", { class: "step-detail" });
  readonly #api: Api;
  readonly #pathOf: (path: string) => string;
  readonly #colors: RequestColors;
  readonly #rowsHead = h("h3");
  readonly #rows = h("tbody");
  readonly #planHead = h("h3", { "aria-live": "off" });
  readonly #canvas: PlanCanvas;
  #wanted: StepRecord | null = null;
  #isBusy = false;

  /** `pathOf` adds to a path which model is watched. */
  constructor(api: Api, colors: RequestColors, pathOf: (path: string) => string) {
    this.#api = api;
    this.#pathOf = pathOf;
    this.#colors = colors;
    this.#canvas = new PlanCanvas(colors);
    const heads = [
      ["Request", ""],
      ["Work", ""],
      ["From", "number"],
      ["New", "number"],
      ["Context", "number"],
    ] as const;
    this.element.append(
      h(
        "div",
        {},
        this.#rowsHead,
        h(
          "div",
          { class: "rows", tabindex: "0", role: "region", "aria-label": "Rows of the step" },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, ...heads.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))),
            this.#rows,
          ),
        ),
      ),
      h("div", {}, this.#planHead, this.#canvas.element),
    );
  }

  show(step: StepRecord | null): void {
    this.#wanted = step;
    if (!this.#isBusy && step !== null) void this.#work();
  }

  /** Shows what is wanted until nothing newer is. */
  async #work(): Promise<void> {
    this.#isBusy = true;
    for (let step = this.#wanted; step !== null; step = this.#wanted) {
      this.#wanted = null;
      try {
        const plans = await this.#api.json<StepPlan[]>(this.#pathOf(`/api/plan/${step.step}`));
        this.#showRows(step);
        this.#showPlans(step, plans);
      } catch (error) {
        this.#showRows(step);
        this.#planHead.textContent = error instanceof Error ? error.message : String(error);
        this.#canvas.show(step, []);
      }
      if (this.#wanted === null) await new Promise((resolve) => setTimeout(resolve, FOLLOW_MS));
    }
    this.#isBusy = false;
  }

  #showRows({ step, rows, tokens, budget, durationMs }: StepRecord): void {
    this.#rowsHead.replaceChildren(
      h("b", {}, `Step ${count(step)}`),
      h("span", {}, plural(rows.length, "row")),
      h("span", {}, `${count(tokens)} of ${count(budget)} tokens`),
      h("span", {}, milliseconds(durationMs)),
    );
    this.#rows.replaceChildren(
      ...rows.map((row) =>
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "row", class: "mono", title: row.id },
            swatch(this.#colors.colorOf(row.id, isDark.value)),
            ` ${shortId(row.id)}`,
          ),
          h(
            "td",
            {},
            row.isPrefill ? "prompt" : row.drafted ? `decode, ${row.accepted} of ${row.drafted} guesses` : "decode",
          ),
          ...[row.start, row.queryLen, row.contextLen].map((value) => h("td", { class: "number" }, count(value))),
        ),
      ),
    );
  }

  #showPlans(step: StepRecord, plans: readonly StepPlan[]): void {
    const views = plans.map((plan) => ({ plan, view: viewPlan(plan, step.rows) }));
    this.#planHead.replaceChildren(
      h("b", {}, "Attention plan"),
      ...views.slice(0, 1).flatMap(({ plan, view }) => summaryOf(plan, view)),
    );
    this.#canvas.show(step, views);
  }
}

function summaryOf(plan: StepPlan, view: PlanView): HTMLElement[] {
  return [
    h("span", {}, plural(plan.items.length, "work item")),
    h(
      "span",
      {},
      view.numMerges === 0
        ? "no splits"
        : `${plural(view.numPartials, "part")} joined in ${plural(view.numMerges, "merge")}`,
    ),
    h("span", {}, `query tile ${plan.qTile}, KV chunk ${plan.kvChunk}`),
  ];
}
