// Requests whose next page is the same: the first computes it, the other waits until it has landed and shares it.

import { haveSamePage } from "../cache/request-pages.js";
import type { Request } from "../core/request.js";
import type { Step } from "./step.js";

/** A row of the step, from `firstRow` on, computes the request's next page. */
export function computesNextPage(step: Step, firstRow: number, request: Request, pageSize: number): boolean {
  for (let r = firstRow; r < step.numRows; r++) {
    const isWholePage = step.queryLens[r]! >= pageSize;
    if (
      isWholePage &&
      step.starts[r] === request.numComputed &&
      step.rows[r]!.state === "running" &&
      sharesNextPage(request, step.rows[r]!, pageSize)
    ) {
      return true;
    }
  }
  return false;
}

/** The page from a.numComputed on is the same for both and whole, with at least one token of `a` after it. */
function sharesNextPage(a: Request, b: Request, pageSize: number): boolean {
  const start = a.numComputed;
  const end = start + pageSize;
  // What is only pending for b, or a guess, has no identity yet.
  return a.numTokens > end && b.numTokens >= end && haveSamePage(a, b, start / pageSize, pageSize);
}
