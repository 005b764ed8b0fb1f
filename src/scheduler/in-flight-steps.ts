// Steps that are scheduled and have not landed, oldest first: they land in that order. Of requests whose next page is the same the first
// computes it; the others wait until its step has landed and share it.

import { haveSamePage } from "../cache/request-pages.js";
import type { Request } from "../core/request.js";
import type { Step } from "./step.js";

export class InFlightSteps {
  readonly #steps: Step[] = []; // the first #count: an array that is emptied gives its room back, and filling it allocates
  #count = 0;

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  add(step: Step): void {
    step.isInFlight = true;
    this.#steps[this.#count++] = step;
  }

  retire(step: Step): void {
    if (this.#count === 0 || this.#steps[0] !== step) throw new Error("steps land in the order they were scheduled in");
    this.#steps.copyWithin(0, 1, this.#count--);
    step.isInFlight = false;
  }

  /** One of them computes the request's next page. */
  computeNextPage(request: Request, pageSize: number): boolean {
    for (let i = 0; i < this.#count; i++) if (computesNextPage(this.#steps[i]!, 0, request, pageSize)) return true;
    return false;
  }
}

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
