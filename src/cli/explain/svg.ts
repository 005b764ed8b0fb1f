// `pagoda explain --svg`: the timeline (who computes what in which batch) and the page map (who owns which page, how full).

import { type ExplainReport, expandPages, type RequestReport } from "./report.js";

const MAX_BATCHES = 100;
const MAX_PAGES = 2048;
const LEFT = 70; // room for request names
const LANE = 26; // height of a request in the timeline
const COLUMN = 110; // width of a batch
const CELL = 28; // side of a page
const PAGES_PER_LINE = 32;
const FONT = 'font-family="system-ui, sans-serif" font-size="11"';

export function renderExplainSvg(report: ExplainReport): string {
  const colours = new Map(report.requests.map((request, i) => [request.id, colourOf(i)]));
  const timelineHeight = 30 + LANE * report.requests.length;
  const pages = pageCells(report);
  const pageLines = Math.ceil((Math.min(pages.length, MAX_PAGES) + 1) / PAGES_PER_LINE);
  const numBatches = Math.min(report.extend.batches.length, MAX_BATCHES);
  const width = Math.max(LEFT + COLUMN * numBatches, CELL * PAGES_PER_LINE) + 40;
  const mapTop = 60 + timelineHeight + 40;
  const height = mapTop + CELL * pageLines + 30;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${FONT}>`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    label(
      20,
      26,
      `Timeline: ${plural(report.extend.batches.length, "batch", "batches")}, budget ${report.options.budget} tokens`,
      14,
    ),
    ...timeline(report, colours, 40),
    label(20, mapTop - 12, `Pages: ${pages.length} of ${report.options.pageSize} tokens; page 0 is the null page`, 14),
    ...pageMap(pages, colours, mapTop, report.options.pageSize),
    "</svg>",
    "",
  ].join("\n");
}

function timeline(report: ExplainReport, colours: ReadonlyMap<string, string>, top: number): string[] {
  const out: string[] = [];
  const laneOf = new Map(report.requests.map((request, i) => [request.id, i]));
  for (const [id, lane] of laneOf) out.push(label(20, top + 30 + LANE * lane + 16, id));
  for (const batch of report.extend.batches.slice(0, MAX_BATCHES)) {
    const x = LEFT + COLUMN * (batch.index - 1);
    out.push(label(x, top + 18, `batch ${batch.index}: ${batch.tokens}`));
    for (const row of batch.rows) {
      const y = top + 30 + LANE * laneOf.get(row.request)!;
      const share = Math.max(0.06, Math.min(1, row.queryLen / report.extend.chunk));
      const rowWidth = (COLUMN - 8) * share;
      out.push(
        `<rect x="${x}" y="${y}" width="${rowWidth.toFixed(1)}" height="${LANE - 6}" rx="3" fill="${colours.get(row.request)}">` +
          `<title>${row.request}: positions [${row.start}, ${row.contextLen}), pages ${row.scatters.pages}</title></rect>`,
        label(rowWidth < 50 ? x + rowWidth + 3 : x + 4, y + 14, `${row.queryLen} @${row.start}`),
      );
    }
  }
  const more = report.extend.batches.length - MAX_BATCHES;
  if (more > 0) out.push(label(LEFT + COLUMN * MAX_BATCHES, top + 18, `${more} more`));
  return out;
}

interface PageCell {
  readonly page: number;
  readonly owner: RequestReport;
  readonly from: number;
  readonly used: number;
}

function pageCells(report: ExplainReport): PageCell[] {
  const { pageSize } = report.options;
  const cells = report.requests.flatMap((owner) =>
    expandPages(owner.pages).map((page, i) => ({
      page,
      owner,
      from: i * pageSize,
      used: Math.max(0, Math.min(pageSize, owner.contextLen - i * pageSize)),
    })),
  );
  return cells.sort((a, b) => a.page - b.page);
}

function pageMap(
  cells: readonly PageCell[],
  colours: ReadonlyMap<string, string>,
  top: number,
  pageSize: number,
): string[] {
  const out = [
    `<rect x="20" y="${top}" width="${CELL - 3}" height="${CELL - 3}" fill="#eee" stroke="#999"/>`,
    label(26, top + 17, "0"),
  ];
  for (const [i, cell] of cells.slice(0, MAX_PAGES).entries()) {
    const x = 20 + CELL * ((i + 1) % PAGES_PER_LINE);
    const y = top + CELL * Math.floor((i + 1) / PAGES_PER_LINE);
    const filled = ((CELL - 3) * cell.used) / pageSize;
    out.push(
      `<g><title>page ${cell.page}: ${cell.owner.id} positions [${cell.from}, ${cell.from + cell.used}), ` +
        `${cell.used} of ${pageSize} slots</title>` +
        `<rect x="${x}" y="${y}" width="${CELL - 3}" height="${CELL - 3}" fill="#fff" stroke="#999"/>` +
        `<rect x="${x}" y="${y}" width="${filled.toFixed(1)}" height="${CELL - 3}" fill="${colours.get(cell.owner.id)}"/></g>`,
      label(x + 3, y + 17, String(cell.page)),
    );
  }
  const more = cells.length - MAX_PAGES;
  if (more > 0)
    out.push(label(20, top + CELL * Math.ceil((MAX_PAGES + 1) / PAGES_PER_LINE) + 16, `${more} more pages`));
  return out;
}

function label(x: number, y: number, text: string, size = 11): string {
  return `<text x="${x}" y="${y}" font-size="${size}" fill="#222">${text}</text>`;
}

/** Hues a golden angle apart: neighbours differ, however many there are. */
function colourOf(index: number): string {
  return `hsl(${Math.round(210 + index * 137.5) % 360} 65% 78%)`;
}

function plural(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}
