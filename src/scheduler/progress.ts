// What a request has to go, read from its counts: there are no phases.

import type { Request } from "../core/request.js";

/** One generated token to go. A promised one may be the last: then there is nothing to compute after it. */
export function isDecode(request: Request): boolean {
  return (
    request.numExpected - request.numComputed === 1 &&
    request.numComputed >= request.promptLen &&
    (request.numPromised === 0 || request.numExpected < request.maxLength)
  );
}

/** Prompt tokens to go, or those of a preempted request. Neither this nor isDecode: all its tokens are computed. */
export function isPrefill(request: Request): boolean {
  return request.numComputed < request.numTokens && !isDecode(request);
}

export function hasWaitedLonger(a: Request, b: Request): boolean {
  return a.priority < b.priority || (a.priority === b.priority && a.lastServedStep < b.lastServedStep);
}
