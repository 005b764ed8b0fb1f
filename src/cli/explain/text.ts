// `pagoda explain` as text for a terminal. Long reports are cut, and say so; --json has everything.

import type { BatchReport, ExplainReport, ModeReport, RowReport, Span } from "./report.js";

const MAX_BATCHES = 24;
const MAX_TIMELINE = 10;
const MAX_VALUES = 16;

export function renderExplain(report: ExplainReport): string {
  const { extend, chunked, options } = report;
  const shown = extend.batches.slice(0, MAX_BATCHES);
  const more = extend.batches.length - shown.length;
  const lines = [
    `${report.requests.length} requests, ${options.pageSize} tokens a page, chunks of ${extend.chunk}, ` +
      `budget ${options.budget} tokens a batch (${options.budget / options.pageSize} pages)`,
    ...section("Requests", requestTable(report)),
    ...section("Chunks", chunkTable(shown, more)),
    ...section("Batches", batchTable(shown, more, options.budget)),
    ...shown.flatMap((batch) => section(`Batch ${batch.index}`, argumentLines(batch))),
    ...section("Timeline (tokens @ start position)", timeline(report)),
    ...section(
      "Two modes over the same work",
      comparison(
        extend,
        chunked,
        report.requests.some((r) => r.isDecode),
      ),
    ),
    "",
  ];
  return lines.join("\n");
}

function section(title: string, body: readonly string[]): string[] {
  return ["", title, ...body.map((line) => `  ${line}`)];
}

function requestTable(report: ExplainReport): string[] {
  const rows = report.requests.map((request) => [
    request.id,
    request.isDecode ? `decoding at ${request.tokens}` : `${request.tokens} prompt tokens`,
    `${request.numPages} pages`,
    cut(request.pages),
  ]);
  return table(rows, "llrl");
}

function chunkTable(batches: readonly BatchReport[], more: number): string[] {
  const rows = batches
    .flatMap((batch) => batch.rows.filter((row) => !row.isDecode).map((row) => ({ batch: batch.index, row })))
    .sort((a, b) => a.row.request.localeCompare(b.row.request, "en", { numeric: true }) || a.batch - b.batch)
    .map(({ batch, row }) => [
      nameOf(row),
      `[${row.start}, ${row.contextLen})`,
      String(row.queryLen),
      String(row.contextLen),
      String(batch),
    ]);
  return [...table([["chunk", "positions", "tokens", "context", "batch"], ...rows], "llrrr"), ...moreLine(more)];
}

function batchTable(batches: readonly BatchReport[], more: number, budget: number): string[] {
  const rows = batches.map((batch) => [
    String(batch.index),
    String(batch.tokens),
    String(budget - batch.tokens),
    String(batch.padding),
    percent(batch.efficiency),
    String(batch.rectanglePadding),
    cut(batch.rows.map(nameOf).join(" ")),
  ]);
  const head = ["batch", "tokens", "left", "page padding", "efficiency", "rectangle padding", "rows"];
  return [
    ...table([head, ...rows], "rrrrrrl"),
    "page padding: each chunk rounded up to pages. rectangle padding: every row as long as the longest. Ragged: none.",
    ...moreLine(more),
  ];
}

function argumentLines(batch: BatchReport): string[] {
  const { args } = batch;
  const named = table(
    [
      ["tokens", `[${args.tokensShape.join(", ")}]`],
      ["start positions", list(args.startPositions)],
      ["query lengths", list(args.queryLens)],
      ["context lengths", list(args.contextLens)],
      ["page table", `[${args.tokensShape[0]}, ${args.maxPages}], padded with the null page 0`],
    ],
    "ll",
  );
  const rows = batch.rows
    .slice(0, MAX_VALUES)
    .map((row) => [
      nameOf(row),
      `gathers ${span(row.gathers)}`,
      `scatters ${span(row.scatters)}`,
      `attends ${row.queryLen} new + ${row.start} cached`,
    ]);
  return [...named, ...table(rows, "llll"), ...moreLine(batch.rows.length - rows.length, "rows")];
}

function timeline(report: ExplainReport): string[] {
  const batches = report.extend.batches.slice(0, MAX_TIMELINE);
  const rows = report.requests.map((request) => [
    request.id,
    ...batches.map((batch) => {
      const row = batch.rows.find((r) => r.request === request.id);
      return row === undefined ? "." : `${row.queryLen} @${row.start}`;
    }),
  ]);
  const head = ["batch", ...batches.map((batch) => String(batch.index))];
  return [
    ...table([head, ...rows], "l".repeat(head.length)),
    ...moreLine(report.extend.batches.length - batches.length),
  ];
}

function comparison(extend: ModeReport, chunked: ModeReport, hasDecodes: boolean): string[] {
  const both = (name: string, of: (mode: ModeReport) => string | number) => [
    name,
    String(of(extend)),
    String(of(chunked)),
  ];
  return table(
    [
      ["", "extend", "chunked"],
      ["chunk", `up to ${extend.chunk}, its own length`, `${chunked.chunk}, padded`],
      ["one batch holds", "chunks of any length, by token budget", "chunks of one size, or decodes"],
      ["rows in a batch", "as many as the budget has tokens", `at most ${chunkRows(chunked)} chunks`],
      both("invocations", (mode) => mode.batches.length),
      both("largest batch", (mode) => `${mode.largestBatchRows} rows, ${mode.largestBatchTokens} tokens`),
      both("tokens", (mode) => mode.tokens),
      both("padding", (mode) => mode.padding),
      both("efficiency", (mode) => percent(mode.efficiency)),
      ...(hasDecodes ? [both("batches mixing prompts and decodes", (mode) => mode.mixedBatches)] : []),
    ],
    "lll",
  );
}

/** Chunks that fit one batch of chunked mode, where each costs its full size. */
function chunkRows(chunked: ModeReport): number {
  return Math.max(1, Math.floor(chunked.budget / chunked.chunk));
}

function nameOf(row: RowReport): string {
  return row.isDecode ? row.request : `${row.request}C${row.chunk}`;
}

function span({ from, to, pages }: Span): string {
  return from === to ? "nothing" : `[${from}, ${to}) pages ${cut(pages)}`;
}

function percent(fraction: number): string {
  return `${(100 * fraction).toFixed(1)}%`;
}

function list(values: readonly number[]): string {
  const more = values.length - MAX_VALUES;
  return `[${values.slice(0, MAX_VALUES).join(", ")}${more > 0 ? `, ... ${more} more` : ""}]`;
}

function cut(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

function moreLine(count: number, what = "batches"): string[] {
  return count > 0 ? [`... ${count} more ${what}; --json has them`] : [];
}

/** Columns as wide as their widest cell; `align` has an l or r for each. */
function table(rows: readonly (readonly string[])[], align: string): string[] {
  const widths = Array.from(align, (_, c) => Math.max(0, ...rows.map((row) => row[c]!.length)));
  return rows.map((row) =>
    row
      .map((cell, c) => (align[c] === "r" ? cell.padStart(widths[c]!) : cell.padEnd(widths[c]!)))
      .join("  ")
      .trimEnd(),
  );
}
