// Where a prompt's chunks may end: at page boundaries, but for those inside a medium whose tokens see each other. What such a token sees must be
// computed in its step or before.

import { alignDown } from "../core/math.js";
import type { MediumSpan } from "../core/media.js";
import type { Request } from "../core/request.js";

/** The first end after `start`: the request's last token at the latest. */
export function nextEnd(request: Request, start: number, pageSize: number): number {
  const { numTokens, media } = request;
  let end = alignDown(start, pageSize) + pageSize;
  while (end < numTokens && isInside(media, end)) end += pageSize;
  return Math.min(end, numTokens);
}

/** The last page boundary up to `most` that is one; `start`: there is none after it. */
export function lastEnd(request: Request, start: number, most: number, pageSize: number): number {
  const { media } = request;
  let end = alignDown(most, pageSize);
  while (end > start && isInside(media, end)) end -= pageSize;
  return Math.max(end, start);
}

/** The longest chunk that cannot be cut, wherever the request begins. */
export function longestUncut(request: Request, pageSize: number): number {
  let longest = 0;
  for (let start = 0; start < request.numTokens; ) {
    const end = nextEnd(request, start, pageSize);
    longest = Math.max(longest, end - start);
    start = end;
  }
  return longest;
}

function isInside(media: readonly MediumSpan[], position: number): boolean {
  for (let i = 0; i < media.length; i++) {
    const { start, end, isWhole } = media[i]!;
    if (isWhole === true && start < position && position < end) return true;
  }
  return false;
}
