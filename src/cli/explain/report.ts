// What `pagoda explain` tells, as data: every batch with its arguments, its reads and writes, and what padding would have cost.

export type Mode = "extend" | "chunked";

export interface ExplainOptions {
  /** Prompt lengths. */
  readonly requests: readonly number[];
  /** Positions of rows that are already decoding: each has that many tokens in the cache. */
  readonly decodes: readonly number[];
  readonly pageSize: number;
  /** Ideal chunk of extend mode. */
  readonly chunk: number;
  /** Chunk of chunked mode. */
  readonly fixedChunk: number;
  /** Tokens per batch. */
  readonly budget: number;
}

export const EXPLAIN_DEFAULTS = { requests: [250, 300], decodes: [], pageSize: 16, chunk: 128, budget: 256 } as const;

/** Positions [from, to) and the pages that hold them, as "1-8,12". */
export interface Span {
  readonly from: number;
  readonly to: number;
  readonly pages: string;
}

export interface RowReport {
  readonly request: string;
  /** 1 for the request's first chunk; 0 for a decode row. */
  readonly chunk: number;
  readonly start: number;
  readonly queryLen: number;
  readonly contextLen: number;
  readonly isDecode: boolean;
  /** Cached positions the row reads beside its own. */
  readonly gathers: Span;
  readonly scatters: Span;
}

/** The kernel arguments as the padded form has them; page tables as page lists. */
export interface ArgumentReport {
  readonly tokensShape: readonly [number, number];
  readonly startPositions: readonly number[];
  readonly queryLens: readonly number[];
  readonly contextLens: readonly number[];
  readonly maxPages: number;
  readonly pageTable: readonly string[];
}

export interface BatchReport {
  readonly index: number;
  readonly rows: readonly RowReport[];
  readonly tokens: number;
  /** Tokens added when each chunk is padded as the mode does: extend to whole pages, chunked to the fixed chunk. */
  readonly padding: number;
  /** tokens / (tokens + padding). */
  readonly efficiency: number;
  /** Tokens that a rectangle over all rows would add. The ragged batch adds none. */
  readonly rectanglePadding: number;
  readonly args: ArgumentReport;
}

export interface ModeReport {
  readonly mode: Mode;
  readonly chunk: number;
  readonly budget: number;
  readonly batches: readonly BatchReport[];
  readonly tokens: number;
  readonly padding: number;
  readonly efficiency: number;
  readonly largestBatchRows: number;
  readonly largestBatchTokens: number;
  /** Batches that hold prompt chunks and decodes together. */
  readonly mixedBatches: number;
}

export interface RequestReport {
  readonly id: string;
  readonly isDecode: boolean;
  /** Prompt length, or the decode row's first position. */
  readonly tokens: number;
  /** Tokens in the cache at the end. */
  readonly contextLen: number;
  /** Its pages at the end, in extend mode. */
  readonly pages: string;
  readonly numPages: number;
}

export interface ExplainReport {
  readonly options: ExplainOptions;
  readonly requests: readonly RequestReport[];
  readonly extend: ModeReport;
  readonly chunked: ModeReport;
}

/** Page ids with consecutive ones joined: "1-8,12". */
export function pageList(pages: ArrayLike<number>): string {
  const parts: string[] = [];
  for (let i = 0; i < pages.length; ) {
    let end = i + 1;
    while (end < pages.length && pages[end] === pages[end - 1]! + 1) end++;
    parts.push(end - i === 1 ? String(pages[i]) : `${pages[i]}-${pages[end - 1]}`);
    i = end;
  }
  return parts.join(",");
}

/** The ids of a page list. */
export function expandPages(list: string): number[] {
  if (list === "") return [];
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number) as [number, number?];
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}
