// Small charts over the last three minutes, those of a GPU where there is one, and the same numbers as a table for who prefers to read or hear them.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { count, milliseconds, percent, rate } from "../../data/format.js";
import { type LiveSample, LiveSeries, summarize, WINDOW } from "../../data/live-series.js";
import { byId, h, sectionHead, setText } from "../dom.js";
import { isDark, token } from "../theme.js";

type Key = Exclude<keyof LiveSample, "seconds">;

interface Line {
  readonly key: Key;
  readonly name: string;
  readonly color: "accent" | "second";
}

interface Chart {
  readonly title: string;
  readonly format: (value: number) => string;
  /** The first is the one the chart is about. */
  readonly lines: readonly Line[];
  /** Upper end of the axis: at least this; shares have it fixed. */
  readonly top: number;
  readonly isShare?: boolean;
  /** Shown only where there is something to tell. */
  readonly isOptional?: boolean;
}

const GPU_CHART: Chart = {
  title: "GPU",
  format: percent,
  top: 1,
  isShare: true,
  isOptional: true,
  lines: [
    { key: "busyShare", name: "busy", color: "accent" },
    { key: "memoryShare", name: "memory", color: "second" },
  ],
};

const CHARTS: readonly Chart[] = [
  {
    title: "Tokens per second",
    format: rate,
    top: 10,
    lines: [
      { key: "decodeRate", name: "generated", color: "accent" },
      { key: "prefillRate", name: "prompt", color: "second" },
    ],
  },
  {
    title: "Requests",
    format: count,
    top: 4,
    lines: [
      { key: "running", name: "running", color: "accent" },
      { key: "waiting", name: "waiting", color: "second" },
    ],
  },
  {
    title: "Time to first token",
    format: milliseconds,
    top: 10,
    lines: [{ key: "ttftMs", name: "mean of 5 s", color: "accent" }],
  },
  {
    title: "Time of a step",
    format: milliseconds,
    top: 1,
    lines: [{ key: "stepMs", name: "mean of 1 s", color: "accent" }],
  },
  {
    title: "Pages of the pool",
    format: percent,
    top: 1,
    isShare: true,
    lines: [
      { key: "usedShare", name: "in use", color: "accent" },
      { key: "filledShare", name: "with cached", color: "second" },
    ],
  },
  {
    title: "Prompt tokens from cache",
    format: percent,
    top: 1,
    isShare: true,
    lines: [{ key: "hitRate", name: "hit rate of 5 s", color: "accent" }],
  },
  GPU_CHART,
  {
    title: "Steps replayed as graphs",
    format: rate,
    top: 10,
    isOptional: true,
    lines: [{ key: "replayRate", name: "per second", color: "accent" }],
  },
];

const HEIGHT = 92;

export class LiveCharts {
  readonly series = new LiveSeries();
  readonly #cards = CHARTS.map((chart) => new Card(chart));
  readonly #table = h("tbody");
  readonly #tablePanel: HTMLElement;
  readonly #charts = h("div", { class: "charts" }, ...this.#cards.map(({ element }) => element));

  constructor() {
    const asTable = h("button", { class: "quiet", type: "button", "aria-pressed": "false" }, "As a table");
    const heads = ["Measure", "Now", "Mean", "Least", "Most"];
    this.#tablePanel = h(
      "div",
      { class: "panel live-table", hidden: true },
      h(
        "table",
        {},
        h("caption", { class: "sr-only" }, "The last three minutes"),
        h(
          "thead",
          {},
          h("tr", {}, ...heads.map((head, i) => h("th", { scope: "col", class: i > 0 ? "number" : null }, head))),
        ),
        this.#table,
      ),
    );
    asTable.addEventListener("click", () => {
      const isTable = this.#tablePanel.hidden;
      this.#tablePanel.hidden = !isTable;
      this.#charts.hidden = isTable;
      asTable.setAttribute("aria-pressed", String(isTable));
      this.update();
    });
    byId("live").append(
      sectionHead("live", "Live", "The last three minutes, second by second.", asTable),
      this.#charts,
      this.#tablePanel,
    );
    // uPlot keeps the colours it was made with.
    isDark.watch(() => {
      for (const card of this.#cards) card.rebuild(this.series.samples);
    });
  }

  update(): void {
    this.#charts.classList.toggle("of-gpu", isShown(GPU_CHART, this.series.samples));
    if (this.#tablePanel.hidden) for (const card of this.#cards) card.update(this.series.samples);
    else this.#fillTable();
  }

  #fillTable(): void {
    const shown = CHARTS.filter((chart) => isShown(chart, this.series.samples));
    const rows = shown.flatMap(({ title, format, lines }) =>
      lines.map(({ key, name }) => {
        const { now, mean, min, max } = summarize(this.series.samples, key);
        const cells = [now, mean, min, max].map((value) =>
          h("td", { class: "number" }, value === null ? "–" : format(value)),
        );
        return h("tr", {}, h("th", { scope: "row" }, `${title}, ${name}`), ...cells);
      }),
    );
    this.#table.replaceChildren(...rows);
  }
}

function isShown({ isOptional, lines }: Chart, samples: readonly LiveSample[]): boolean {
  return isOptional !== true || summarize(samples, lines[0]!.key).now !== null;
}

class Card {
  readonly element: HTMLElement;
  readonly #chart: Chart;
  readonly #plotFrame = h("div", { role: "img" });
  readonly #values: readonly HTMLElement[];
  #plot: uPlot | null = null;
  #samples: readonly LiveSample[] = [];

  constructor(chart: Chart) {
    this.#chart = chart;
    this.#values = chart.lines.map(() => h("b", {}, "–"));
    this.element = h(
      "figure",
      { class: "chart", hidden: chart.isOptional === true },
      h(
        "figcaption",
        {},
        h("h3", {}, chart.title),
        h("div", { class: "values" }, ...chart.lines.map((line, i) => this.#label(line, i))),
      ),
      this.#plotFrame,
    );
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width === 0) return;
      if (this.#plot === null) this.#build(width);
      else this.#plot.setSize({ width, height: HEIGHT });
    }).observe(this.#plotFrame);
  }

  #label({ name, color }: Line, i: number): HTMLElement {
    const mark = h("span", { class: "swatch", "aria-hidden": "true" });
    mark.style.background = `var(--${color})`;
    return h("span", { class: i === 0 ? "main" : null }, this.#values[i]!, " ", mark, name);
  }

  update(samples: readonly LiveSample[]): void {
    this.#samples = samples;
    const { title, format, lines } = this.#chart;
    this.element.hidden = !isShown(this.#chart, samples);
    this.#show(this.#plot?.cursor.idx ?? -1);
    const spoken = lines.map(({ key, name }) => {
      const { now, min, max } = summarize(samples, key);
      return now === null
        ? `${name}: nothing yet`
        : `${name} ${format(now)}, between ${format(min!)} and ${format(max!)}`;
    });
    this.#plotFrame.setAttribute("aria-label", `${title}, last three minutes: ${spoken.join("; ")}`);
    this.#plot?.setData(this.#data());
  }

  rebuild(samples: readonly LiveSample[]): void {
    const width = this.#plot?.width;
    if (width === undefined) return;
    this.#plot!.destroy();
    this.#build(width);
    this.update(samples);
  }

  /** The values of one sample in the caption; below 0, the newest there are. */
  #show(index: number): void {
    this.#chart.lines.forEach(({ key }, i) => {
      const value = index < 0 ? summarize(this.#samples, key).now : (this.#samples[index]?.[key] ?? null);
      setText(this.#values[i]!, value === null ? "–" : this.#chart.format(value));
    });
  }

  #data(): uPlot.AlignedData {
    const samples = this.#samples;
    return [
      samples.map(({ seconds }) => seconds),
      ...this.#chart.lines.map(({ key }) => samples.map((sample) => sample[key])),
    ];
  }

  #build(width: number): void {
    const { lines, format, top, isShare = false } = this.#chart;
    const axis = { stroke: token("ink-faint"), font: "10px Inter, system-ui, sans-serif", ticks: { show: false } };
    this.#plot = new uPlot(
      {
        width,
        height: HEIGHT,
        padding: [6, 2, 4, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 }, sync: { key: "live" } },
        scales: {
          // Until the window is full the lines have all of the width, but never less than half a minute of it.
          x: { time: false, range: (_, min, max) => [max - Math.min(WINDOW, Math.max(30, max - min)), max] },
          y: { range: (_, __, max) => [0, isShare ? 1 : Math.max(top, (max ?? 0) * 1.1)] },
        },
        axes: [
          { show: false },
          {
            ...axis,
            size: 46,
            gap: 6,
            space: 28,
            grid: { stroke: token("line"), width: 1 },
            values: (_, splits) => splits.map((value) => format(value)),
          },
        ],
        series: [
          {},
          ...lines.map(({ color }, i) => ({
            stroke: token(color),
            width: 1.5,
            ...(i === 0 ? { fill: token(`${color}-soft`) } : {}),
            spanGaps: false,
            points: { show: false },
          })),
        ],
        hooks: { setCursor: [({ cursor }) => this.#show(cursor.idx ?? -1)] },
      },
      this.#data(),
      this.#plotFrame,
    );
  }
}
