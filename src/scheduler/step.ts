// What one step computes: rows of (request, start, queryLen). Reused: valid until it is scheduled again.

import type { Request } from "../core/request.js";

export class Step {
  /** Scheduled, and not landed yet. */
  isInFlight = false;
  scheduledMs = 0;
  numRows = 0;
  /** Sum of queryLens. */
  numTokens = 0;
  readonly rows: Request[] = []; // [numRows]
  readonly starts: Int32Array; // [numRows] first position computed: the tokens before it are in the cache
  readonly queryLens: Int32Array; // [numRows] tokens computed; the context is start + queryLen

  /** Requests that lost their pages in this step and wait again. */
  numPreempted = 0;
  readonly preempted: Request[] = []; // [numPreempted]

  /** A row has at least one token, so maxTokens bounds the rows too. */
  constructor(maxTokens: number) {
    this.starts = new Int32Array(maxTokens);
    this.queryLens = new Int32Array(maxTokens);
  }

  clear(): void {
    this.numRows = 0;
    this.numTokens = 0;
    this.numPreempted = 0;
  }

  /** One past the last position that row `row` computes. */
  endOf(row: number): number {
    return this.starts[row]! + this.queryLens[row]!;
  }

  /** Row `row` computes `count` tokens more. */
  extendRow(row: number, count: number): void {
    this.queryLens[row]! += count;
    this.numTokens += count;
  }

  addRow(request: Request, queryLen: number): void {
    const row = this.numRows++;
    this.rows[row] = request;
    this.starts[row] = request.numComputed;
    this.queryLens[row] = queryLen;
    this.numTokens += queryLen;
  }
}
