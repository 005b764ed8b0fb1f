// The page fields of a request, as the cache manager alone changes them.

import type { Request } from "../core/request.js";

export function forgetPages(request: Request): void {
  request.numPages = 0;
  request.numSharedPages = 0;
  request.numComputed = 0;
}

/** Leading tokens whose K and V the parent has and the child needs. */
export function commonLen(parent: Request, child: Request): number {
  const limit = Math.min(parent.numLanded, child.numTokens);
  let length = 0;
  while (length < limit && parent.tokens[length] === child.tokens[length]) length++;
  return length;
}

export function growPages(request: Request, capacity: number): void {
  if (capacity <= request.pages.length) return;
  const grown = new Int32Array(Math.max(capacity, request.pages.length * 2));
  grown.set(request.pages);
  request.pages = grown;
}
