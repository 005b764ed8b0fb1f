// What a request has to go, read from its counts: there are no phases.

import { ceilDiv } from "./math.js";
import type { Request } from "./request.js";

/**
 * One generated token to go, and those before it that are computed once more. A pending one may be the last: then there is nothing to compute after it; and a request that no longer runs ahead
 * waits for it.
 */
export function isDecode(request: Request): boolean {
  return (
    request.numTokensWithPending - request.numComputed - request.numRewound === 1 &&
    request.numComputed >= request.promptLen &&
    (request.numPending === 0 || (request.runsAhead && request.numTokensWithPending < request.maxLength))
  );
}

/** A row from `start` on computes the last of its generated tokens: it draws one, and may try guesses beside it. */
export function isDecoded(request: Request, start: number): boolean {
  return start >= request.promptLen && request.numComputed === request.numTokens;
}

/** Prompt tokens to go, or those of a preempted request. Neither this nor isDecode: all its tokens are computed. */
export function isPrefill(request: Request): boolean {
  return request.numComputed < request.numTokens && !isDecode(request);
}

/** Its next token can be computed, and the one after it chosen when that is computed. */
export function canSample(request: Request): boolean {
  const { supply, numComputed } = request;
  return canChoose(request) && (supply === null || supply.endFor(numComputed, numComputed + 1) > numComputed);
}

/** Behind a pending token its mask comes while the flight computes; behind a draw that was given up (giveUpDraw), once that flight has landed. */
function canChoose({ readiness, numPending, numInFlight, numComputed, promptLen }: Request): boolean {
  if (readiness === null) return true;
  if (numPending > 0) return readiness.isQuick?.() === true;
  return (numInFlight === 0 || numComputed < promptLen) && readiness.isReady();
}

/** Its answer may need a further page. Its last token needs none: nothing is computed after it. */
export function willGrow({ numTokens, maxLength }: Request, pageSize: number): boolean {
  return maxLength - 1 > ceilDiv(numTokens, pageSize) * pageSize;
}

/** It ran, and waits to run again. */
export function isPreempted({ state, numPreemptions }: Request): boolean {
  return state === "waiting" && numPreemptions > 0;
}

export function hasWaitedLonger(a: Request, b: Request): boolean {
  return a.priority < b.priority || (a.priority === b.priority && a.lastServedStep < b.lastServedStep);
}

/** It asks for no answer: it is over when its prompt is computed. */
export function endsWithPrompt({ sampling }: Request): boolean {
  return sampling.maxTokens === 0;
}

/** The first token of a call with several samples: the others begin from the same logits. */
export function isForking(request: Request): boolean {
  const { sampling, sampleIndex, numGenerated } = request;
  return sampling.n > 1 && sampleIndex === 0 && numGenerated === 0 && !endsWithPrompt(request);
}

/** Further samples that begin when the request is computed up to `end`: each is a draw from the same logits. */
export function forksAt(request: Request, end: number): number {
  return end === request.promptLen && isForking(request) ? request.sampling.n - 1 : 0;
}
