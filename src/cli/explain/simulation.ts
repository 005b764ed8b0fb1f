// Runs `pagoda explain`: the real scheduler and cache manager over the given lengths in both modes, without a model.
//
// Prompts end with their last chunk. Decode rows go on until the prompts are done in extend mode, and are given the same number of
// tokens in chunked mode, so that the two compare equal work.

import { CacheManager } from "../../cache/cache-manager.js";
import { errorFor } from "../../core/errors.js";
import type { RequestId } from "../../core/ids.js";
import { alignDown, alignUp, ceilDiv } from "../../core/math.js";
import { Request } from "../../core/request.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import { Scheduler, type Step } from "../../scheduler/scheduler.js";
import { type PageRun, paddedArguments, pageRuns, type ShapeRow } from "./batch-shapes.js";
import {
  type BatchReport,
  EXPLAIN_DEFAULTS,
  type ExplainOptions,
  type ExplainReport,
  type Mode,
  type ModeReport,
  pageList,
  type RequestReport,
  type RowReport,
  type Span,
} from "./report.js";

export function runExplain(given: Partial<ExplainOptions> = {}): ExplainReport {
  const options = { ...EXPLAIN_DEFAULTS, fixedChunk: given.chunk ?? EXPLAIN_DEFAULTS.chunk, ...given };
  check(options);
  const extend = simulate("extend", options, null);
  const chunked = simulate("chunked", options, extend.decoded);
  return { options, requests: extend.requests, extend: extend.report, chunked: chunked.report };
}

const MAX_TOKENS = 65_536;
/** Each batch lists the pages of its rows, so the report grows with their square. */
const MAX_PAGES = 4096;

function check(options: ExplainOptions): void {
  const { requests, decodes, pageSize, chunk, fixedChunk, budget } = options;
  const counts: [string, number][] = [
    ["page-size", pageSize],
    ["chunk", chunk],
    ["fixed-chunk", fixedChunk],
    ["budget", budget],
    ...requests.map((n): [string, number] => ["requests", n]),
    ...decodes.map((n): [string, number] => ["decodes", n]),
  ];
  for (const [param, value] of counts) {
    if (!Number.isInteger(value) || value < 1 || value > MAX_TOKENS)
      refuse(param, value, `whole numbers, 1 to ${MAX_TOKENS}`);
  }
  const total = [...requests, ...decodes].reduce((a, b) => a + b, 0);
  if (total === 0) refuse("requests", "empty", "at least one length, or give --decodes");
  const pages = [...requests, ...decodes].reduce((n, length) => n + ceilDiv(length, pageSize), 0);
  if (pages > MAX_PAGES)
    refuse("requests", `${pages} pages in all`, `at most ${MAX_PAGES}; shorten them or raise --page-size`);
  if (budget % pageSize !== 0) refuse("budget", budget, `a multiple of the page size, ${pageSize}`);
  // Every row costs a token, and prompts need a place beside the decodes.
  if (decodes.length >= budget) refuse("decodes", `${decodes.length} rows`, `fewer rows than the budget, ${budget}`);
}

function refuse(param: string, value: string | number, expected: string): never {
  throw errorFor("invalid_option", { param: `--${param}`, value, expected });
}

interface Simulation {
  readonly report: ModeReport;
  readonly requests: readonly RequestReport[];
  /** Tokens each decode row computed, by id. */
  readonly decoded: ReadonlyMap<string, number>;
}

/** Runs one mode. `targets`: tokens each decode row is to compute; null: as many as come until the prompts are done. */
function simulate(mode: Mode, options: ExplainOptions, targets: ReadonlyMap<string, number> | null): Simulation {
  const { pageSize, budget } = options;
  const wanted = mode === "extend" ? options.chunk : options.fixedChunk;
  const chunk = Math.max(pageSize, alignDown(Math.min(wanted, budget), pageSize));
  const prompts = options.requests.map((length, i) => makeRequest(`R${i + 1}`, length, i));
  const decodes = options.decodes.map((length, i) => makeRequest(`D${i + 1}`, length, prompts.length + i));

  // A pool in which nothing is preempted. Of two steps one at least computes a page of prompt; a decode grows by a token a step.
  const promptPages = prompts.reduce((n, request) => n + ceilDiv(request.numTokens, pageSize), 0);
  const decodePages = decodes.reduce((n, request) => n + ceilDiv(request.numTokens + 2 * promptPages + 2, pageSize), 0);
  const cache = new CacheManager({
    pageSize,
    prefixCaching: true,
    groups: [{ kind: "full", numPages: 1 + promptPages + decodePages }],
  });
  const scheduler = new Scheduler(
    { mode, pageSize, maxPagesPerBatch: budget / pageSize, idealChunk: chunk, fixedChunk: chunk },
    cache,
    () => 0,
  );

  // Decode rows first compute their history, off the record, and then have one token to go.
  for (const request of decodes) scheduler.add(request);
  for (let step = scheduler.schedule(); step !== null; step = scheduler.schedule()) scheduler.land(step);
  for (const request of decodes) request.appendToken(0);
  for (const request of prompts) scheduler.add(request);

  const recorder = new BatchRecorder(pageSize, mode === "extend" ? pageSize : chunk);
  const decoded = new Map<string, number>();
  for (let step = scheduler.schedule(); step !== null; step = scheduler.schedule()) {
    recorder.record(step);
    scheduler.land(step);
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      if (request.numComputed < request.numTokens) continue;
      if (!isDecoding(request)) {
        scheduler.finish(request, "length");
        continue;
      }
      const count = (decoded.get(request.id) ?? 0) + 1;
      decoded.set(request.id, count);
      if (count === targets?.get(request.id)) scheduler.finish(request, "length");
      else request.appendToken(0);
    }
    if (targets === null && prompts.every((request) => request.state === "finished")) break;
  }
  const { batches, requests } = recorder;
  return {
    report: summarise(mode, chunk, budget, batches),
    requests: [...prompts, ...decodes].map((request) => requests.get(request.id)!),
    decoded,
  };
}

/** Requests share no token, so that no prefix is shared. */
function makeRequest(id: string, length: number, index: number): Request {
  const prompt = Int32Array.from({ length }, (_, i) => index * MAX_TOKENS + i);
  return new Request({ id: id as RequestId, prompt, sampling: { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 1 } });
}

function isDecoding(request: Request): boolean {
  return request.numGenerated > 0;
}

class BatchRecorder {
  readonly batches: BatchReport[] = [];
  /** As of the request's last row. */
  readonly requests = new Map<string, RequestReport>();
  readonly #pageSize: number;
  /** What a chunk's length is rounded up to in this mode. */
  readonly #alignTo: number;
  readonly #chunks = new Map<string, number>();

  constructor(pageSize: number, alignTo: number) {
    this.#pageSize = pageSize;
    this.#alignTo = alignTo;
  }

  record(step: Step): void {
    const shapes: ShapeRow[] = [];
    const rows: RowReport[] = [];
    let padding = 0;
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      const row = { start: step.starts[r]!, queryLen: step.queryLens[r]!, isDecode: isDecoding(request) };
      const pages = request.tables[0]!.pages.slice(0, request.tables[0]!.numPages);
      shapes.push({ tokens: request.tokens, start: row.start, queryLen: row.queryLen, pages });
      rows.push(this.#describeRow(request, row, pages));
      if (!row.isDecode) padding += alignUp(row.queryLen, this.#alignTo) - row.queryLen;
    }
    const args = paddedArguments(shapes, rows.every((row) => row.isDecode) ? 1 : this.#alignTo);
    this.batches.push({
      index: this.batches.length + 1,
      rows,
      tokens: step.numTokens,
      padding,
      efficiency: step.numTokens / (step.numTokens + padding),
      rectanglePadding: args.padding,
      args: {
        tokensShape: [rows.length, args.paddedLen],
        startPositions: args.startPositions,
        queryLens: args.queryLens,
        contextLens: args.contextLens,
        maxPages: args.pageTable[0]!.length,
        pageTable: shapes.map((shape) => pageList(shape.pages)),
      },
    });
  }

  #describeRow(
    request: Request,
    row: { start: number; queryLen: number; isDecode: boolean },
    pages: Int32Array,
  ): RowReport {
    const contextLen = row.start + row.queryLen;
    const chunk = row.isDecode ? 0 : (this.#chunks.get(request.id) ?? 0) + 1;
    this.#chunks.set(request.id, chunk);
    this.requests.set(request.id, {
      id: request.id,
      isDecode: row.isDecode,
      tokens: request.promptLen,
      contextLen,
      pages: pageList(pages),
      numPages: pages.length,
    });
    return {
      request: request.id,
      chunk,
      ...row,
      contextLen,
      gathers: spanOf(pageRuns(pages, 0, row.start, this.#pageSize), 0, row.start),
      scatters: spanOf(pageRuns(pages, row.start, contextLen, this.#pageSize), row.start, contextLen),
    };
  }
}

function summarise(mode: Mode, chunk: number, budget: number, batches: readonly BatchReport[]): ModeReport {
  let tokens = 0;
  let padding = 0;
  let mixedBatches = 0;
  for (const batch of batches) {
    tokens += batch.tokens;
    padding += batch.padding;
    const numDecodes = batch.rows.filter((row) => row.isDecode).length;
    if (numDecodes > 0 && numDecodes < batch.rows.length) mixedBatches++;
  }
  return {
    mode,
    chunk,
    budget,
    batches,
    tokens,
    padding,
    efficiency: tokens / (tokens + padding),
    largestBatchRows: Math.max(...batches.map((batch) => batch.rows.length)),
    largestBatchTokens: Math.max(...batches.map((batch) => batch.tokens)),
    mixedBatches,
  };
}

function spanOf(runs: readonly PageRun[], from: number, to: number): Span {
  return { from, to, pages: pageList(runs.map((run) => run.page)) };
}
