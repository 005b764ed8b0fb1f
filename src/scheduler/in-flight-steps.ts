// Steps that are scheduled and have not landed, oldest first: they land in that order.

import type { Request } from "../core/request.js";
import { computesNextPage } from "./prefix-dedup.js";
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
