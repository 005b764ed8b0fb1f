// Paints the timeline. A column is a step: above, its tokens, stacked by request, against the budget; in the middle, a lane per
// request; below, how long the step took.
//
//   budget - - - - - - - - - - -    the most tokens a step may have; the scale is of square roots, so that a decode is still seen
//          #   |   #                prompt tokens full, decodes pale
//   lanes  ====----------           thick: computes its prompt; thin: decodes. A ring: began behind a cached prefix. A cross: preempted
//   guesses   . | .                 only where there were some: tried pale, those that came true full
//   ms     ._._.__.

import { milliseconds } from "../../data/format.js";
import type { RequestColors } from "../../data/request-colors.js";
import type { LoggedStep } from "../../data/step-history.js";
import { LABEL_FONT } from "../canvas.js";
import { isDark, token } from "../theme.js";

export const GUTTER = 68;
export const TIMELINE_HEIGHT = 316;
const BARS = { top: 22, bottom: 140 };
const LANES = { top: 156, bottom: 232 };
const GUESSES = { top: 240, bottom: 266 };
const TIMES = { top: 280, bottom: 310 };
const MAX_LANE = 10;

export interface TimelineFrame {
  readonly steps: readonly LoggedStep[];
  readonly columnWidth: number;
  readonly scrollLeft: number;
  /** Indices into steps; -1 is none. */
  readonly chosen: number;
  readonly looked: number;
  /** The request to bring out; null is none. */
  readonly focus: string | null;
  readonly colors: RequestColors;
}

export function paintTimeline(c: CanvasRenderingContext2D, width: number, frame: TimelineFrame): void {
  const { steps, columnWidth, scrollLeft } = frame;
  const first = Math.max(0, Math.floor(scrollLeft / columnWidth));
  const last = Math.min(steps.length, Math.ceil((scrollLeft + width - GUTTER) / columnWidth));
  const xOf = (i: number): number => GUTTER + i * columnWidth - scrollLeft;
  const budget = steps.at(-1)?.record.budget ?? 0;

  c.font = LABEL_FONT;
  c.textBaseline = "middle";
  if (steps.length === 0) {
    c.fillStyle = token("ink-soft");
    c.textAlign = "center";
    c.fillText("No steps yet. Ask the model for something.", width / 2, TIMELINE_HEIGHT / 2);
    return;
  }
  paintAxes(c, width, budget);
  c.save();
  c.beginPath();
  c.rect(GUTTER, 0, width - GUTTER, TIMELINE_HEIGHT);
  c.clip();
  for (const [index, color] of [
    [frame.looked, "line"],
    [frame.chosen, "accent-soft"],
  ] as const) {
    if (index < 0) continue;
    c.fillStyle = token(color);
    c.fillRect(xOf(index), 0, columnWidth, TIMELINE_HEIGHT);
  }
  paintBars(c, frame, first, last, xOf, budget);
  paintLanes(c, frame, first, last, xOf);
  paintGuesses(c, frame, first, last, xOf);
  paintTimes(c, frame, first, last, xOf);
  c.restore();
}

function yOfTokens(tokens: number, budget: number): number {
  return BARS.bottom - Math.sqrt(tokens / budget) * (BARS.bottom - BARS.top);
}

function paintAxes(c: CanvasRenderingContext2D, width: number, budget: number): void {
  c.strokeStyle = token("line");
  c.fillStyle = token("ink-faint");
  c.lineWidth = 1;
  c.textAlign = "right";
  for (const share of [0, 1 / 16, 1 / 4]) {
    const tokens = Math.round(budget * share);
    const y = Math.round(yOfTokens(tokens, budget)) + 0.5;
    line(c, GUTTER, y, width);
    c.fillText(String(tokens), GUTTER - 8, y);
  }
  line(c, GUTTER, LANES.bottom + 0.5, width);
  line(c, GUTTER, GUESSES.bottom + 0.5, width);
  c.fillText("guesses", GUTTER - 8, (GUESSES.top + GUESSES.bottom) / 2);
  line(c, GUTTER, TIMES.bottom + 0.5, width);
  c.fillText("requests", GUTTER - 8, (LANES.top + LANES.bottom) / 2);
  c.strokeStyle = token("accent");
  c.setLineDash([5, 4]);
  line(c, GUTTER, BARS.top + 0.5, width);
  c.setLineDash([]);
  c.fillStyle = token("accent");
  c.fillText(String(budget), GUTTER - 8, BARS.top);
  c.textAlign = "left";
  c.fillText("budget of a step", GUTTER + 4, BARS.top - 9);
}

function line(c: CanvasRenderingContext2D, x: number, y: number, toX: number): void {
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(toX, y);
  c.stroke();
}

type XOf = (index: number) => number;

function paintBars(
  c: CanvasRenderingContext2D,
  frame: TimelineFrame,
  first: number,
  last: number,
  xOf: XOf,
  budget: number,
): void {
  const width = Math.max(1, frame.columnWidth - (frame.columnWidth > 4 ? 2 : 1));
  for (let i = first; i < last; i++) {
    const { rows } = frame.steps[i]!.record;
    let below = 0;
    // Decodes first: they are at the foot of every bar, and prompts stand out above them.
    for (const isPrefill of [false, true]) {
      for (const row of rows) {
        if (row.isPrefill !== isPrefill) continue;
        const bottom = yOfTokens(below, budget);
        below += row.queryLen;
        const top = yOfTokens(below, budget);
        c.fillStyle = colorOf(frame, row.id, isPrefill ? 1 : 0.5);
        const gap = bottom - top > 3 ? 0.5 : 0; // a hair between rows, where there is room
        c.fillRect(xOf(i) + 0.5, top, width, bottom - top - gap);
      }
    }
  }
}

function paintLanes(c: CanvasRenderingContext2D, frame: TimelineFrame, first: number, last: number, xOf: XOf): void {
  const { base, height } = lanesInView(frame.steps, first, last);
  const middleOf = (lane: number): number => LANES.top + (lane - base + 0.5) * height;
  const thick = Math.max(1, height - 2);
  const thin = Math.max(1, Math.min(2.5, height * 0.3));
  for (let i = first; i < last; i++) {
    const { record, lanes } = frame.steps[i]!;
    record.rows.forEach((row, r) => {
      const size = row.isPrefill ? thick : thin;
      c.fillStyle = colorOf(frame, row.id, 1);
      c.fillRect(xOf(i), middleOf(lanes[r]!) - size / 2, frame.columnWidth, size);
    });
  }
  if (height < 5) return; // marks would cover more than they tell
  for (let i = first; i < last; i++) {
    const { record, lanes } = frame.steps[i]!;
    record.rows.forEach((row, r) => {
      if (!row.isPrefill || row.start === 0 || ranBefore(frame.steps, i, row.id)) return;
      c.beginPath();
      c.arc(xOf(i), middleOf(lanes[r]!), height * 0.32, 0, 2 * Math.PI);
      c.fillStyle = token("surface");
      c.strokeStyle = colorOf(frame, row.id, 1);
      c.lineWidth = 1.5;
      c.fill();
      c.stroke();
    });
    for (const id of record.preempted) paintCross(c, xOf(i), middleOf(laneBefore(frame.steps, i, id)), height * 0.35);
  }
}

function paintCross(c: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  if (Number.isNaN(y)) return;
  c.strokeStyle = token("bad");
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x - size, y - size);
  c.lineTo(x + size, y + size);
  c.moveTo(x - size, y + size);
  c.lineTo(x + size, y - size);
  c.stroke();
}

function ranBefore(steps: readonly LoggedStep[], index: number, id: string): boolean {
  return steps[index - 1]?.record.rows.some((row) => row.id === id) ?? false;
}

function laneBefore(steps: readonly LoggedStep[], index: number, id: string): number {
  const before = steps[index - 1];
  return before?.lanes[before.record.rows.findIndex((row) => row.id === id)] ?? Number.NaN;
}

/** Guesses of each step: tried, and of these the ones that became tokens. */
function paintGuesses(c: CanvasRenderingContext2D, frame: TimelineFrame, first: number, last: number, xOf: XOf): void {
  const width = Math.max(1, frame.columnWidth - 1);
  let most = 0;
  for (let i = first; i < last; i++) most = Math.max(most, guessesOf(frame.steps[i]!).drafted);
  if (most === 0) return;
  const scale = (GUESSES.bottom - GUESSES.top) / most;
  for (let i = first; i < last; i++) {
    const { drafted, accepted } = guessesOf(frame.steps[i]!);
    for (const [value, color] of [
      [drafted, "cell-cached"],
      [accepted, "accent"],
    ] as const) {
      c.fillStyle = token(color);
      c.fillRect(xOf(i) + 0.5, GUESSES.bottom - value * scale, width, value * scale);
    }
  }
}

function guessesOf({ record }: LoggedStep): { readonly drafted: number; readonly accepted: number } {
  let drafted = 0;
  let accepted = 0;
  for (const row of record.rows) {
    drafted += row.drafted ?? 0;
    accepted += row.accepted ?? 0;
  }
  return { drafted, accepted };
}

function paintTimes(c: CanvasRenderingContext2D, frame: TimelineFrame, first: number, last: number, xOf: XOf): void {
  let most = 0;
  for (let i = first; i < last; i++) most = Math.max(most, frame.steps[i]!.record.durationMs);
  if (most === 0) return;
  c.fillStyle = token("cell-cached");
  const width = Math.max(1, frame.columnWidth - 1);
  for (let i = first; i < last; i++) {
    const height = Math.max(1, (frame.steps[i]!.record.durationMs / most) * (TIMES.bottom - TIMES.top));
    c.fillRect(xOf(i) + 0.5, TIMES.bottom - height, width, height);
  }
  c.restore(); // the label is in the gutter, outside of the clip
  c.save();
  c.fillStyle = token("ink-faint");
  c.textAlign = "right";
  c.fillText(milliseconds(most), GUTTER - 8, TIMES.top + 4);
}

function colorOf({ colors, focus }: TimelineFrame, id: string, alpha: number): string {
  return colors.colorOf(id, isDark.value, focus === null || focus === id ? alpha : alpha * 0.25);
}

/** The lanes of the steps [first, last) fill the room there is, the first of them at the top. */
function lanesInView(steps: readonly LoggedStep[], first: number, last: number): { base: number; height: number } {
  let base = Number.POSITIVE_INFINITY;
  let end = 0;
  for (let i = first; i < last; i++) {
    for (const lane of steps[i]!.lanes) {
      base = Math.min(base, lane);
      end = Math.max(end, lane + 1);
    }
  }
  return { base, height: Math.min(MAX_LANE, (LANES.bottom - LANES.top) / Math.max(1, end - base)) };
}

/** The lane at this height, when the steps [first, last) are in view; -1 where there is none. */
export function laneAt(steps: readonly LoggedStep[], first: number, last: number, y: number): number {
  if (y < LANES.top || y > LANES.bottom) return -1;
  const { base, height } = lanesInView(steps, first, last);
  return base + Math.floor((y - LANES.top) / height);
}
