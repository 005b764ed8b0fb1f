// Draws plans: the keys of each query tile from left to right, cut where they were split. Parts to be merged are hatched.

import { count, shortId } from "../../data/format.js";
import type { PlanView, TileView } from "../../data/plan-view.js";
import type { RequestColors } from "../../data/request-colors.js";
import type { PlanItem, StepPlan, StepRecord } from "../../data/wire.js";
import { Canvas, LABEL_FONT } from "../canvas.js";
import { h } from "../dom.js";
import { isDark, token } from "../theme.js";
import type { Tip } from "../tooltip.js";
import { Explorer } from "./explorer.js";

const GUTTER = 74;
const WANTED_HEIGHT = 160;
const MAX_HEIGHT = 6000; // browsers draw no canvas that is much higher

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly tile: TileView;
  readonly item: PlanItem;
}

interface Shown {
  readonly step: StepRecord;
  readonly plan: StepPlan;
  readonly view: PlanView;
}

export class PlanCanvas {
  readonly element = h("div");
  readonly #colors: RequestColors;
  #parts: Part[] = [];

  constructor(colors: RequestColors) {
    this.#colors = colors;
  }

  show(step: StepRecord, plans: readonly { readonly plan: StepPlan; readonly view: PlanView }[]): void {
    // As many parts as the model has windows: made once, shown anew for each step.
    if (this.#parts.length !== plans.length) {
      this.#parts = plans.map(({ plan }) => {
        const window = plan.window === 0 ? "" : `, window of ${count(plan.window)}`;
        return new Part(`By query tile${window}`, this.#colors);
      });
      this.element.replaceChildren(...this.#parts.map(({ element }) => element));
    }
    plans.forEach(({ plan, view }, i) => {
      this.#parts[i]!.show({ step, plan, view });
    });
  }
}

class Part {
  readonly element: HTMLElement;
  readonly #colors: RequestColors;
  readonly #frame = h("div", { class: "tiles" });
  readonly #canvas: Canvas;
  readonly #explorer: Explorer;
  #shown: Shown | null = null;
  #boxes: Box[] = [];
  #looked = -1;

  constructor(title: string, colors: RequestColors) {
    this.#colors = colors;
    this.#canvas = new Canvas(this.#frame, 40, (context, width) => this.#paint(context, width));
    this.#frame.append(this.#canvas.element);
    this.#explorer = new Explorer(this.#frame, {
      label: `Work items, ${title.toLowerCase()}`,
      numItems: () => this.#boxes.length,
      rowLength: () => 8,
      indexAt: (x, y) =>
        this.#boxes.findIndex((b) => x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height),
      placeOf: (index) => this.#boxes[index] ?? { x: 0, y: 0 },
      tipOf: (index) => this.#tipOf(this.#boxes[index]!),
      onLook: (index) => {
        this.#looked = index;
        this.#canvas.repaint();
      },
    });
    this.element = h("div", { class: "plan-part" }, h("h3", {}, title), this.#frame);
  }

  show(shown: Shown): void {
    this.#shown = shown;
    const numLanes = shown.view.tiles.length;
    this.#canvas.setHeight(numLanes * laneHeight(numLanes) + 2);
    this.#canvas.repaint();
  }

  #paint(c: CanvasRenderingContext2D, width: number): void {
    if (this.#shown === null) return;
    this.#boxes = boxesOf(this.#shown, width);
    const { tiles } = this.#shown.view;
    const height = laneHeight(tiles.length);
    c.font = LABEL_FONT;
    c.textBaseline = "middle";
    if (height >= 11) {
      c.fillStyle = token("ink-faint");
      c.textAlign = "right";
      tiles.forEach(({ row }, i) => {
        c.fillText(shortId(this.#shown!.step.rows[row]!.id), GUTTER - 8, (i + 0.5) * height);
      });
    }
    for (const [i, box] of this.#boxes.entries()) this.#paintBox(c, box, i === this.#looked);
    if (height >= 11) this.#paintMerges(c, height);
    this.#explorer.refresh();
  }

  #paintBox(c: CanvasRenderingContext2D, { x, y, width, height, item }: Box, isLooked: boolean): void {
    const { id } = this.#shown!.step.rows[item.row]!;
    const color = this.#colors.colorOf(id, isDark.value);
    c.fillStyle = this.#colors.colorOf(id, isDark.value, item.isPartial ? 0.35 : 0.85);
    c.fillRect(x, y, width, height);
    if (item.isPartial) hatch(c, x, y, width, height, color);
    if (isLooked) {
      c.strokeStyle = token("ink");
      c.lineWidth = 1.5;
      c.strokeRect(x, y, width, height);
    }
  }

  #paintMerges(c: CanvasRenderingContext2D, height: number): void {
    c.textAlign = "left";
    c.fillStyle = token("ink-soft");
    this.#shown!.view.tiles.forEach(({ items }, i) => {
      if (items.length < 2) return;
      const end = Math.max(...this.#boxes.filter(({ item }) => items.includes(item)).map((box) => box.x + box.width));
      c.fillText(`merge ${items.length}`, end + 5, (i + 0.5) * height);
    });
  }

  #tipOf({ item, tile }: Box): Tip {
    const row = this.#shown!.step.rows[item.row]!;
    return {
      title: shortId(row.id),
      lines: [
        `query rows ${item.qStart} to ${item.qStart + tile.qLen} of ${row.queryLen * this.#shown!.plan.groupSize} (token × head in group)`,
        `keys ${item.kvStart} to ${item.kvEnd} of ${row.contextLen}`,
        item.isPartial ? "a part, to be merged" : "whole: writes its output itself",
      ],
    };
  }
}

/** High enough for the request's name; a step of many tiles scrolls. */
function laneHeight(numLanes: number): number {
  const least = Math.min(13, MAX_HEIGHT / numLanes);
  return Math.max(least, Math.min(18, Math.floor(WANTED_HEIGHT / numLanes)));
}

function boxesOf({ step, view }: Shown, width: number): Box[] {
  const height = laneHeight(view.tiles.length);
  const longest = Math.max(1, ...step.rows.map(({ contextLen }) => contextLen));
  const scale = (width - GUTTER - 60) / longest;
  return view.tiles.flatMap((tile, lane) =>
    tile.items.map((item) => ({
      x: GUTTER + item.kvStart * scale,
      y: lane * height + 1,
      width: Math.max(1, (item.kvEnd - item.kvStart) * scale - 1),
      height: height - 2,
      tile,
      item,
    })),
  );
}

function hatch(c: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, color: string): void {
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  c.strokeStyle = color;
  c.lineWidth = 1;
  c.beginPath();
  for (let at = x - height; at < x + width; at += 5) {
    c.moveTo(at, y + height);
    c.lineTo(at + height, y);
  }
  c.stroke();
  c.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  c.restore();
}
